"""Held messages beside replies, conversations that ended, restarts and a store that fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.core_house import Answer, Guest, House, Line, refused
from xsessiond.core.admission import Setting
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.policy import CoreSettings
from xsessiond.core.records import MarkMessage, Op, PutHold

HOUR_S = 3600
HOLD = Setting("hold", "user", "config.toml:2")


@pytest.fixture
def house() -> House:
    return House(CoreSettings(pacing=PaceSettings(target_burst=0, sender_burst=0)))


@pytest.fixture
def api(house: House) -> Guest:
    """Acts without asking, so that what it sends to `web` is held."""
    return house.join("api", **{"class": "bypass"})


@pytest.fixture
def web(house: House) -> Guest:
    return house.join("web", harness_session_id="talk")


# -- replies and waits -------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(house: House, api: Guest) -> Answer:
    """A question of `api`, which acts without asking, to `shy`, whose answers are held therefore."""
    shy = house.join("shy")
    house.approve(api.send(shy, "well?"))
    return api.line.ask("check")["messages"][0]


def test_a_held_reply_marks_nothing_before_it_is_let_through(house: House, api: Guest, asked: Answer) -> None:
    """6: `replied` is what an admitted message names. That it was read is known at once."""
    shy = _guest(house, "shy")
    reply = shy.ask("send", message="well.", reply_to=asked["id"])
    assert reply["state"] == "held"
    assert api.check(asked)["state"] == "delivered"
    house.pass_time(5)
    house.approve(reply["id"])
    found = api.check(asked)
    assert (found["state"], [step["state"] for step in found["history"]][-2:]) == ("replied", ["delivered", "replied"])
    assert api.read() == ["well."]


def test_a_reply_that_is_denied_was_none(house: House, api: Guest, asked: Answer) -> None:
    reply = _guest(house, "shy").ask("send", message="well.", reply_to=asked["id"])
    house.deny(reply["id"])
    assert api.check(asked)["state"] == "delivered"


def test_a_held_reply_is_still_one_after_a_restart(house: House, api: Guest, asked: Answer) -> None:
    """And where the question was acknowledged long before."""
    shy = _guest(house, "shy")
    shy.ask("ack", ids=[asked["id"]])
    reply = shy.ask("send", message="well.", reply_to=asked["id"])
    house.restart()
    api.come_back()
    house.approve(reply["id"])
    assert api.check(asked)["state"] == "replied"


def test_who_waits_for_a_reply_gets_it_when_it_is_let_through(house: House) -> None:
    """8.2"""
    api, shy = house.join("api"), house.join("shy", **{"class": "bypass"})
    house.change_settings(hold_expiry_ms=None)
    api.change_class("bypass")
    waiting = api.begin_send(shy, "well?", wait_reply=100)
    api.change_class("prompting")
    (question,) = shy.take()
    reply = shy.send(None, "well.", reply_to=question["id"])
    assert reply["state"] == "held"
    assert not api.line.is_answered(waiting)
    house.approve(reply)
    answer = api.line.answer(waiting)
    assert (answer["state"], answer["reply"]["text"]) == ("replied", "well.")
    assert answer["reply"]["message"]["held"]["by"] == "human ann"


def test_nobody_waits_for_a_reply_to_a_held_message(house: House, api: Guest, web: Guest) -> None:
    """O4: the answer is that it is held; no reply can come before a human acts."""
    sent = api.send(web, "well?", wait_reply=100)
    assert (sent["state"], sent["reply"]) == ("held", None)
    assert house.broker.core.waits == {}


# -- conversations that ended ------------------------------------------------------------------------------------------


def test_mail_for_a_conversation_that_ended_may_be_held(house: House, api: Guest, web: Guest) -> None:
    """11.1, L1: it is listed, can be decided, and is taken when the conversation resumes."""
    house.kill(web)
    sent = api.send("web", "hello", when_offline="queue")
    assert sent["state"] == "held"
    assert "kept for when its conversation resumes" in sent["notice"]
    (hold,) = house.queue()
    assert (hold["to"]["state"], hold["to"]["held"]) == ("offline", 1)
    listed = house.script().ask("list", all=True)["sessions"]
    assert [(row["name"], row["held"]) for row in listed if row["state"] == "offline"] == [("web", 1)]
    house.approve(sent)
    again = house.join(harness_session_id="talk")
    assert again.read() == ["hello"]


def test_what_is_held_outlives_its_receivers_session(house: House, api: Guest, web: Guest) -> None:
    sent = api.send(web)
    house.kill(web)
    assert [hold["id"] for hold in house.queue()] == [sent["id"]]
    again = house.join(harness_session_id="talk", **{"class": "bypass"})
    assert again.read() == ["hello"], "its new class lets it through"


def test_a_session_with_held_mail_only_is_not_forgotten(house: House, api: Guest) -> None:
    """Also one whose conversation cannot be resumed: somebody must decide first."""
    plain = house.join("plain")
    api.send(plain)
    house.kill(plain)
    for number in range(600):
        house.kill(house.join(f"passer-by-{number}"))
    assert len(house.broker.core.roster.known) < 600
    assert len(house.queue()) == 1
    listed = house.script().ask("list", all=True)["sessions"]
    assert "plain" in {row["name"] for row in listed}


def test_what_is_held_by_a_setting_for_a_conversation_that_is_over_expires_too(house: House, web: Guest) -> None:
    """7.5: it does not wait for ever; kept as long as other mail is."""
    house.change_settings(inbound=(HOLD,), keep_ms=24 * HOUR_S * 1000)
    other = house.join("other")
    sent = other.send(web)
    house.pass_time(48 * HOUR_S)
    assert other.check(sent)["state"] == "held", "its receiver is there"
    house.kill(web)
    house.pass_time(24 * HOUR_S - 1)
    assert other.check(sent)["state"] == "held"
    house.pass_time(1)
    assert other.check(sent)["state"] == "expired"
    assert other.told() == [f"{sent['id']} to web expired: nobody decided about it in time."]


def test_what_comes_back_in_time_keeps_what_is_held(house: House, web: Guest) -> None:
    house.change_settings(inbound=(HOLD,), keep_ms=24 * HOUR_S * 1000)
    other = house.join("other")
    sent = other.send(web)
    house.kill(web)
    house.pass_time(HOUR_S)
    again = house.join(harness_session_id="talk")
    house.pass_time(48 * HOUR_S)
    house.broker._holding.expire_kept(again.session, house.now)
    assert other.check(sent)["state"] == "held"


def test_what_is_let_go_late_is_kept_from_then(house: House, api: Guest, web: Guest) -> None:
    """7.5: an approval of the eighth day is not undone at once."""
    house.change_settings(hold_expiry_ms=30 * 24 * HOUR_S * 1000)
    sent = api.send(web)
    house.kill(web)
    house.pass_time(8 * 24 * HOUR_S)
    assert api.check(sent)["state"] == "held", "it was told until when it waits"
    house.approve(sent)
    house.pass_time(6 * 24 * HOUR_S)
    assert api.check(sent)["state"] == "queued"
    house.pass_time(2 * 24 * HOUR_S)
    assert api.check(sent)["state"] == "expired"


# -- the store ---------------------------------------------------------------------------------------------------------


def holds_something(ops: tuple[Op, ...]) -> bool:
    return any(isinstance(op, PutHold) for op in ops)


def test_what_could_not_be_stored_was_never_held(house: House, api: Guest, web: Guest) -> None:
    """3.3: nothing of it stays, and its retry is no repeat."""
    watcher = house.human()
    watcher.ask("hold_queue", watch=True)
    before = house.state()
    house.failing = holds_something
    assert refused(lambda: api.send(web, key="k")).code == "internal"
    assert house.owed == []
    house.failing = lambda ops: False
    after = house.state()
    for what in ("held", "sizes", "messages", "receipts", "store", "log"):
        assert after[what] == before[what], what
    assert house.queue() == []
    assert watcher.notes[-1] == ("queue", {"held": [], "left_out": 0})
    house.pass_time(2 * HOUR_S)
    assert api.send(web, key="k")["state"] == "held"


def test_what_was_let_go_and_could_not_be_stored_is_given_again(house: House, api: Guest) -> None:
    """A link that was given it at once was not: it must ask again, and the store hears of it later."""
    web = house.join("web", push=True)
    sent = api.send(web)
    house.failing = holds_something
    assert refused(lambda: house.approve(sent)).code == "internal"
    house.failing = lambda ops: False
    assert not web.line.open
    assert web.line.pushes == []
    web.come_back(push=True)
    assert [push["message"]["id"] for push in web.line.pushes] == [sent["id"]]
    api.send(web, "the next takes along what is owed")
    found = house.store.find_message(sent["id"])
    assert found is not None
    assert found[0].state == "queued"


def test_what_waited_again_and_could_not_be_stored_is_given_again(house: House) -> None:
    """The same for what one link gave back and another was given."""
    api, web = house.join("api"), house.join("web", push=True)
    sent = api.send(web)
    first = web.line
    second = web.attach(push=True)
    first.ask("handed", ids=[sent["id"]])
    house.failing = lambda ops: any(isinstance(op, MarkMessage) and op.state == "queued" for op in ops)
    first.drop()
    house.failing = lambda ops: False
    assert not second.open
    web.come_back(push=True)
    assert [push["message"]["id"] for push in web.line.pushes] == [sent["id"]]


def test_a_restart_in_the_middle_keeps_everything(house: House, api: Guest, web: Guest) -> None:
    """5.1: holds, decisions, trust and the numbers."""
    other = house.join("other", **{"class": "bypass"})
    sent = [api.send(web, "1"), other.send(web, "2"), api.send(web, "3"), other.send(web, "4")]
    house.approve(sent[0])
    house.deny(sent[1])
    house.approve(sent[2], trust="pair")
    queue, before = house.queue(), house.state()
    house.restart()
    for guest in (api, web, other):
        guest.come_back()
    assert house.queue() == [{**hold, **_seen_now(house, hold)} for hold in queue]
    after = house.state()
    for what in ("held", "sizes", "trusts", "messages", "receipts"):
        assert after[what] == before[what], what
    assert web.read() == ["1", "3"]
    assert api.send(web, "trusted")["state"] == "queued"


@pytest.mark.parametrize("number", range(4))
def test_a_commit_is_whole(house: House, api: Guest, web: Guest, number: int) -> None:
    """A broker that dies between any two commits comes back with each message in one place."""
    steps: list[Callable[[], object]] = [
        lambda: api.send(web, "x"),
        lambda: house.approve(*house.queue()[:1]),
        lambda: web.change_class("bypass"),
    ]
    api.send(web, "first")
    for step in steps[:number]:
        step()
    before = house.state()
    house.restart()
    after = house.state()
    for what in ("held", "sizes", "messages"):
        assert after[what] == before[what], what


def _guest(house: House, name: str) -> Line:
    """The line of a session that a fixture made."""
    session = house.broker.core.roster.named(name)
    assert session is not None
    (link,) = session.links
    return house.lines[link]


def _seen_now(house: House, hold: Answer) -> Answer:
    """What a restart changes of a hold: when its parties were last heard."""
    now = {session["id"]: session for session in house.listed()}
    return {side: now[hold[side]["id"]] for side in ("from", "to")}

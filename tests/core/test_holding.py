"""Held messages: how they wait, that nobody gets at them meanwhile, and how many there may be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.core_house import Guest, House, Line, is_sentence, peer, refused
from xsessiond.core import holding, limits
from xsessiond.core.admission import Setting
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.policy import CoreSettings, ProjectSettings
from xsessiond.core.times import parse_time

HOUR_S = 3600
HOLD = Setting("hold", "user", "config.toml:2")
REFUSE = Setting("refuse", "user", "config.toml:2")
OUT = Setting("hold", "project", ".xsessiond.toml:1")


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


# -- held --------------------------------------------------------------------------------------------------------------


def test_a_held_message_is_told_of_and_stored(house: House, api: Guest, web: Guest) -> None:
    """5.3, H5: the answer says that, why, until when, and where; the store has it before."""
    sent = api.send(web, "hello")
    assert (sent["state"], sent["rule"]) == ("held", "parity: from a session that acts without asking")
    assert parse_time(sent["expires_at"]) == house.ms + HOUR_S * 1000
    assert "mode-mismatch" in sent["notice"]
    assert "xsessionctl hold-queue" in sent["notice"]
    assert sent["notice"].endswith("Do not send it again.")
    snapshot = house.store.load()
    (row,), (hold,) = snapshot.messages, snapshot.holds
    assert (row.id, row.state, hold.message_id, hold.cause) == (sent["id"], "held", sent["id"], "mode-mismatch")
    assert hold.expires_at == house.ms + HOUR_S * 1000


def test_its_sender_sees_it_at_once(house: House, api: Guest, web: Guest) -> None:
    """5.3, H5, H6: state, rule and end, also in the history."""
    sent = api.send(web)
    found = api.check(sent)
    assert (found["state"], found["rule"], found["expires_at"]) == ("held", sent["rule"], sent["expires_at"])
    assert [(step["state"], step["rule"], step["by"]) for step in found["history"]] == [("held", sent["rule"], None)]
    (brief,) = api.line.ask("check")["messages"]
    assert (brief["state"], brief["expires_at"]) == ("held", sent["expires_at"])


def test_the_counters_tell_held_from_queued(house: House, api: Guest, web: Guest) -> None:
    api.send(web, "one")
    api.send(web, "two")
    other = house.join("other")
    other.send(web)
    status = house.script().ask("status")
    assert (status["queued"], status["held"]) == (1, 2)
    (row,) = [session for session in house.listed() if session["name"] == "web"]
    assert (row["queued"], row["held"]) == (1, 2)
    assert (web.session.box.size, web.session.box.held_size) == (5, 6)


def test_the_user_is_told(house: House, api: Guest, web: Guest) -> None:
    """5.9"""
    api.send(web)
    (notice,) = house.notified
    assert (notice.title, notice.text) == ("A message for web is held", "From api: mode-mismatch.")


def test_whether_anybody_looks_is_said(house: House, api: Guest, web: Guest) -> None:
    """H11: a sender may choose another route when nobody is known to be there."""
    unseen = "Nobody is known to be looking."
    assert unseen in api.send(web, "1")["notice"]
    agent = api.shell()
    agent.ask("hold_queue", watch=True)
    assert unseen in api.send(web, "2")["notice"], "an agent that watches decides nothing"
    human = house.human()
    human.ask("hold_queue", watch=True)
    assert unseen not in api.send(web, "3")["notice"]
    human.drop()
    assert unseen in api.send(web, "4")["notice"]
    house.change_settings(notifies=True)
    assert unseen not in api.send(web, "5")["notice"]
    house.change_settings(notifies=True, passphrase=True)
    assert unseen not in api.send(web, "6")["notice"]
    house.change_settings(notifies=True, passphrase=True, passphrase_is_set=False)
    assert unseen in api.send(web, "7")["notice"], "whoever looks can decide nothing"


# -- nobody gets at it -------------------------------------------------------------------------------------------------


def test_a_held_message_is_in_nobodys_reach(house: House, api: Guest, web: Guest) -> None:
    """5.2, S7: neither taken, looked at, handed, acknowledged, given back nor answered, by either side."""
    sent = api.send(web, "secret")
    before = house.state()
    assert web.take() == []
    assert web.line.ask("inbox")["messages"] == []
    assert web.ack(sent) == 0
    assert web.line.ask("handed", ids=[sent["id"]]) == {"handed": 0}
    assert web.line.ask("release", ids=[sent["id"]]) == {"released": 0}
    assert refused(lambda: web.send(None, "yes", reply_to=sent["id"])).code == "not_found"
    assert refused(lambda: web.check(sent)).code == "not_found"
    assert api.ack(sent) == 0
    assert house.state() == before


def test_no_push_and_no_notice_of_mail(house: House, api: Guest) -> None:
    pushed, pulled = house.join("pushed", push=True), house.join("pulled")
    for target in (pushed, pulled):
        api.send(target)
        assert target.line.pushes == []
        assert target.line.notes == []


def test_what_was_released_may_be_answered(house: House, api: Guest, web: Guest) -> None:
    """Although the store's first word of it is that it was held."""
    sent = api.send(web)
    house.approve(sent)
    answer = web.send(None, "yes", reply_to=sent["id"])
    assert answer["state"] == "held", "api acts without asking, web asks"
    assert answer["to"]["id"] == api.id


@pytest.mark.parametrize("verdict", ["approve", "deny"])
def test_its_text_is_not_in_the_receivers_log(house: House, api: Guest, web: Guest, verdict: str) -> None:
    """S7, 5.2: the log is no way round. Whoever sent it sees it, and so does the human."""
    sent = api.send(web, "secret")

    def texts(line: Line) -> list[str | None]:
        return [entry["text"] for entry in line.ask("log")["entries"]]

    shell = web.shell()
    assert texts(shell) == [None]
    assert texts(api.shell()) == ["secret"]
    assert texts(house.human()) == ["secret"]
    house.decide(verdict, sent)
    assert texts(shell) == (["secret"] if verdict == "approve" else [None])


# -- room --------------------------------------------------------------------------------------------------------------


def test_a_hundred_are_held_and_the_next_is_refused(house: House, api: Guest, web: Guest) -> None:
    """5.5: nothing is evicted, nothing of the refused one is stored."""
    sent = [api.send(web, f"{number}") for number in range(99)]
    sent.append(api.send(web, "the hundredth"))
    before = house.state()
    refusal = refused(lambda: api.send(web, "one too many"))
    assert (refusal.code, refusal.data["detail"]) == ("hold_full", {"held": 100})
    assert is_sentence(refusal.text)
    assert house.state() == before
    assert house.join("other", **{"class": "bypass"}).line, "the limit is the receiver's"
    house.deny(sent[0])
    assert api.send(web, "one too many")["state"] == "held"


def test_the_limit_is_a_setting(house: House, api: Guest, web: Guest) -> None:
    """10.6: lowered below what is held it takes nothing away."""
    for number in range(3):
        api.send(web, f"{number}")
    house.change_settings(held_per_session=2)
    assert len(web.session.box.held) == 3
    assert refused(lambda: api.send(web, "more")).code == "hold_full"


def test_what_is_held_has_a_bound_in_bytes(house: House, api: Guest, web: Guest) -> None:
    """13.3: a hundred of the largest do not fill the broker's memory."""
    body = "x" * (limits.MAX_BODY - 1000)
    most = limits.QUEUE_BYTES_PER_SESSION // len(body)
    for number in range(most):
        api.send(web, f"{number:04}" + body[4:])
    refusal = refused(lambda: api.send(web, "last" + body[4:]))
    assert refusal.code == "hold_full"
    assert api.send(web, "a short one")["state"] == "held"


def test_a_full_queue_does_not_keep_a_message_from_being_held(house: House, api: Guest, web: Guest) -> None:
    """And the other way round: the two limits are about different things."""
    other = house.join("other")
    for number in range(limits.QUEUE_PER_SESSION):
        other.send(web, f"{number}")
    assert refused(lambda: other.send(web, "more")).code == "queue_full"
    sent = api.send(web)
    assert sent["state"] == "held"
    house.approve(sent)
    assert len(web.session.box) == limits.QUEUE_PER_SESSION + 1, "what a person let through is not turned away"


def test_pace_and_repeats_count_held_ones(api: Guest, web: Guest, house: House) -> None:
    """10.1, 10.4"""
    house.change_settings(pacing=PaceSettings(target_burst=2))
    sent = api.send(web, "one")
    refusal = refused(lambda: api.send(web, "one"))
    assert (refusal.code, refusal.data["detail"]) == ("duplicate", {"id": sent["id"], "state": "held"})
    assert refusal.hint == "It is not lost: do not repeat it."
    api.send(web, "two")
    assert refused(lambda: api.send(web, "three")).code == "rate_limited"


def test_a_repeat_of_what_was_denied_says_that(house: House, api: Guest, web: Guest) -> None:
    sent = api.send(web, "one")
    house.deny(sent)
    refusal = refused(lambda: api.send(web, "one"))
    assert (refusal.code, refusal.data["detail"]["state"]) == ("duplicate", "denied")
    assert refusal.hint == "It did not go through: do not repeat it as it is."


def test_a_key_names_the_held_message(house: House, api: Guest, web: Guest) -> None:
    """3.4: with its state and its end as they are now."""
    sent = api.send(web, key="k")
    again = api.send(web, key="k")
    same = ("id", "state", "rule", "expires_at")
    assert [again[name] for name in same] == [sent[name] for name in same]
    house.approve(sent)
    later = api.send(web, key="k")
    assert (later["id"], later["state"], later["expires_at"]) == (sent["id"], "queued", None)
    assert len(house.store.load().messages) == 1


# -- outbound ----------------------------------------------------------------------------------------------------------


def test_what_goes_out_may_be_held_for_the_human(house: House, web: Guest) -> None:
    """4.9, H13: with the text to look at, and released when the setting goes, also that of a project."""
    house.projects["/src/out"] = ProjectSettings("/src", outbound=(OUT,))
    sender = house.join("sender", cwd="/src/out")
    sent = sender.send(web, "an outside word")
    assert (sent["state"], sent["expires_at"]) == ("held", None)
    (hold,) = house.queue()
    assert (hold["cause"], hold["text"], hold["preview"]) == ("outbound", "an outside word", "an outside word")
    house.change_project(sender)
    assert sender.check(sent)["state"] == "queued"


def test_what_goes_out_may_be_refused(house: House, web: Guest) -> None:
    house.change_settings(outbound=(REFUSE,))
    sender = house.join("sender")
    assert refused(lambda: sender.send(web)).data["detail"] == {"rule": "outbound = refuse (user: config.toml:2)"}


def test_what_a_session_tells_its_own_human_is_not_held(house: House, web: Guest) -> None:
    """The user's box takes everything, whatever the settings say."""
    house.change_settings(outbound=(HOLD,))
    human = house.human()
    asked = human.ask("send", to=web.id, message="done?")
    assert asked["state"] == "queued"
    web.take()
    assert web.send(None, "yes", reply_to=asked["id"])["state"] == "queued"
    assert [message["text"] for message in human.ask("take")["messages"]] == ["yes"]


def test_a_sender_that_was_forgotten_lets_nothing_out(house: House, web: Guest) -> None:
    """What its own settings held stays held when nothing is known of them any more."""
    house.projects["/src/out"] = ProjectSettings("/src", outbound=(OUT,))
    sender = house.join("sender", cwd="/src/out")
    other = house.join("other", **{"class": "bypass"})
    sent, parity = sender.send(web, "one"), other.send(web, "two")
    for guest in (sender, other):
        house.kill(guest)
        house.broker.core.roster.forget(guest.session)
    web.change_class("bypass")
    web.change_class("prompting")
    assert [hold["id"] for hold in house.queue()] == [sent["id"]]
    assert [message["id"] for message in web.take()] == [parity["id"]]
    assert house.approve(sent)[0]["state"] == "queued"


# -- a program of several sessions -------------------------------------------------------------------------------------


def test_a_program_that_may_be_any_of_several_is_bound_by_each(house: House) -> None:
    """4.3, 3.7: one that acts without asking cannot pass for a script through a harness that it shares."""
    web, daring = house.join("web"), house.join("daring", **{"class": "bypass"})
    house.join("one", pid=5000, **{"class": "bypass"})
    two = house.join("two", pid=5000, cwd="/other")
    line = house.connect(peer(5100, 5000))
    sent = line.ask("send", to=web.id, message="hello")
    assert (sent["state"], sent["rule"]) == ("held", "parity: perhaps from a session that acts without asking")
    other = line.ask("send", to=daring.id, message="hello")
    assert other["state"] == "held"
    for target in (web, daring):
        target.change_class("bypass")
        target.change_class("prompting")
    assert len(house.queue()) == 2
    two.change_class("bypass")
    assert line.ask("send", to=daring.id, message="now both are known to be daring")["state"] == "held"
    daring.change_class("bypass")
    assert line.ask("send", to=daring.id, message="as is the receiver")["state"] == "queued"


def test_what_may_not_go_out_of_one_goes_out_of_none(house: House, web: Guest) -> None:
    house.projects["/src/out"] = ProjectSettings("/src", outbound=(OUT,))
    house.join("one", pid=5000)
    house.join("two", pid=5000, cwd="/src/out")
    line = house.connect(peer(5100, 5000))
    sent = line.ask("send", to=web.id, message="hello")
    assert (sent["state"], sent["rule"]) == ("held", "outbound = hold (project: .xsessiond.toml:1)")
    web.change_class("bypass")
    web.change_class("prompting")
    assert [hold["id"] for hold in house.queue()] == [sent["id"]]


# -- trust -------------------------------------------------------------------------------------------------------------


def test_a_verdict_is_worked_out_once_for_as_long_as_nothing_changes(
    house: House, api: Guest, web: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0
    real = holding.decide

    def counted(*args: Any) -> Any:
        nonlocal count
        count += 1
        return real(*args)

    monkeypatch.setattr(holding, "decide", counted)
    other = house.join("other")
    for number in range(5):
        other.send(web, str(number))
    assert count == 1
    web.change_class("bypass")
    web.change_class("prompting")
    other.send(web, "again")
    assert count == 2


def test_trust_covers_its_pair_until_it_ends(house: House, api: Guest, web: Guest) -> None:
    """4.6: one with an end is looked at each time; others of the same sender are other pairs."""
    other = house.join("other")
    house.approve(api.send(other, "0"), trust="session")
    house.approve(api.send(web, "1"), trust="pair", for_s=10)
    assert [api.send(web, str(number))["state"] for number in (2, 3)] == ["queued", "queued"]
    house.pass_time(10)
    assert api.send(web, "4")["state"] == "held"
    house.kill(other)
    assert list(house.state()["trusts"]) == [house.store.load().trusts[0].id]
    house.kill(web)
    assert len(house.state()["trusts"]) == 1, "a pair outlives its sessions"

"""Sending what is held or refused: the answer, and that every check comes before the first effect."""

from __future__ import annotations

import pytest

from tests.support.core_house import Guest, House, is_sentence, refused
from xsessiond.core.admission import Setting
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.policy import CoreSettings
from xsessiond.core.records import MarkMessage, Op, PutHold, PutMessage, PutPin

REFUSE = Setting("refuse", "user", "config.toml:2")


@pytest.fixture
def api(house: House) -> Guest:
    """Acts without asking, so that what it sends to `web` is held."""
    return house.join("api", **{"class": "bypass"})


@pytest.fixture
def web(house: House) -> Guest:
    return house.join("web", harness_session_id="talk")


def test_what_is_refused_stores_nothing_and_costs_nothing(house: House, api: Guest, web: Guest) -> None:
    """3.2: and the rule says who said so and where."""
    house.change_settings(inbound=(REFUSE,), pacing=PaceSettings(target_burst=1))
    before = house.state()
    for _ in range(3):
        refusal = refused(lambda: api.send(web))
        assert (refusal.code, refusal.data["detail"]) == ("refused", {"rule": "inbound = refuse (user: config.toml:2)"})
        assert is_sentence(refusal.text)
    assert house.state() == before
    house.change_settings(inbound=())
    assert api.send(web)["state"] == "held"


def test_a_human_is_refused_too(house: House, web: Guest) -> None:
    """4.4"""
    house.change_settings(inbound=(REFUSE,))
    assert refused(lambda: house.human().ask("send", to=web.id, message="hello")).code == "refused"


def test_a_held_message_is_one_commit_in_order(house: House, api: Guest, web: Guest) -> None:
    """3.3: the message, its pin, its hold, its step, before anybody hears of it."""
    seen: list[tuple[Op, ...]] = []

    def note(ops: tuple[Op, ...]) -> bool:
        seen.append(ops)
        return False

    house.failing = note  # type: ignore[assignment]
    api.send("web")
    (ops,) = seen
    assert [type(op) for op in ops] == [PutMessage, PutPin, PutHold, MarkMessage]
    assert house.broker.core.messages.keys() == {ops[0].row.id}  # type: ignore[union-attr]


def test_the_answer_says_all_there_is_to_know(house: House, api: Guest, web: Guest) -> None:
    """5.3: beside what it says of the target anyway."""
    web.line.ask("rename", name="front")
    sent = api.send(f"web [{web.ref}]")
    assert sent["notice"] == (
        f"web is now called front [{web.ref}]. Held (mode-mismatch): a human decides with `xsessionctl hold-queue`. "
        "Nobody is known to be looking. Do not send it again."
    )


def test_who_cannot_decide_is_not_looking(house: House, api: Guest, web: Guest) -> None:
    """H11: a passphrase is asked for and none is set, so that nobody can."""
    house.change_settings(passphrase=True, passphrase_is_set=False, notifies=True)
    assert "Nobody is known to be looking." in api.send(web)["notice"]


def test_a_reply_that_is_held_shows_that_the_original_was_read(house: House, api: Guest, web: Guest) -> None:
    """6: whether its own box still has it, or it was acknowledged before."""
    web.change_class("bypass")
    asked = [web.send(api, f"{number}?") for number in range(2)]
    web.change_class("prompting")
    api.take()
    api.ack(asked[0])
    for one in asked:
        assert api.send(None, f"to {one['id']}", reply_to=one["id"])["state"] == "held"
        assert web.check(one)["state"] == "delivered"
    assert api.session.box.leased == {}
    house.approve(all=True)
    assert [web.check(one)["state"] for one in asked] == ["replied", "replied"]


def test_a_reply_that_is_held_twice_is_a_reply_once(house: House, api: Guest, web: Guest) -> None:
    web.change_class("bypass")
    asked = web.send(api, "well?")
    first = api.send(None, "yes", reply_to=asked["id"])
    assert first["state"] == "queued"
    web.change_class("prompting")
    second = api.send(None, "yes, really", reply_to=asked["id"])
    assert second["state"] == "held"
    before = web.check(asked)["history"]
    house.pass_time(1)
    house.approve(second)
    assert web.check(asked)["history"] == before


def test_a_wait_does_not_begin_for_what_is_held(house: House, api: Guest, web: Guest) -> None:
    """8.2, O4"""
    request = api.begin_send(web, wait_reply=60)
    assert api.line.answer(request)["state"] == "held"
    assert house.broker.core.waits == {}


def test_mail_for_a_conversation_that_ended_is_held_for_it(house: House, api: Guest, web: Guest) -> None:
    """11.1"""
    house.kill(web)
    sent = api.send("web", when_offline="queue")
    assert sent["state"] == "held"
    assert sent["notice"].startswith("web does not run; kept for when its conversation resumes. Held (mode-mismatch)")


def test_an_old_receiver_is_asked_whether_it_is_there(house: House, api: Guest, web: Guest) -> None:
    """1.6: also when it gets nothing yet."""
    house.pass_time(10)
    api.send(web)
    assert len(web.line.pings) == 1


def test_what_is_not_stored_is_not_held(house: House, api: Guest, web: Guest) -> None:
    house.failing = lambda ops: True
    assert refused(lambda: api.send(web)).code == "internal"
    house.failing = lambda ops: False
    assert house.state()["held"][web.id] == []
    assert api.send(web)["state"] == "held"


def test_the_queue_has_its_limit_and_the_held_have_theirs(house: House, web: Guest) -> None:
    house = House(CoreSettings(pacing=PaceSettings(queue_per_session=1), held_per_session=1))
    daring, asking, target = house.join("daring", **{"class": "bypass"}), house.join("asking"), house.join("target")
    assert [who.send(target, "1")["state"] for who in (daring, asking)] == ["held", "queued"]
    assert refused(lambda: daring.send(target, "2")).code == "hold_full"
    assert refused(lambda: asking.send(target, "2")).code == "queue_full"

"""How messages of each mode get to their receiver: what is due is offered, what is not waits in its place."""

from __future__ import annotations

import pytest

from tests.support.core_house import Answer, Guest, House
from xsessiond.core.limits import PUSH_WINDOW, RELEASE_PAUSE_S
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.state import CoreSettings

ALL = ["auto", "followup", "inject", "steer"]


@pytest.fixture
def house() -> House:
    return House(CoreSettings(pacing=PaceSettings(target_burst=0, sender_burst=0, queue_per_session=200)))


@pytest.fixture
def web(house: House) -> Guest:
    """It pulls."""
    guest = house.join("web", modes=ALL)
    turn(guest, "ended")
    return guest


@pytest.fixture
def door(house: House) -> Guest:
    """It is pushed to."""
    guest = house.join("door", modes=ALL, delivery="push", push=True)
    turn(guest, "ended")
    return guest


def turn(guest: Guest, phase: str) -> None:
    guest.line.ask("turn", phase=phase)


def mail(guest: Guest) -> list[int]:
    """How many messages each notice that mail began to wait spoke of."""
    return [params["queued"] for method, params in guest.line.notes if method == "mail"]


def texts(messages: list[Answer]) -> list[str]:
    return [message["text"] for message in messages]


def pushed(guest: Guest) -> list[str]:
    return texts([push["message"] for push in guest.line.pushes])


def test_a_followup_comes_when_the_turn_is_over(api: Guest, web: Guest) -> None:
    """3.6: and what its sender wrote after it, behind it. What others write does not wait for it."""
    turn(web, "started")
    api.send(web, "for later", mode="followup")
    api.send(web, "after that")
    assert mail(web) == []
    assert web.line.ask("take") == {"messages": [], "receipts": [], "left": 0}
    web.house.join("other").send(web, "at once")
    assert mail(web) == [1]
    assert texts(web.take()) == ["at once"]
    turn(web, "ended")
    assert mail(web) == [1, 2]
    answer = web.line.ask("take", max=1)
    assert (texts(answer["messages"]), answer["left"]) == (["for later"], 1)
    assert texts(web.take()) == ["after that"]


@pytest.mark.parametrize("mode", ["auto", "inject", "steer"])
def test_what_is_for_this_turn_comes_in_this_turn(api: Guest, web: Guest, mode: str) -> None:
    """W4, 3.6: at its next step, whenever that is: nothing is said to anybody that would interrupt it."""
    turn(web, "started")
    notes = len(web.line.notes)
    api.send(web, "left, not right", mode=mode)
    assert web.line.notes[notes:] == [("mail", {"queued": 1})]
    (message,) = web.take()
    assert (message["text"], message["mode"]) == ("left, not right", mode)


@pytest.mark.parametrize("mode", ["inject", "steer"])
def test_what_missed_its_turn_waits_for_the_next_and_begins_none(api: Guest, door: Guest, mode: str) -> None:
    """3.6: never downgraded. A turn that began meanwhile, for whatever reason, has it at once."""
    turn(door, "started")
    for number in range(PUSH_WINDOW):
        api.send(door, f"{number}")
    api.send(door, "too late", mode=mode)
    turn(door, "ended")
    door.line.tell("ack", upto=PUSH_WINDOW)
    assert len(pushed(door)) == PUSH_WINDOW
    assert door.take() == []
    assert door.line.ask("inbox")["messages"][0]["state"] == "queued"
    turn(door, "started")
    assert pushed(door)[PUSH_WINDOW:] == ["too late"]


def test_a_door_that_is_given_something_too_late_gives_it_back(api: Guest, door: Guest) -> None:
    """It was pushed while the turn ran, and could not be placed before the end."""
    turn(door, "started")
    api.send(door, "left, not right", mode="steer")
    (push,) = door.line.pushes
    turn(door, "ended")
    door.line.ask("release", ids=[push["message"]["id"]])
    door.house.pass_time(RELEASE_PAUSE_S * 2)
    assert len(door.line.pushes) == 1, "it is not offered to an idle session"
    turn(door, "started")
    assert pushed(door) == ["left, not right"] * 2


def test_an_idle_session_begins_a_turn_for_the_usual_and_for_a_followup(api: Guest, door: Guest) -> None:
    """W20, 7.1"""
    api.send(door, "1")
    api.send(door, "2", mode="followup")
    assert pushed(door) == ["1", "2"]


def test_a_state_that_is_reported_otherwise_counts_too(api: Guest, web: Guest) -> None:
    """A turn that asks its user something runs on; a harness that cannot tell any more holds nothing up."""
    turn(web, "started")
    web.line.ask("update", state="waiting")
    api.send(web, "for later", mode="followup")
    api.house.join("other").send(web, "now", mode="steer")
    assert texts(web.take()) == ["now"]
    web.line.ask("update", state="unknown")
    assert mail(web) == [1, 1]
    assert texts(web.take()) == ["for later"]


def test_nothing_waits_for_a_turn_of_a_session_that_tells_of_none(house: House, api: Guest, web: Guest) -> None:
    """7.4, W13: a shim that was started anew has not said yet where its session stands."""
    turn(web, "started")
    api.send(web, "now", mode="steer")
    house.restart()
    web.come_back()
    assert texts(web.take()) == ["now"]


def test_five_that_wait_are_one_batch_in_order(house: House, api: Guest, web: Guest) -> None:
    """W15: and what is to change the course of a turn does not stand behind what is for after it."""
    other = house.join("other")
    for number in range(5):
        api.send(web, f"{number}")
    assert texts(web.take()) == ["0", "1", "2", "3", "4"]
    turn(web, "started")
    for number in range(5):
        api.send(web, f"later {number}", mode="followup")
    other.send(web, "stop, the branch is gone", mode="steer")
    assert texts(web.take()) == ["stop, the branch is gone"]
    turn(web, "ended")
    assert texts(web.take()) == [f"later {number}" for number in range(5)]


def test_what_is_not_due_is_not_stuck(house: House, api: Guest, web: Guest) -> None:
    """W5: however long the turn is."""
    turn(web, "started")
    api.send(web, "for later", mode="followup")
    for _ in range(10):
        house.pass_time(3600)
        web.line.ask("update", state="busy")
        turn(web, "started")
    assert api.told() == []
    assert not any(session["stuck"] for session in house.listed())
    turn(web, "ended")
    house.pass_time(3600)
    turn(web, "ended")
    assert len(api.told()) == 1

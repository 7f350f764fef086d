"""What a session should have read by now, and who is told."""

from __future__ import annotations

import pytest

from tests.support.core_house import Guest, House
from xsessiond.core.limits import STALLED_AFTER_S, STUCK_AFTER_MS

STUCK_AFTER_S = STUCK_AFTER_MS / 1000


def row(house: House, guest: Guest) -> dict[str, object]:
    return next(session for session in house.listed() if session["id"] == guest.id)


def told(guest: Guest) -> list[tuple[str, str]]:
    return [(receipt["id"], receipt["state"]) for receipt in guest.line.ask("take")["receipts"]]


@pytest.mark.parametrize("seconds, stuck", [(STUCK_AFTER_S - 0.001, False), (STUCK_AFTER_S, True)])
@pytest.mark.parametrize("work", ["a turn begins", "a turn ends", "it sends"])
def test_mail_that_is_left_while_its_session_works_is_stuck(
    house: House, api: Guest, web: Guest, work: str, seconds: float, stuck: bool  # noqa: FBT001
) -> None:  # fmt: skip
    """W5: five messages sat unread all day while the recipient was active."""
    sent = [api.send(web, f"number {number}")["id"] for number in range(2)]
    house.pass_time(seconds)
    assert row(house, web)["stuck"] is False
    match work:
        case "a turn begins":
            web.line.tell("turn", phase="started", by="human")
        case "a turn ends":
            web.line.tell("turn", phase="ended")
        case _:
            web.send(api, "something else")
    assert row(house, web)["stuck"] is stuck
    told_now = [entry for entry in told(api) if entry[0] in sent]
    assert told_now == ([(sent[0], "queued"), (sent[1], "queued")] if stuck else [])
    web.line.tell("turn", phase="started")
    assert [entry for entry in told(api) if entry[0] in sent and stuck] == []  # once
    web.read()
    assert row(house, web)["stuck"] is False


def test_a_session_that_does_nothing_leaves_nothing_unread(house: House, api: Guest, web: Guest) -> None:
    """D7: it is idle, and may be for a day; that it answers pings is no work."""
    api.send(web, "hello")
    house.pass_time(24 * 3600)
    house.listed()
    assert row(house, web)["stuck"] is False
    web.line.tell("turn", phase="started")
    assert row(house, web)["stuck"] is True


def test_mail_that_came_while_its_session_was_away_waits_from_when_it_is_back(house: House) -> None:
    api = house.join("api")
    web = house.join("web", harness_session_id="talk")
    web.line.ask("end")
    api.send(web, "for later", when_offline="queue")
    house.pass_time(STUCK_AFTER_S)
    again = house.join("web", harness_session_id="talk")
    again.line.tell("turn", phase="started")
    assert row(house, again)["stuck"] is False


def test_what_was_held_waits_from_when_it_was_let_go(house: House, api: Guest) -> None:
    bold = house.join("bold", **{"class": "bypass"})
    sent = api.send(bold, "may I?")
    assert sent["state"] == "held"
    house.pass_time(STUCK_AFTER_S)
    house.human().ask("decide", verdict="approve", ids=[sent["id"]])
    bold.line.tell("turn", phase="started")
    assert row(house, bold)["stuck"] is False
    house.pass_time(STUCK_AFTER_S)
    bold.line.tell("turn", phase="ended")
    assert row(house, bold)["stuck"] is True


def test_what_was_handed_and_seen_in_no_turn_is_stalled(house: House, api: Guest, web: Guest) -> None:
    """6.3: told to the sender once, and shown for as long as it is so."""
    sent = api.send(web, "hello")["id"]
    web.line.ask("take")
    web.line.ask("handed", ids=[sent])
    house.pass_time(STALLED_AFTER_S - 0.001)
    assert row(house, web)["stalled"] == 0
    house.pass_time(0.001)
    assert row(house, web)["stalled"] == 1
    assert told(api) == [(sent, "stalled")]
    web.line.ask("release", ids=[sent])
    assert row(house, web)["stalled"] == 0
    web.line.ask("take")
    web.line.ask("handed", ids=[sent])
    house.pass_time(STALLED_AFTER_S)
    assert row(house, web)["stalled"] == 1
    web.line.ask("ack", ids=[sent])
    assert row(house, web)["stalled"] == 0

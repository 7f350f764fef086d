"""What a session's harness tells of its turns."""

from __future__ import annotations

import pytest

from tests.support.core_house import Guest, House, refused
from xsessiond.core.limits import STUCK_AFTER_MS


def state(guest: Guest) -> str:
    (found,) = [row["state"] for row in guest.line.ask("list")["sessions"] if row["id"] == guest.id]
    return str(found)


@pytest.mark.parametrize("by", ["human", "mail", "other", None])
def test_a_turn_makes_a_session_busy_and_its_end_idle(api: Guest, by: str | None) -> None:
    """1.7: whatever began it, and as often as it is told."""
    assert state(api) == "unknown"
    for phase, shown in (("started", "busy"), ("started", "busy"), ("ended", "idle"), ("ended", "idle")):
        assert api.line.ask("turn", phase=phase, by=by) == {}
        assert state(api) == shown


def test_a_turn_may_ask_its_user_something(api: Guest) -> None:
    api.line.tell("turn", phase="started", by="human")
    api.line.ask("update", state="waiting")
    assert state(api) == "waiting"
    api.line.tell("turn", phase="ended")
    assert state(api) == "idle"


def test_only_the_sessions_own_link_tells(house: House, api: Guest) -> None:
    stranger = house.connect(api.peer, door=api.id)
    assert refused(lambda: stranger.ask("turn", phase="started")).code == "not_permitted"
    assert refused(lambda: api.shell().ask("turn", phase="started")).code == "usage"
    assert state(api) == "unknown"


def test_the_end_of_a_turn_is_what_others_may_wait_for(house: House, api: Guest) -> None:
    """9.1: and another turn right after it defers that."""
    eve = house.join("eve")
    api.line.tell("turn", phase="started")
    eve.watch(api)
    api.line.tell("turn", phase="ended")
    api.line.tell("turn", phase="started")
    house.pass_time(60)
    assert eve.notices() == []
    api.line.tell("turn", phase="ended")
    house.pass_time(60)
    assert [notice["state"] for notice in eve.notices()] == ["idle"]


def test_who_wrote_long_before_a_turn_and_was_not_read_is_told_once(house: House, api: Guest) -> None:
    """W5"""
    web = house.join("web")
    sent = api.send(web)["id"]
    house.pass_time(STUCK_AFTER_MS / 1000)
    for phase in ("started", "ended"):
        web.line.tell("turn", phase=phase)
    assert [(receipt["id"], receipt["state"]) for receipt in api.line.ask("take")["receipts"]] == [(sent, "queued")]

"""When a message may enter its receiver's work: every mode in every state, and what a sender is told."""

from __future__ import annotations

from typing import get_args

import pytest

from xsessiond.core.ids import SessionId
from xsessiond.core.modes import BUSY, MODES, find_obstacle, is_due
from xsessiond.core.roster import Session
from xsessiond.core.wire_params import Mode, State

STATES = get_args(State)
DUE = {
    "auto": {"idle", "busy", "waiting", "unknown"},
    "followup": {"idle", "unknown"},
    "inject": {"busy", "waiting", "unknown"},
    "steer": {"busy", "waiting", "unknown"},
}


def session(state: str = "unknown", *, modes: tuple[str, ...] = MODES, ended: bool = False) -> Session:
    one = Session(SessionId("s-" + "b" * 32), "bbbbbb", "web")
    one.state, one.modes = state, modes
    one.ended_at = 1 if ended else None
    return one


def test_the_modes_and_states_are_those_of_the_wire() -> None:
    assert get_args(Mode) == MODES == tuple(DUE)
    assert set(STATES) > BUSY


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("state", STATES)
def test_when_a_message_is_due(mode: str, state: str) -> None:
    """3.6, 7.4: where nothing tells whether a turn runs, nothing is waited for."""
    assert is_due(mode, state) is (state in DUE[mode])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("state", STATES)
def test_what_a_session_takes(mode: str, state: str) -> None:
    """3.6: a followup is taken by whoever tells when it may come, the others only while a turn runs."""
    takes = {
        "auto": True,
        "followup": state != "unknown",
        "inject": state in BUSY,
        "steer": state in BUSY,
    }
    obstacle = find_obstacle(mode, session(state))
    assert (obstacle is None) is takes[mode]
    if state == "unknown" and obstacle is not None:
        assert obstacle == "it does not tell whether it is busy"
    elif obstacle is not None:
        assert obstacle == "no turn of it runs now, it is idle"


@pytest.mark.parametrize("mode", MODES)
def test_a_door_is_needed(mode: str) -> None:
    others = tuple(other for other in MODES if other != mode)
    for state in STATES:
        assert find_obstacle(mode, session(state, modes=others)) == "its harness has no door for that"


def test_one_that_does_not_run_is_not_busy() -> None:
    """11.1: what is kept for it comes when it begins again."""
    assert find_obstacle("auto", session(ended=True)) is None
    assert find_obstacle("followup", session(ended=True)) is None
    assert find_obstacle("steer", session("idle", ended=True)) == "no turn of it runs now, it is offline"


def test_a_person_reads_when_they_look() -> None:
    person = Session(SessionId("human"), "", "ann", kind="human")
    assert [find_obstacle(mode, person) is None for mode in MODES] == [True, True, False, False]

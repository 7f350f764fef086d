"""The door of one opencode session, with a plugin that does as it is told."""

from __future__ import annotations

from time import monotonic

import pytest

from xsessionctl.shim.door import GONE, REFUSED, WRITTEN
from xsessionctl.shim.doors.opencode import POST_S, PluginDoor


class Rig:
    """A door, and what became of the one text that is posted."""

    def __init__(self) -> None:
        self.door = PluginDoor(self._write)
        self.outcomes: list[str] = []
        self.door.post("text", busy=False, mode="auto", done=self.outcomes.append)

    def _write(self, text: str, *, quiet: bool) -> int:
        return 7

    def pass_time(self) -> None:
        self.door.tick(monotonic() + POST_S + 1.0)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_plugin_that_does_not_answer_is_given_up(rig: Rig) -> None:
    rig.pass_time()
    rig.door.answered(7, None)
    assert rig.outcomes == [GONE]
    assert not rig.door.is_open


def test_what_was_accepted_and_became_no_prompt_is_given_up(rig: Rig) -> None:
    """W17: opencode accepts a prompt before it knows whether it can make one."""
    rig.door.answered(7, None)
    rig.pass_time()
    rig.pass_time()
    assert rig.outcomes == [WRITTEN, GONE]
    assert not rig.door.is_open


@pytest.mark.parametrize("accepted", ["before", "after", "never"])
def test_a_prompt_of_the_conversation_stays_one(rig: Rig, accepted: str) -> None:
    """For as long as it takes until a step has it; whatever is said of it later."""
    if accepted == "before":
        rig.door.answered(7, None)
    rig.door.seen(7)
    if accepted == "after":
        rig.door.answered(7, "gone")
    rig.pass_time()
    assert rig.outcomes == [WRITTEN]
    assert rig.door.is_open
    assert rig.door.due is None


def test_one_that_is_removed_is_tried_again_once(rig: Rig) -> None:
    rig.door.seen(7)
    for _ in range(2):
        rig.door.removed(7)
    assert rig.outcomes == [WRITTEN, REFUSED]
    assert rig.door.is_open


def test_one_that_has_arrived_is_remembered_no_more(rig: Rig) -> None:
    rig.door.seen(7)
    rig.door.arrived(7)
    rig.door.removed(7)
    assert rig.outcomes == [WRITTEN]


def test_of_a_closed_door_nothing_is_told(rig: Rig) -> None:
    rig.door.seen(7)
    rig.door.close()
    rig.door.removed(7)
    rig.pass_time()
    assert rig.outcomes == [WRITTEN]

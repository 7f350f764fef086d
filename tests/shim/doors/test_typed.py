"""The door into a harness that is woken by typing: what the terminal's bell says, and what is made of it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from xsessionctl.shim.door import GONE, REFUSED, WRITTEN
from xsessionctl.shim.doors import typed
from xsessionctl.shim.doors.typed import Typed


class Rung:
    """A bell that a test answers by hand, and a door that leads to it."""

    def __init__(self, path: Path, harness: int | None = None) -> None:
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.listener.settimeout(5)
        self.door = Typed(str(path), harness)
        self.told: list[str] = []

    def post(self) -> None:
        self.door.post("", busy=False, mode="auto", done=self.told.append)

    def answer(self, word: bytes) -> None:
        caller, _ = self.listener.accept()
        with caller:
            assert caller.recv(64) == b"wake\n"
            caller.sendall(word)
        self.door.read()


@pytest.fixture
def rung(tmp_path: Path) -> Iterator[Rung]:
    made = Rung(tmp_path / "bell")
    yield made
    made.door.close()
    made.listener.close()


@pytest.mark.parametrize("word, outcome", [(b"typed\n", WRITTEN), (b"refused\n", REFUSED), (b"", REFUSED)])
def test_the_answer(rung: Rung, word: bytes, outcome: str) -> None:
    rung.post()
    assert rung.door.fileno() is not None
    rung.answer(word)
    assert rung.told == [outcome]
    assert (rung.door.fileno(), rung.door.due) == (None, None)


def test_one_at_a_time(rung: Rung) -> None:
    """W7"""
    rung.post()
    rung.post()
    assert rung.told == [REFUSED]


def test_no_answer_is_no(rung: Rung) -> None:
    rung.post()
    rung.door.tick(monotonic())
    assert rung.told == []
    rung.door.tick(monotonic() + typed.ANSWER_WITHIN_S)
    assert rung.told == [REFUSED]


BELL, OUTER, RELAUNCHED, SHELL, INNER = 10, 20, 30, 40, 50
PROCESSES = {
    OUTER: (BELL, ["node", "/usr/bin/gemini"]),
    RELAUNCHED: (OUTER, ["/usr/bin/node", "/usr/bin/gemini"]),
    SHELL: (RELAUNCHED, ["bash", "-c", "gemini -p 'look at this'"]),
    INNER: (SHELL, ["node", "/usr/bin/gemini", "-p"]),
    60: (BELL, ["/bin/sh", "/opt/bin/gemini"]),
    61: (60, ["node", "/usr/bin/gemini"]),
}


@pytest.mark.parametrize(
    "harness, hosted", [(OUTER, True), (RELAUNCHED, True), (61, True), (INNER, False), (BELL + 1, True), (70, True)]
)
def test_a_terminal_is_of_the_program_that_it_was_made_for(harness: int, hosted: bool) -> None:  # noqa: FBT001
    """S7: what the agent in it starts inherits the variable, and must not have its user's line typed. Where nothing is
    known of a process, as on macOS, the variable has to do."""
    assert typed.is_hosted(harness, BELL, PROCESSES.get) is hosted


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is known of other processes")
def test_another_program_s_terminal_is_a_broken_door(tmp_path: Path) -> None:
    """The bell is this process's, and so is no terminal of what stands above it."""
    rung = Rung(tmp_path / "bell", harness=os.getppid())
    try:
        rung.post()
        assert rung.told == [GONE]
    finally:
        rung.door.close()
        rung.listener.close()


def test_a_terminal_that_is_gone_is_a_broken_door(rung: Rung) -> None:
    """W17"""
    rung.listener.close()
    rung.path.unlink()
    rung.post()
    assert (rung.told, rung.door.is_open) == ([GONE], False)
    rung.door.reopen()
    assert not rung.door.is_open
    rung.path.touch()
    rung.door.reopen()
    assert rung.door.is_open


def test_a_door_that_is_closed_tells_nothing_more(rung: Rung) -> None:
    rung.post()
    rung.door.close()
    assert rung.told == []

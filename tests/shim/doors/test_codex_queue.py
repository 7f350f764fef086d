"""The queue of a Codex without the daemon: what is put there, by whom, and what becomes of a command that fails."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest

from xsessionctl.shim import loop
from xsessionctl.shim.codex import terminal_program
from xsessionctl.shim.dialects import CODEX, WAKE_LINE
from xsessionctl.shim.door import GONE, REFUSED, WRITTEN
from xsessionctl.shim.doors import codex_queue
from xsessionctl.shim.doors.codex_queue import Queue

WITHIN_S = 10.0
THREAD = "01a22ee9-3ad9-7391-b9c3-40f0cf9a2025"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], Queue]]:
    made: list[Queue] = []

    def make(script: str) -> Queue:
        program = tmp_path / "codex"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        made.append(Queue(str(program), str(tmp_path / "home")))
        made[-1].know(THREAD)
        return made[-1]

    yield make
    for door in made:
        door.close()


def post(door: Queue) -> list[str]:
    told: list[str] = []
    door.post("SECRET", busy=False, mode="auto", done=told.append)
    return told


def run(door: Queue, told: list[str]) -> None:
    end = monotonic() + WITHIN_S
    while not told:
        assert monotonic() < end
        loop.wait([door], due=[monotonic() + 0.05])


def test_its_own_command_is_given_a_line_of_ours_and_no_message(make: Callable[[str], Queue], tmp_path: Path) -> None:
    """L10: everybody can read a command line."""
    door = make(f'printf "%s\\n" "$@" "$CODEX_HOME" > {tmp_path}/asked')
    told = post(door)
    assert post(door) == [REFUSED]
    run(door, told)
    assert told == [WRITTEN]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["queue", "--thread", THREAD, "--message", WAKE_LINE, str(tmp_path / "home")]
    assert not CODEX.is_human(WAKE_LINE)
    assert (door.fileno(), door.due) == (None, None)


@pytest.mark.parametrize("script", ["exit 1", "kill -9 $$"])
def test_a_command_that_fails_closes_it(make: Callable[[str], Queue], script: str) -> None:
    """W17."""
    door = make(script)
    told = post(door)
    run(door, told)
    assert told == [GONE]
    assert not door.is_open
    door.reopen()
    assert door.is_open


def test_a_command_that_hangs_is_ended(make: Callable[[str], Queue]) -> None:
    door = make("exec sleep 1000")
    told = post(door)
    assert door.due is not None
    door.tick(door.due)
    assert told == [GONE]


def test_where_no_process_can_be_watched_there_is_no_queue(
    make: Callable[[str], Queue], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox of system calls may deny it, and the session goes on without."""

    def deny(pid: int) -> tuple[int, object]:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(codex_queue, "open_process", deny)
    door = make("exec sleep 1000")
    assert post(door) == [GONE]
    assert (door.is_open, door.fileno(), door.due) == (False, None, None)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_the_end_of_the_session_ends_the_command(make: Callable[[str], Queue]) -> None:
    door = make("exec sleep 1000")
    told = post(door)
    door.close()
    assert (told, door.fileno()) == ([], None)


def test_without_program_or_conversation_there_is_nothing_to_ask(tmp_path: Path) -> None:
    door = Queue(str(tmp_path / "none"), None)
    changes: list[bool] = []
    door.on_change = lambda: changes.append(door.is_open)
    assert not door.is_open
    assert post(door) == [REFUSED]
    door.know(THREAD)
    door.know(THREAD)
    assert changes == [True]
    assert post(door) == [GONE]
    assert not door.is_open


@pytest.mark.parametrize(
    "argv, program",
    [
        (["/x/bin/codex", "--no-daemon", "-a", "on-request"], "/x/bin/codex"),
        (["/x/bin/codex", "exec", "-"], None),
        (["/x/bin/codex", "-c", "a=b", "e", "-"], None),
        (["/x/bin/codex", "app-server"], None),
        (["codex"], None),
        (["/bin/sh"], None),
        ([], None),
    ],
)
def test_only_a_terminal_has_one(argv: list[str], program: str | None) -> None:
    assert terminal_program(argv) == program


def test_what_is_ended_is_reaped(make: Callable[[str], Queue]) -> None:
    run(door := make("exit 0"), post(door))
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)

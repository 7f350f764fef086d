"""The poll: who is served, when it wakes, and that a source that changed meanwhile is left alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from time import monotonic

import pytest

from xsessionctl.shim.door import GONE, Door
from xsessionctl.shim.loop import wait


class Pipe:
    """A source that reads what was written to it, and tells what was called."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.fd: int | None = self.reader
        self.wants_write = False
        self.due: float | None = None
        self.calls: list[str] = []
        self.on_write: Callable[[], None] = lambda: None

    def fileno(self) -> int | None:
        return self.fd

    def read(self) -> None:
        assert self.fd is not None
        self.calls.append(f"read {os.read(self.fd, 99).decode()}")

    def write(self) -> None:
        self.calls.append("write")
        self.on_write()

    def tick(self, now: float) -> None:
        self.calls.append("tick")


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    os.close(pipe.reader)
    os.close(pipe.writer)


def test_a_source_is_read_when_it_has_something(pipe: Pipe) -> None:
    os.write(pipe.writer, b"x")
    wait([pipe])
    assert pipe.calls == ["read x", "tick"]


def test_the_first_deadline_ends_the_wait(pipe: Pipe) -> None:
    pipe.due = monotonic() + 60
    began = monotonic()
    assert wait([pipe], due=[None, monotonic() + 0.01]) == (set(), set(), set())
    assert monotonic() - began < 30
    assert pipe.calls == ["tick"]


def test_a_deadline_of_a_source_counts(pipe: Pipe) -> None:
    pipe.due = monotonic() - 1
    wait([pipe], due=[None])
    assert pipe.calls == ["tick"]


def test_descriptors_are_told_by_what_they_are_ready_for(pipe: Pipe) -> None:
    os.write(pipe.writer, b"x")
    other_reader, other_writer = os.pipe()
    try:
        found = wait([], [pipe.reader, other_reader], [other_writer], [pipe.writer])
        assert found == ({pipe.reader}, {other_writer}, set())
    finally:
        os.close(other_reader)
        os.close(other_writer)


def test_a_source_with_nothing_open_is_only_ticked(pipe: Pipe) -> None:
    pipe.fd = None
    os.write(pipe.writer, b"x")
    wait([pipe], due=[monotonic()])
    assert pipe.calls == ["tick"]


def test_a_source_that_let_go_of_its_descriptor_is_not_read(pipe: Pipe) -> None:
    """As a link that broke while it was written to."""
    pipe.fd = pipe.writer
    pipe.wants_write = True
    pipe.on_write = lambda: setattr(pipe, "fd", None)
    wait([pipe])
    assert pipe.calls == ["write", "tick"]


def test_the_bare_door_is_never_open() -> None:
    door, outcomes = Door(), []
    door.post("text", busy=False, mode="auto", done=outcomes.append)
    door.reopen()
    door.on_change()
    wait([door], due=[monotonic()])
    assert (door.is_open, outcomes) == (False, [GONE])
    door.close()

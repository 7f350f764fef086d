"""Output that never blocks, and the truth about what was written."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from xsessionctl.shim.outlet import Outlet


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    readable, writable = os.pipe()
    open_ends = {readable, writable}
    yield readable, writable
    for fd in open_ends:
        try:
            os.close(fd)
        except OSError:
            pass


def test_a_line_is_reported_once_all_of_it_has_gone(pipe: tuple[int, int]) -> None:
    told: list[str] = []
    outlet = Outlet(pipe[1])
    outlet.put(b"x" * 5000, lambda: told.append("first"))
    outlet.put(b"end\n", lambda: told.append("second"))
    outlet.write_some()
    assert told == []
    assert outlet.waiting == 5004 - 4096
    outlet.write_some()
    outlet.write_some()
    assert told == ["first", "second"]
    assert os.read(pipe[0], 9000) == b"x" * 5000 + b"end\n"
    assert outlet.waiting == 0


def test_what_has_not_begun_can_be_taken_back(pipe: tuple[int, int]) -> None:
    told: list[str] = []
    outlet = Outlet(pipe[1])
    first = outlet.put(b"x" * 5000, dropped=lambda: told.append("first dropped"))
    second = outlet.put(b"y\n", dropped=lambda: told.append("second dropped"))
    outlet.write_some()
    assert not outlet.withdraw(first)
    assert outlet.withdraw(second)
    assert not outlet.withdraw(second)
    assert told == ["second dropped"]


def test_without_a_reader_everything_is_dropped_and_said_so(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    told: list[str] = []
    outlet = Outlet(pipe[1])
    for name in ("a", "b"):
        outlet.put(b"x\n", lambda: told.append("written"), lambda name=name: told.append(name))  # type: ignore[misc]
    outlet.write_some()
    assert (told, outlet.broken, outlet.waiting) == (["a", "b"], True, 0)
    outlet.put(b"late\n", dropped=lambda: told.append("late"))
    assert told[-1] == "late"


def test_a_full_pipe_that_does_not_block_is_tried_again_later(pipe: tuple[int, int]) -> None:
    os.set_blocking(pipe[1], False)
    outlet = Outlet(pipe[1])
    outlet.put(b"x" * (4 << 20))
    for _ in range(2000):
        outlet.write_some()
    assert not outlet.broken
    assert outlet.waiting > 0

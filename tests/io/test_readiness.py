"""One task for many descriptors."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest
import trio

from xsessiond.io.readiness import FdSet


@pytest.fixture
def fds() -> Iterator[FdSet]:
    made = FdSet()
    yield made
    made.close()


class Pipe:
    """A pipe that counts how often it was found readable, and is emptied then."""

    def __init__(self, fds: FdSet) -> None:
        self.fds = fds
        self.reading, self.writing = os.pipe()
        self.seen = 0
        self.changed = trio.Event()
        fds.add(self.reading, self.ready)

    def ready(self, fd: int) -> None:
        assert fd == self.reading
        os.read(fd, 100)
        self.seen += 1
        self.changed.set()
        self.changed = trio.Event()

    def write(self) -> None:
        os.write(self.writing, b"x")

    def close(self) -> None:
        self.fds.remove(self.reading)
        os.close(self.reading)
        os.close(self.writing)


async def test_each_readable_one_is_called(fds: FdSet, nursery: trio.Nursery) -> None:
    pipes = [Pipe(fds) for _ in range(200)]
    assert len(fds) == 200
    await nursery.start(fds.run)
    with trio.fail_after(10):
        for pipe in (pipes[0], pipes[150], pipes[0]):
            waiting = pipe.changed
            pipe.write()
            await waiting.wait()
    assert [number for number, pipe in enumerate(pipes) if pipe.seen] == [0, 150]
    assert pipes[0].seen == 2
    for pipe in pipes:
        pipe.close()
    assert len(fds) == 0


async def test_many_at_once_leave_others_their_turn(fds: FdSet, nursery: trio.Nursery) -> None:
    """More than one turn's worth; every one is called all the same."""
    pipes = [Pipe(fds) for _ in range(300)]
    for pipe in pipes:
        pipe.write()
    turns = 0
    await nursery.start(fds.run)
    with trio.fail_after(10):
        while any(not pipe.seen for pipe in pipes):
            await trio.lowlevel.checkpoint()
            turns += 1
    assert turns >= 4
    for pipe in pipes:
        pipe.close()


async def test_what_stays_readable_is_called_again(fds: FdSet, nursery: trio.Nursery) -> None:
    ours, theirs = socket.socketpair()
    calls = 0
    done = trio.Event()

    def ready(_: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            fds.remove(ours.fileno())
            done.set()

    with ours, theirs:
        fds.add(ours.fileno(), ready)
        theirs.close()  # a hang-up is readable for ever
        with trio.fail_after(10):
            await nursery.start(fds.run)
            await done.wait()
    assert calls == 3


async def test_a_callback_may_remove_and_add_others(fds: FdSet, nursery: trio.Nursery) -> None:
    """A descriptor that was closed in this turn gives its number to a new one, to which nothing has happened."""
    wrong: list[int] = []
    done = trio.Event()
    pairs = [os.pipe() for _ in range(2)]
    fresh: list[int] = []

    def ready(fd: int) -> None:
        other = next(reading for reading, _ in pairs if reading != fd)
        for reading, writing in pairs:
            fds.remove(reading)
            os.close(reading)
            os.close(writing)
        fresh.extend(os.pipe())
        fresh.extend(os.pipe())
        assert other in fresh
        fds.add(fresh[0], wrong.append)
        fds.add(fresh[2], wrong.append)
        done.set()

    for reading, writing in pairs:
        fds.add(reading, ready)
        os.write(writing, b"x")
    with trio.fail_after(10):
        await nursery.start(fds.run)
        await done.wait()
        await trio.testing.wait_all_tasks_blocked()
    assert wrong == []
    for fd in fresh:
        fds.remove(fd)
        os.close(fd)


async def test_adding_twice_is_our_bug_and_removing_twice_is_not(fds: FdSet) -> None:
    pipe = Pipe(fds)
    with pytest.raises(ValueError, match="is watched already"):
        fds.add(pipe.reading, pipe.ready)
    pipe.close()
    fds.remove(pipe.reading)


async def test_what_a_callback_raises_is_raised(fds: FdSet) -> None:
    reading, writing = os.pipe()
    os.close(writing)

    def ready(_: int) -> None:
        raise ZeroDivisionError

    fds.add(reading, ready)
    with pytest.raises(ZeroDivisionError), trio.fail_after(10):
        await fds.run()
    os.close(reading)


async def test_a_turn_s_callbacks_are_settled_once(nursery: trio.Nursery) -> None:
    """What a turn's descriptors brought can share one commit."""
    happened: list[str] = []
    pipes: list[Pipe] = []
    fds = FdSet(lambda: happened.append(f"settled after {sum(pipe.seen for pipe in pipes)}"))
    pipes += [Pipe(fds) for _ in range(3)]
    for pipe in pipes:
        pipe.write()
    nursery.start_soon(fds.run)
    await trio.testing.wait_all_tasks_blocked()
    assert happened == ["settled after 3"]
    for pipe in pipes:
        pipe.close()
    nursery.cancel_scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    fds.close()


async def test_nothing_runs_while_nothing_happens(fds: FdSet, nursery: trio.Nursery) -> None:
    """15.6: with thousands of descriptors the task is asleep, without a timer."""
    pipe = Pipe(fds)
    await nursery.start(fds.run)
    await trio.testing.wait_all_tasks_blocked()
    statistics = trio.lowlevel.current_statistics()
    assert statistics.seconds_to_next_deadline > 10
    pipe.close()


async def test_what_is_to_go_on_is_called_in_a_later_turn(fds: FdSet, nursery: trio.Nursery) -> None:
    called: list[str] = []
    done = trio.Event()

    def first() -> None:
        called.append("first")
        fds.soon(second)
        called.append("still first")

    def second() -> None:
        called.append("second")
        done.set()

    await nursery.start(fds.run)
    fds.soon(first)
    fds.soon(lambda: called.append("beside it"))
    with trio.fail_after(20):
        await done.wait()
    assert called == ["first", "still first", "beside it", "second"]
    assert len(fds) == 0

"""The ends of real processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio

from xsessiond.io import exits
from xsessiond.io.exits import ExitWatch
from xsessiond.io.processes import ProcessId, identify, own_process
from xsessiond.io.readiness import FdSet


@contextmanager
def sleeper() -> Iterator[tuple[subprocess.Popen[bytes], ProcessId]]:
    """A process that lives until it is killed."""
    with start_cat() as process:
        try:
            found = identify(process.pid)
            assert found is not None
            yield process, found
        finally:
            process.kill()


def make_zombie(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def start_cat() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)


class Ends(list[ProcessId]):
    """The ends that were reported, and waiting for so many of them."""

    def __init__(self) -> None:
        self.news = trio.Event()

    def __call__(self, process: ProcessId) -> None:
        self.append(process)
        self.news.set()

    async def wait_for(self, count: int) -> None:
        with trio.fail_after(20):
            while len(self) < count:
                self.news = trio.Event()
                await self.news.wait()


class Watching:
    """An `ExitWatch` that runs."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.ends = Ends()
        self.fds = FdSet()
        self.watch = ExitWatch(self.fds, self.ends)
        nursery.start_soon(self.fds.run)
        nursery.start_soon(self.watch.run)

    def close(self) -> None:
        self.watch.close()
        self.fds.close()


@pytest.fixture(params=["by the kernel", "by looking"])
async def watching(request: pytest.FixtureRequest, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch):
    """As the system does it, and as it is done where the system cannot (no pidfds: an old kernel, a filter)."""
    made = Watching(nursery)
    if request.param == "by looking":

        def refuse(process: ProcessId) -> bool:
            raise OSError(38, os.strerror(38))

        monkeypatch.setattr(type(made.watch._source), "start", lambda self, process: refuse(process))
        monkeypatch.setattr(exits, "EXIT_POLL_S", 0.02)
    yield made
    made.close()


async def test_an_end_is_reported_once(watching: Watching) -> None:
    """D1, 1.4: for a process that is killed, also by somebody who does not collect it."""
    with sleeper() as (process, found), sleeper() as (_, other):
        assert watching.watch.watch(found)
        assert watching.watch.watch(other)
        os.kill(process.pid, signal.SIGKILL)
        await watching.ends.wait_for(1)
        assert process.returncode is None  # it is a zombie still
        await trio.testing.wait_all_tasks_blocked()
        assert watching.ends == [found]
        assert len(watching.watch) == 1
        watching.watch.unwatch(found)  # too late, and no error
        watching.watch.unwatch(other)


async def test_what_has_ended_already_is_said_at_once(watching: Watching) -> None:
    with sleeper() as (process, found):
        make_zombie(process)
        assert not watching.watch.watch(found)
    assert not watching.watch.watch(found)
    assert len(watching.watch) == 0


async def test_a_reused_pid_is_another_process(watching: Watching) -> None:
    """D2: registered with a pid, and by now somebody else has it."""
    ours = own_process()
    assert not watching.watch.watch(ProcessId(ours.pid, ours.start - 1))
    assert watching.watch.watch(ours)
    watching.watch.unwatch(ours)
    assert watching.ends == []


async def test_watching_counts(watching: Watching) -> None:
    """Several sessions of one harness process."""
    with sleeper() as (process, found):
        assert watching.watch.watch(found)
        assert watching.watch.watch(found)
        watching.watch.unwatch(found)
        assert len(watching.watch) == 1
        process.kill()
        await watching.ends.wait_for(1)
        await trio.testing.wait_all_tasks_blocked()
        assert watching.ends == [found]


async def test_what_is_not_watched_any_more_is_not_reported(watching: Watching) -> None:
    with sleeper() as (process, found), sleeper() as (other_process, other):
        assert watching.watch.watch(found)
        assert watching.watch.watch(other)
        watching.watch.unwatch(found)
        process.kill()
        other_process.kill()
        await watching.ends.wait_for(1)
        await trio.testing.wait_all_tasks_blocked()
        assert watching.ends == [other]


async def test_hundreds_end_at_once(nursery: trio.Nursery) -> None:
    watching = Watching(nursery)
    processes = [start_cat() for _ in range(200)]
    found = [identify(process.pid) for process in processes]
    for one in found:
        assert one is not None
        assert watching.watch.watch(one)
    for process in processes:
        process.kill()
    await watching.ends.wait_for(200)
    assert set(watching.ends) == set(found)
    for process in processes:
        process.wait()
        assert process.stdin is not None
        process.stdin.close()
    watching.close()
    nursery.cancel_scope.cancel()


async def test_watching_gives_its_descriptors_back(nursery: trio.Nursery) -> None:
    watching = Watching(nursery)
    with sleeper() as (process, found):
        lowest = os.dup(0)
        os.close(lowest)
        for _ in range(3):
            assert watching.watch.watch(found)
            watching.watch.unwatch(found)
        assert watching.watch.watch(found)
        process.kill()
        await watching.ends.wait_for(1)
        assert not watching.watch.watch(found)
        again = os.dup(0)
        os.close(again)
        assert again == lowest
    watching.close()


async def test_nothing_is_looked_at_while_the_kernel_watches(nursery: trio.Nursery) -> None:
    """15.6."""
    watching = Watching(nursery)
    with sleeper() as (_, found):
        watching.watch.watch(found)
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline > 10
    watching.close()

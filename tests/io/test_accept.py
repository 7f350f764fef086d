"""Accepting, on real sockets."""

from __future__ import annotations

import errno
import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from xsessiond.io.accept import Acceptor
from xsessiond.io.readiness import FdSet


def listening(path: Path, backlog: int = 128) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(backlog)
    listener.setblocking(False)
    return listener


async def client(path: Path) -> trio.SocketStream:
    stream = await trio.open_unix_socket(str(path))
    assert isinstance(stream, trio.SocketStream)
    return stream


class Echo:
    """A handler that answers each byte with itself until the other side closes."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery

    def __call__(self, connection: socket.socket, closed: Callable[[], None]) -> None:
        assert not connection.getblocking()
        self.nursery.start_soon(self.serve, connection, closed)

    async def serve(self, connection: socket.socket, closed: Callable[[], None]) -> None:
        async with trio.SocketStream(trio.socket.from_stdlib_socket(connection)) as stream:
            async for data in stream:
                await stream.send_all(data)
        closed()


async def answers(stream: trio.SocketStream) -> bool:
    """Tell whether `echo` answers (True) or the other side has closed (False)."""
    try:
        await stream.send_all(b"x")
        return await stream.receive_some(1) == b"x"
    except trio.BrokenResourceError:
        return False


class Reports(list[str]):
    """What was reported, and waiting for it."""

    def __init__(self) -> None:
        self.news = trio.Event()

    def __call__(self, text: str) -> None:
        self.append(text)
        self.news.set()


@contextmanager
def acceptor(nursery: trio.Nursery, reports: Reports) -> Iterator[Acceptor]:
    fds = FdSet()
    made = Acceptor(fds, nursery, reports)
    nursery.start_soon(fds.run)
    yield made
    made.close()
    nursery.cancel_scope.cancel()
    fds.close()


async def test_one_listener_serves_many_connections(short_dir: Path, nursery: trio.Nursery) -> None:
    with acceptor(nursery, Reports()) as served, trio.fail_after(10):
        listener = listening(short_dir / "a")
        served.add(listener, Echo(nursery))
        streams = [await client(short_dir / "a") for _ in range(50)]
        for stream in streams:
            assert await answers(stream)
        served.close()
        assert (len(served), listener.fileno()) == (0, -1)
        for stream in streams:  # who is connected stays so
            assert await answers(stream)
            await stream.aclose()


@pytest.mark.parametrize("most", [1, 2])
async def test_a_handler_may_close_at_once(short_dir: Path, nursery: trio.Nursery, most: int) -> None:
    """13.1: as with another user's connection; at the limit this must not count twice."""

    def turn_away(connection: socket.socket, closed: Callable[[], None]) -> None:
        connection.close()
        closed()

    with acceptor(nursery, Reports()) as served, trio.fail_after(10):
        served.add(listening(short_dir / "a"), turn_away, max_connections=most)
        for _ in range(5):
            stream = await client(short_dir / "a")
            assert not await answers(stream)
            await stream.aclose()


async def test_many_listeners_share_one_task(short_dir: Path, nursery: trio.Nursery) -> None:
    with acceptor(nursery, Reports()) as served, trio.fail_after(20):
        for number in range(500):
            served.add(listening(short_dir / str(number), 8), Echo(nursery))
        assert len(served) == 500
        for number in (0, 250, 499):
            stream = await client(short_dir / str(number))
            assert await answers(stream)
            await stream.aclose()


async def test_newcomers_wait_while_the_limit_is_reached(short_dir: Path, nursery: trio.Nursery) -> None:
    """13.3: connections are bounded; nobody is turned away for a moment's crowd."""
    with acceptor(nursery, Reports()) as served, trio.fail_after(10):
        served.add(listening(short_dir / "a"), Echo(nursery), max_connections=2)
        served.add(listening(short_dir / "b"), Echo(nursery), max_connections=2)
        first, second, third = [await client(short_dir / "a") for _ in range(3)]
        assert await answers(first)
        assert await answers(second)
        await third.send_all(b"x")
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0) as nothing_yet:
            await third.receive_some(1)
        assert nothing_yet.cancelled_caught
        other = await client(short_dir / "b")  # another socket is not concerned
        assert await answers(other)
        await first.aclose()
        assert await third.receive_some(1) == b"x"
        await second.aclose()
        fourth = await client(short_dir / "a")
        assert await answers(fourth)
        for stream in (third, fourth, other):
            await stream.aclose()


async def test_a_removed_listener_still_serves_who_waited(short_dir: Path, nursery: trio.Nursery) -> None:
    """A socket that is bound anew elsewhere: who connected to the old one in that moment is not lost."""
    with acceptor(nursery, Reports()) as served, trio.fail_after(10):
        listener = listening(short_dir / "a")
        served.add(listener, Echo(nursery))
        connected = await client(short_dir / "a")
        assert await answers(connected)
        waiting = socket.socket(socket.AF_UNIX)
        waiting.connect(str(short_dir / "a"))  # no other task has run since
        served.remove(listener)
        served.remove(listener)
        assert (len(served), listener.fileno()) == (0, -1)
        assert await answers(connected)
        waiting.setblocking(False)
        late = trio.SocketStream(trio.socket.from_stdlib_socket(waiting))
        assert await answers(late)
        with pytest.raises(OSError, match="refused"):
            await client(short_dir / "a")
        await connected.aclose()
        await late.aclose()


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Lower the limit so that the lowest free descriptor is beyond it: whoever opens something gets EMFILE."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_running_out_of_descriptors_is_survived(short_dir: Path, nursery: trio.Nursery) -> None:
    """13.3: EMFILE is told once, one client learns at once, the rest are served when there is room again."""
    reports = Reports()
    with acceptor(nursery, reports) as served, trio.fail_after(20):
        served.add(listening(short_dir / "a"), Echo(nursery))
        clients = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        with no_descriptors_left():
            for one in clients:
                one.connect(str(short_dir / "a"))
                one.setblocking(False)
            await reports.news.wait()
            streams = [trio.SocketStream(trio.socket.from_stdlib_socket(one)) for one in clients]
            assert not await answers(streams[0])
        assert await answers(streams[2])
        for stream in streams:
            await stream.aclose()
        assert reports == [
            f"Connections cannot be accepted for now: {os.strerror(errno.EMFILE)}.",
            "Connections are accepted again.",
        ]


class Failing:
    """A listening socket whose `accept` fails first. The kernel's own failures of that kind cannot be had to order."""

    def __init__(self, listener: socket.socket, failures: list[int]) -> None:
        self.listener = listener
        self.failures = failures
        self.fileno, self.close = listener.fileno, listener.close

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            number = self.failures.pop()
            raise OSError(number, os.strerror(number))
        return self.listener.accept()


@pytest.mark.parametrize("number", [errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.ENFILE, errno.ENOMEM])
async def test_a_failed_accept_ends_nothing(
    short_dir: Path, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, number: int
) -> None:
    reports = Reports()
    with acceptor(nursery, reports) as served:
        served.add(Failing(listening(short_dir / "a"), [number] * 3), Echo(nursery))  # type: ignore[arg-type]
        stream = await client(short_dir / "a")
        assert await answers(stream)
        await stream.aclose()
    shortage = number in (errno.ENFILE, errno.ENOMEM)
    assert len(reports) == (2 if shortage else 0)


async def test_a_listener_without_connections_costs_no_timer(short_dir: Path, nursery: trio.Nursery) -> None:
    """15.6."""
    with acceptor(nursery, Reports()) as served:
        served.add(listening(short_dir / "a"), Echo(nursery))
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline > 10

"""The one poll of a shim: over whatever has a descriptor or a deadline.

Laws: with nothing to do it sleeps; a source is read only when it is readable. Refuses to know: what the sources are.
"""

from __future__ import annotations

import select
import sys
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Protocol

    class Writable(Protocol):
        """A socket that does not block."""

        def send(self, data: bytes, /) -> int:
            """How many bytes it took."""

    class Source(Protocol):
        """Something to be polled."""

        @property
        def wants_write(self) -> bool:
            """Whether to poll for writing too."""

        @property
        def due(self) -> float | None:
            """When `tick` has something to do, on the monotonic clock."""

        def fileno(self) -> int | None:
            """What to poll; None while nothing is open."""

        def read(self) -> None:
            """Called when it is readable."""

        def write(self) -> None:
            """Called when it is writable."""

        def tick(self, now: float) -> None:
            """Called after each wait."""


def wait(
    sources: Sequence[Source],
    reading: Iterable[int] = (),
    writing: Iterable[int] = (),
    broken: Iterable[int] = (),
    due: Iterable[float | None] = (),
) -> tuple[set[int], set[int], set[int]]:
    """Waits until a source or one of the descriptors has something, or the first deadline (also of `due`) is over, and
    serves the sources. Returns which of the descriptors are readable (or at their end), writable, and of `broken`
    without a reader."""
    readers, writers = list(reading), list(writing)
    polled = []
    for source in sources:
        fd = source.fileno()
        if fd is not None:
            polled.append((source, fd))
            readers.append(fd)
            if source.wants_write:
                writers.append(fd)
    times = [time for time in (*due, *(source.due for source in sources)) if time is not None]
    timeout = max(0.0, min(times) - monotonic()) if times else None
    readable, writable, gone = poll(readers, writers, list(broken), timeout)
    for source, fd in polled:
        # A source that was closed or took another descriptor meanwhile has nothing to do with what was found.
        if fd in writable and source.fileno() == fd:
            source.write()
        if fd in readable and source.fileno() == fd:
            source.read()
    now = monotonic()
    for source in sources:
        source.tick(now)
    return readable, writable, gone


def send_some(socket: Writable, data: bytes) -> bytes:
    """What is left of it when the peer has taken what it takes now. Raises OSError where it takes no more at all."""
    try:
        while data:
            data = data[socket.send(data) :]
    except (BlockingIOError, InterruptedError):
        pass
    return data


def poll(
    reading: list[int], writing: list[int], broken: list[int], timeout: float | None
) -> tuple[set[int], set[int], set[int]]:
    """Which of them are readable (or at their end), writable, and without a reader; `timeout` in seconds, None for
    ever."""
    if sys.platform == "darwin":
        # Its poll() knows no kqueue. That nobody reads our output is noticed with the next line there.
        found, free, _ = select.select(reading, writing, [], timeout)
        return set(found), set(free), set()
    polling = select.poll()
    wanted = dict.fromkeys((*reading, *writing, *broken), 0)
    for fd in reading:
        wanted[fd] |= select.POLLIN
    for fd in writing:
        wanted[fd] |= select.POLLOUT
    for fd, events in wanted.items():
        polling.register(fd, events)
    ready = polling.poll(None if timeout is None else timeout * 1000 + 1)
    end = select.POLLHUP | select.POLLERR | select.POLLNVAL
    return (
        {fd for fd, event in ready if fd in reading and event & (select.POLLIN | end)},
        {fd for fd, event in ready if fd in writing and event & (select.POLLOUT | end)},
        {fd for fd, event in ready if fd in broken and event & end},
    )

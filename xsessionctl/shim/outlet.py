"""Standard output without ever waiting for its reader.

Laws: a line is written whole and in order, and whoever queued it learns that it was, or that it never will be. At most
PIPE_BUF bytes go at once and only when there is room, so that nothing blocks although the stream is left as the harness
made it (its flags are shared with whoever else has it). Refuses to know: what the lines say.
"""

from __future__ import annotations

import os
from select import PIPE_BUF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Entry:
    """A line on its way. `withdraw` it while nothing of it has gone."""

    __slots__ = ("data", "done", "dropped", "sent")

    def __init__(self, data: bytes, done: Callable[[], None] | None, dropped: Callable[[], None] | None) -> None:
        self.data, self.done, self.dropped = data, done, dropped
        self.sent = 0


class Outlet:
    """The queue before one descriptor. `waiting`: bytes in it."""

    __slots__ = ("_queue", "broken", "fd", "waiting")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._queue: list[Entry] = []
        self.waiting = 0
        self.broken = False

    def put(
        self, data: bytes, done: Callable[[], None] | None = None, dropped: Callable[[], None] | None = None
    ) -> Entry:
        """Queues a line. done: called when it was written whole. dropped: when it will not be."""
        entry = Entry(data, done, dropped)
        if self.broken:
            if dropped:
                dropped()
            return entry
        self._queue.append(entry)
        self.waiting += len(data)
        return entry

    def withdraw(self, entry: Entry) -> bool:
        """Takes a line back, unless some of it has gone already."""
        if entry.sent or entry not in self._queue:
            return False
        self._queue.remove(entry)
        self.waiting -= len(entry.data)
        if entry.dropped:
            entry.dropped()
        return True

    def write_some(self) -> None:
        """Call when the descriptor is writable."""
        if not self._queue:
            return
        entry = self._queue[0]
        try:
            count = os.write(self.fd, entry.data[entry.sent : entry.sent + PIPE_BUF])
        except BlockingIOError:
            return
        except OSError:
            self.fail()
            return
        entry.sent += count
        self.waiting -= count
        if entry.sent == len(entry.data):
            self._queue.pop(0)
            if entry.done:
                entry.done()

    def fail(self) -> None:
        """Nobody reads any more."""
        self.broken = True
        queue, self._queue, self.waiting = self._queue, [], 0
        for entry in queue:
            if entry.dropped:
                entry.dropped()

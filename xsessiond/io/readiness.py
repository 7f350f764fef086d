"""One task that waits for any of thousands of file descriptors, each with a callback: listeners, watched processes.

A task for each would cost some kilobytes a piece; an entry here costs a tenth of that, and nothing while nothing
happens. The kernel's own set (epoll, kqueue) is itself a descriptor, and that is what trio waits for.

Laws: a callback runs in the task of `run`, is plain code and returns soon; a descriptor is removed before it is closed.
A callback that raises ends `run` with what it raised. Refuses to know: what the descriptors are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import trio

from xsessiond.core.limits import EVENTS_PER_TURN

if sys.platform == "darwin":
    from xsessiond.io._macos import KernelSet
else:
    from xsessiond.io._linux import KernelSet


class FdSet:
    """Descriptors to be readable, and what to call then (again and again as long as one stays readable).

    `add` and `remove` may be called at any time, before and while `run` runs, also by callbacks, but not by other
    threads. `close` it at the end. `settle` is called after each turn's callbacks.
    """

    __slots__ = ("_added", "_bell", "_callbacks", "_kernel", "_settle", "_soon")

    def __init__(self, settle: Callable[[], None] = lambda: None) -> None:
        self._settle = settle
        self._kernel = KernelSet()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._added: set[int] = set()
        self._soon: list[Callable[[], None]] = []
        self._bell = os.pipe()  # of our own, since `run` waits for descriptors; now, for later there may be none left
        os.set_blocking(self._bell[0], False)
        self._kernel.add(self._bell[0])

    def __len__(self) -> int:
        return len(self._callbacks)

    def add(self, fd: int, callback: Callable[[int], None]) -> None:
        """Call `callback(fd)` whenever `fd` is readable or has hung up. Raises OSError, ValueError if it is in."""
        if fd in self._callbacks:
            raise ValueError(f"descriptor {fd} is watched already: it was closed before it was removed")
        self._kernel.add(fd)
        self._callbacks[fd] = callback
        self._added.add(fd)

    def remove(self, fd: int) -> None:
        """Stop watching `fd`, which is still open. Removing what is not in the set does nothing."""
        if self._callbacks.pop(fd, None) is not None:
            self._kernel.remove(fd)

    def soon(self, call: Callable[[], None]) -> None:
        """Call once, in a later turn of `run`: for what is to go on though nothing new becomes readable."""
        self._soon.append(call)
        if len(self._soon) == 1:
            os.write(self._bell[1], b"!")

    def _call_soon(self) -> None:
        os.read(self._bell[0], 1)
        calls, self._soon = self._soon, []
        for call in calls:
            call()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run callbacks until cancelled."""
        task_status.started()
        while True:
            await trio.lowlevel.wait_readable(self._kernel.fileno())
            self._added.clear()
            for fd in self._kernel.poll(EVENTS_PER_TURN):
                if fd == self._bell[0]:
                    self._call_soon()
                    continue
                # An earlier callback may have removed this one, and a new descriptor may have got its number.
                callback = None if fd in self._added else self._callbacks.get(fd)
                if callback is not None:
                    callback(fd)
            self._settle()

    def close(self) -> None:
        """Give back the kernel's set. The descriptors in it stay open; they belong to who added them."""
        self._callbacks.clear()
        self._soon.clear()
        for fd in self._bell:
            os.close(fd)
        self._kernel.close()

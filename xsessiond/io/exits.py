"""The ends of processes, seen within a fraction of a second, without polling where the system can do better.

Laws: an end is reported once, for the very process that was meant; a zombie has ended. One task serves all processes.
Refuses to know: why somebody wants to know.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import trio

from xsessiond.core.limits import EXIT_POLL_S
from xsessiond.io._process import ProcessId
from xsessiond.io.processes import is_running
from xsessiond.io.readiness import FdSet

if sys.platform == "darwin":
    from xsessiond.io._macos import ExitSource
else:
    from xsessiond.io._linux import ExitSource


class ExitWatch:
    """Calls `on_exit(process)` once for each watched process when it has ended, from the task of `fds.run` or `run`.

    The caller runs both `fds.run` and `run` for as long as something is watched, and closes this before `fds`.
    """

    __slots__ = ("_changed", "_on_exit", "_polled", "_source", "_wanted")

    def __init__(self, fds: FdSet, on_exit: Callable[[ProcessId], None]) -> None:
        self._on_exit = on_exit
        self._source = ExitSource(fds, self._ended)
        self._wanted: dict[ProcessId, int] = {}
        self._polled: set[ProcessId] = set()
        self._changed = trio.Event()

    def __len__(self) -> int:
        return len(self._wanted)

    def __contains__(self, process: object) -> bool:
        return process in self._wanted

    def watch(self, process: ProcessId) -> bool:
        """Report the end of `process`; False if it has ended already (then nothing is watched or reported).

        Watching it again counts, and takes as many `unwatch`; its end is reported once all the same.
        """
        if process in self._wanted:
            self._wanted[process] += 1
            return True
        try:
            alive = self._source.start(process)
        except OSError:
            # No pidfds in this kernel, forbidden by a filter, or no descriptor left: looking now and then still works.
            alive = is_running(process)
            if alive:
                self._polled.add(process)
                self._changed.set()
        if alive:
            self._wanted[process] = 1
        return alive

    def unwatch(self, process: ProcessId) -> None:
        """Take back one `watch`. What is not watched, or not any more, is no error: its end may just have come."""
        count = self._wanted.get(process)
        if count is None:
            return
        if count > 1:
            self._wanted[process] = count - 1
            return
        del self._wanted[process]
        if process in self._polled:
            self._polled.discard(process)
        else:
            self._source.stop(process)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look after the processes whose end cannot be waited for. Asleep, without a timer, while there are none."""
        task_status.started()
        while True:
            if not self._polled:
                self._changed = trio.Event()
                await self._changed.wait()
            await trio.sleep(EXIT_POLL_S)
            for process in [process for process in self._polled if not is_running(process)]:
                if process in self._polled:  # an earlier report may have ended this watch
                    self._polled.discard(process)
                    self._ended(process)

    def close(self) -> None:
        """Stop watching all."""
        self._wanted.clear()
        self._polled.clear()
        self._source.close()

    def _ended(self, process: ProcessId) -> None:
        del self._wanted[process]
        self._on_exit(process)

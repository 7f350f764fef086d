"""Notices the end of the processes that the shim lives for, without looking again and again.

Laws: the shim never outlives its harness, also when a wrapper between the two keeps its pipes open. Linux: a pidfd for
each process. macOS: kqueue. Where neither is to be had, a look at the parent once a second. Refuses to know: what
happens then.
"""

from __future__ import annotations

import os
import sys

from xsessionctl.shim.loop import poll

LOOK_EVERY_S = 1.0
"""Between two looks where the kernel does not tell."""


class Watch:
    """The watched processes. `descriptors` become readable when one of them ends; `look` must be called when they do,
    and every `look_every` seconds if that is not None. `gone`: one of them has ended."""

    __slots__ = ("_kept", "_parent", "descriptors", "gone", "look_every")

    def __init__(self, pids: list[int], parent: int) -> None:
        """pids: from the parent upwards. parent: the parent's pid when the program started; it may have died since."""
        self._parent = parent
        self.descriptors: list[int] = []
        self.look_every: float | None = None
        self.gone = False
        self._kept: list[object] = []
        for pid in pids:
            try:
                descriptor, keep = open_process(pid)
            except ProcessLookupError:
                self.gone = True
            except (OSError, AttributeError):
                self.look_every = LOOK_EVERY_S
            else:
                self.descriptors.append(descriptor)
                self._kept.append(keep)
        # Only now is it sure that what is watched is what was meant, and not another process of the same number.
        if os.getppid() != parent:
            self.gone = True

    def look(self, readable: set[int]) -> bool:
        """Whether one of them has ended. readable: of `descriptors`, those that are."""
        if os.getppid() != self._parent or not readable.isdisjoint(self.descriptors):
            self.gone = True
        return self.gone

    def check(self) -> bool:
        """Whether one of them has ended, also where nobody has looked yet."""
        return self.look(poll(self.descriptors, [], [], 0)[0])


if sys.platform == "darwin":

    def open_process(pid: int) -> tuple[int, object]:
        """A descriptor that becomes readable when the process ends, and what keeps it open. Raises OSError."""
        import select

        queue = select.kqueue()
        flags = select.KQ_EV_ADD | select.KQ_EV_ONESHOT
        queue.control([select.kevent(pid, select.KQ_FILTER_PROC, flags, select.KQ_NOTE_EXIT)], 0, 0)
        return queue.fileno(), queue

else:

    def open_process(pid: int) -> tuple[int, object]:
        """A descriptor that becomes readable when the process ends, and what keeps it open. Raises OSError."""
        return os.pidfd_open(pid), None

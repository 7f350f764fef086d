"""Linux: changes in directories, through inotify, which the standard library does not offer.

Constants from <sys/inotify.h>. Plain calls through ctypes need no executable memory (a hardened service has none).
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

IN_ATTRIB = 0x4
IN_CLOSE_WRITE = 0x8
IN_MOVED_FROM = 0x40
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_DELETE = 0x200
IN_DELETE_SELF = 0x400
IN_MOVE_SELF = 0x800
IN_Q_OVERFLOW = 0x4000
IN_ONLYDIR = 0x1000000
IN_DONT_FOLLOW = 0x2000000
IN_MASK_ADD = 0x20000000

ITSELF = IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW | IN_MASK_ADD  # there is one watch a directory
LOSSES = ITSELF | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE
ARRIVALS = ITSELF | IN_MOVED_TO | IN_CREATE | IN_ATTRIB
CHANGES = LOSSES | ARRIVALS | IN_CLOSE_WRITE
_EVENT = struct.Struct("iIII")
"""wd, mask, cookie, and the length of the name that follows."""


class PathWatch:
    """What happens to directories and to what is in them; told is only that there was a change."""

    __slots__ = ("_fd", "_libc", "_names", "_watches")

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._watches: list[int] = []
        self._names: dict[int, set[bytes]] = {}

    def fileno(self) -> int:
        """Return the descriptor that is readable when something has changed."""
        return self._fd

    def disarm(self) -> None:
        """Watch nothing, and forget what was reported."""
        for watch in self._watches:
            self._libc.inotify_rm_watch(self._fd, watch)
        self._watches.clear()
        self._names.clear()
        self.read()

    def watch_losses(self, directory: str) -> None:
        """Report what vanishes from `directory` or is replaced there. Missing: does nothing. Raises OSError."""
        self._add(directory, LOSSES)

    def watch_itself(self, directory: str) -> None:
        """Report that `directory` vanishes or moves, and nothing of what is in it. As above."""
        self._add(directory, ITSELF)

    def watch_arrivals(self, directory: str) -> None:
        """Report what is new in `directory`, or allowed there since. As above."""
        self._add(directory, ARRIVALS)

    def watch_names(self, directory: str, names: Iterable[str]) -> None:
        """Report that one of `names` in `directory` is made, written to its end, replaced or taken away. As above."""
        watch = self._add(directory, CHANGES)
        if watch is not None:
            self._names.setdefault(watch, set()).update(map(os.fsencode, names))

    def take(self) -> bool:
        """Take what was reported, as `read` does; whether any was of a watched name, or of a directory itself."""
        relevant = False
        while True:
            try:
                data = os.read(self._fd, 65536)
            except BlockingIOError:
                return relevant
            at = 0
            while at < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size + length
                name = data[at - length : at].rstrip(b"\0")
                named = not name or name in self._names.get(watch, ())
                relevant = relevant or named or bool(mask & IN_Q_OVERFLOW)

    def read(self) -> None:
        """Take what was reported, so that `fileno` becomes readable by the next change only."""
        try:
            while os.read(self._fd, 65536):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        """Watch nothing any more."""
        os.close(self._fd)

    def _add(self, directory: str, events: int) -> int | None:
        try:
            watch = self._checked(self._libc.inotify_add_watch(self._fd, os.fsencode(directory), events))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return None
        self._watches.append(watch)
        return watch

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

"""A kqueue for Linux, as far as our macOS modules use one: descriptors by epoll, exits by pidfds, paths by inotify.

It lets the tests run those modules' own code against real processes, sockets and directories. What it cannot show is
whether the real kqueue behaves as its manual says; the same tests run on macOS without it.
"""

from __future__ import annotations

import ctypes
import os
import select
import stat
import struct
from dataclasses import dataclass, field

KQ_FILTER_READ, KQ_FILTER_VNODE, KQ_FILTER_PROC = -1, -4, -5
KQ_EV_ADD, KQ_EV_DELETE, KQ_EV_ONESHOT, KQ_EV_CLEAR = 0x1, 0x2, 0x10, 0x20
KQ_NOTE_EXIT = 0x80000000
KQ_NOTE_DELETE, KQ_NOTE_WRITE, KQ_NOTE_ATTRIB, KQ_NOTE_RENAME, KQ_NOTE_REVOKE = 0x1, 0x2, 0x8, 0x20, 0x40

_INOTIFY = {KQ_NOTE_DELETE: 0x400, KQ_NOTE_WRITE: 0x3C0, KQ_NOTE_ATTRIB: 0x4, KQ_NOTE_RENAME: 0x800, KQ_NOTE_REVOKE: 0}
_EVENT = struct.Struct("iIII")


@dataclass(frozen=True)
class kevent:  # noqa: N801 - the standard library's name
    """One change or report."""

    ident: int
    filter: int = KQ_FILTER_READ
    flags: int = KQ_EV_ADD
    fflags: int = 0


@dataclass
class kqueue:  # noqa: N801 - the standard library's name
    """Readable when `control` has something to report."""

    _epoll: select.epoll = field(default_factory=select.epoll)
    _sources: dict[tuple[int, int], int] = field(default_factory=dict)
    """(filter, ident) to the descriptor that stands for it in the epoll."""

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._epoll.fileno()

    def control(self, changes: list[kevent] | None, most: int, timeout: float | None = None) -> list[kevent]:
        """Apply changes, then report at most `most` events, without waiting."""
        for change in changes or ():
            self._add(change) if change.flags & KQ_EV_ADD else self._delete(change)
        return self._poll(most) if most else []

    def close(self) -> None:
        """Give everything back."""
        for key in list(self._sources):
            self._drop(key)
        self._epoll.close()

    def _add(self, change: kevent) -> None:
        key = (change.filter, change.ident)
        if key in self._sources:
            return
        if change.filter == KQ_FILTER_READ:
            source = change.ident
        elif change.filter == KQ_FILTER_PROC:
            assert change.fflags == KQ_NOTE_EXIT
            source = os.pidfd_open(change.ident)
        else:
            assert change.flags & KQ_EV_CLEAR
            source = _watch_directory(change.ident, change.fflags)
        self._epoll.register(source, select.EPOLLIN)
        self._sources[key] = source

    def _delete(self, change: kevent) -> None:
        if (change.filter, change.ident) not in self._sources:
            raise FileNotFoundError(2, "No such file or directory")
        self._drop((change.filter, change.ident))

    def _drop(self, key: tuple[int, int]) -> None:
        source = self._sources.pop(key)
        try:
            self._epoll.unregister(source)
        except OSError:
            pass  # a descriptor that was closed took its event along
        if key[0] != KQ_FILTER_READ:
            os.close(source)

    def _poll(self, most: int) -> list[kevent]:
        for key in [key for key in self._sources if key[0] == KQ_FILTER_VNODE and not _is_open(key[1])]:
            self._drop(key)
        idents = {source: key for key, source in self._sources.items()}
        found = []
        for source, _ in self._epoll.poll(0, most):
            kind, ident = idents[source]
            if kind == KQ_FILTER_PROC:
                self._drop((kind, ident))
            elif kind == KQ_FILTER_VNODE and not _read(source):
                continue
            found.append(kevent(ident, kind))
        return found


def _watch_directory(fd: int, notes: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    watch: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    mask = sum(bits for note, bits in _INOTIFY.items() if notes & note)
    if notes & KQ_NOTE_WRITE and not stat.S_ISDIR(os.fstat(fd).st_mode):
        mask |= 0x2  # a directory is written when its entries change, a file when its contents do
    place = f"/proc/self/fd/{fd}"
    assert libc.inotify_add_watch(watch, place.encode(), mask) >= 0
    # The deletion of a directory that somebody has open is told by its parent only.
    assert libc.inotify_add_watch(watch, os.path.dirname(os.readlink(place)).encode(), 0x200) >= 0
    return watch


def _read(watch: int) -> bool:
    try:
        return len(os.read(watch, 65536)) >= _EVENT.size
    except BlockingIOError:
        return False


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True

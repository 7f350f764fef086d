"""macOS: processes through psutil, peers through SOL_LOCAL, readiness, exits and changed directories through kqueue.

The values of SOL_LOCAL's options are from <sys/un.h>, the layout of xucred from <sys/ucred.h>.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import os
import select
import socket
import stat
import struct
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import psutil

from xsessiond.io._process import PeerCred, ProcessId, ProcessStat

if TYPE_CHECKING:
    from xsessiond.io.readiness import FdSet

assert not TYPE_CHECKING or sys.platform == "darwin"

SOL_LOCAL = 0
LOCAL_PEERCRED = 1
LOCAL_PEERPID = 2
_XUCRED = struct.Struct("IIh2x16I")
"""cr_version, cr_uid, cr_ngroups, cr_groups[16]."""
XUCRED_VERSION = 0


def peer_credentials(sock: socket.socket) -> PeerCred:
    """Return who connected. The pid is None once the peer has closed its end. Raises OSError."""
    version, uid, count, *groups = _XUCRED.unpack(sock.getsockopt(SOL_LOCAL, LOCAL_PEERCRED, _XUCRED.size))
    if version != XUCRED_VERSION:
        raise OSError(f"the system's peer credentials have version {version}, which is not known here")
    try:
        pid = sock.getsockopt(SOL_LOCAL, LOCAL_PEERPID)
    except OSError:
        pid = 0
    return PeerCred(pid or None, uid, groups[0] if count > 0 else -1)


def peer_process(sock: socket.socket) -> ProcessId | None:
    """Return the process that connected, or None if it is gone. Raises OSError."""
    pid = peer_credentials(sock).pid
    found = None if pid is None else read_stat(pid)
    return None if pid is None or found is None else ProcessId(pid, found.start)


def read_stat(pid: int) -> ProcessStat | None:
    """Return what the system says about `pid`, or None if there is no such process or it is hidden from us."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            terminal = process.terminal()
            return ProcessStat(
                parent=process.ppid(),
                start=_start(process),
                terminal=os.stat(terminal).st_rdev if terminal else 0,
                dead=process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD),
                name=process.name(),
                session=_session(pid),
                image=b"",
            )
    except (psutil.Error, OSError, ValueError, OverflowError):
        return None


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0  # it has ended


def _start(process: psutil.Process) -> int:
    # As the kernel recorded it: psutil's public value moves with the wall clock since 7.1.
    create_time: Callable[..., float] = process._proc.create_time  # type: ignore[attr-defined]
    try:
        seconds = create_time(monotonic=True)
    except TypeError:
        seconds = create_time()
    return round(seconds * 1_000_000)


def read_environ(pid: int, wanted: frozenset[str]) -> frozenset[str] | None:
    """Return which of the variables `wanted` are in the environment that `pid` was started with, or None if it is gone
    or not ours to read. The system shows none of those of its own protected programs."""
    try:
        return wanted.intersection(psutil.Process(pid).environ())
    except (psutil.Error, OSError, ValueError, OverflowError):
        return None


def is_ours(pid: int) -> bool:
    """Tell whether `pid` belongs to our uid."""
    try:
        return psutil.Process(pid).uids().effective == os.geteuid()
    except (psutil.Error, OSError, ValueError, OverflowError):
        return False


def read_place(pid: int) -> int | None:
    """Return None: what runs in a container here is in a virtual machine, which no Unix socket reaches."""
    return None


def terminal_name(device: int) -> str | None:
    """Return the name of a terminal without `/dev/`, or None if the system does not tell it."""
    libc = ctypes.CDLL(ctypes.util.find_library("c"))
    try:
        devname = libc.devname
    except AttributeError:
        return None
    devname.restype = ctypes.c_char_p
    name = devname(ctypes.c_int32(device), ctypes.c_uint16(stat.S_IFCHR))
    return None if name is None else os.fsdecode(name)


def read_boot_id() -> str | None:
    """Return the kernel's random id of this boot, or None where it has none."""
    libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
    text = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(len(text))
    try:
        failed = libc.sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, ctypes.c_size_t(0))
    except AttributeError:
        return None
    return None if failed else text.value.decode()


class KernelSet:
    """A kqueue: descriptors to be readable."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = select.kqueue()

    def fileno(self) -> int:
        """Return the descriptor that is readable when one in the set is."""
        return self._set.fileno()

    def add(self, fd: int) -> None:
        """Put `fd` in the set."""
        self._set.control([select.kevent(fd, select.KQ_FILTER_READ, select.KQ_EV_ADD)], 0)

    def remove(self, fd: int) -> None:
        """Take `fd`, still open, out of the set."""
        self._set.control([select.kevent(fd, select.KQ_FILTER_READ, select.KQ_EV_DELETE)], 0)

    def poll(self, most: int) -> list[int]:
        """Return at most `most` descriptors that are readable now."""
        return [event.ident for event in self._set.control(None, most, 0)]

    def close(self) -> None:
        """Give the set back."""
        self._set.close()


class ExitSource:
    """Exits through a kqueue of its own, so that one waiter a pid is enough. No descriptor a process."""

    __slots__ = ("_fds", "_on_exit", "_processes", "_queue")

    def __init__(self, fds: FdSet, on_exit: Callable[[ProcessId], None]) -> None:
        self._fds = fds
        self._on_exit = on_exit
        self._queue = select.kqueue()
        self._processes: dict[int, ProcessId] = {}
        fds.add(self._queue.fileno(), self._ready)

    def start(self, process: ProcessId) -> bool:
        """Watch `process`; False if it has ended. Raises OSError where that is not possible."""
        earlier = self._processes.get(process.pid)
        if earlier is not None:
            # The exit of that one is still unread, else its pid could not have passed on.
            raise OSError(f"pid {process.pid} is watched already")
        try:
            self._queue.control([self._event(process.pid, select.KQ_EV_ADD | select.KQ_EV_ONESHOT)], 0)
        except ProcessLookupError:
            return False
        found = read_stat(process.pid)  # after registering: if it is still the one meant, the event will be its
        if found is None or found.dead or found.start != process.start:
            self._forget(process.pid)
            return False
        self._processes[process.pid] = process
        return True

    def stop(self, process: ProcessId) -> None:
        """Watch `process` no longer."""
        del self._processes[process.pid]
        self._forget(process.pid)

    def close(self) -> None:
        """Stop watching all."""
        self._processes.clear()
        self._fds.remove(self._queue.fileno())
        self._queue.close()

    def _event(self, pid: int, flags: int) -> select.kevent:
        return select.kevent(pid, select.KQ_FILTER_PROC, flags, select.KQ_NOTE_EXIT)

    def _forget(self, pid: int) -> None:
        try:
            self._queue.control([self._event(pid, select.KQ_EV_DELETE)], 0)
        except OSError:
            pass  # it has ended meanwhile, and its event with it

    def _ready(self, _: int) -> None:
        for event in self._queue.control(None, 64, 0):
            process = self._processes.pop(event.ident, None)
            if process is not None:
                self._on_exit(process)


class PathWatch:
    """What happens to directories and to what is in them, through a kqueue; told is only that there was a change.

    What vanished and what arrived are one kind of change here.
    """

    __slots__ = ("_dirs", "_queue")

    def __init__(self) -> None:
        self._queue = select.kqueue()
        self._dirs: list[int] = []

    def fileno(self) -> int:
        """Return the descriptor that is readable when something has changed."""
        return self._queue.fileno()

    def disarm(self) -> None:
        """Watch nothing, and forget what was reported."""
        for fd in self._dirs:
            os.close(fd)  # takes its events out of the queue
        self._dirs.clear()
        self.read()

    def watch_losses(self, directory: str) -> None:
        """Report what vanishes from `directory` or is replaced there. Missing: does nothing. Raises OSError."""
        self._add(directory, select.KQ_NOTE_WRITE)

    def watch_itself(self, directory: str) -> None:
        """Report that `directory` vanishes or moves, and nothing of what is in it. As above."""
        self._add(directory, 0)

    def watch_arrivals(self, directory: str) -> None:
        """Report what is new in `directory`, or allowed there since. As above."""
        self._add(directory, select.KQ_NOTE_WRITE | select.KQ_NOTE_ATTRIB)

    def watch_names(self, directory: str, names: Iterable[str]) -> None:
        """Report that one of `names` in `directory` is made, written, replaced or taken away. As above."""
        self._add(directory, select.KQ_NOTE_WRITE | select.KQ_NOTE_ATTRIB)
        for name in names:  # a directory does not tell of what is written into the files in it
            self._add(f"{directory}/{name}", select.KQ_NOTE_WRITE | select.KQ_NOTE_ATTRIB, kind=os.O_NONBLOCK)

    def take(self) -> bool:
        """Take what was reported, as `read` does; whether there was anything."""
        found = self._queue.control(None, 64, 0)
        self.read()
        return bool(found)

    def read(self) -> None:
        """Take what was reported, so that `fileno` becomes readable by the next change only."""
        while len(self._queue.control(None, 64, 0)) == 64:
            pass

    def close(self) -> None:
        """Watch nothing any more."""
        self.disarm()
        self._queue.close()

    def _add(self, path: str, changes: int, *, kind: int = os.O_DIRECTORY) -> None:
        try:
            fd = os.open(path, os.O_EVTONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return
        except OSError as error:
            if error.errno != errno.ELOOP:  # a link: what it leads to is watched in its own place
                raise
            return
        self._dirs.append(fd)
        changes |= select.KQ_NOTE_DELETE | select.KQ_NOTE_RENAME | select.KQ_NOTE_REVOKE
        event = select.kevent(fd, select.KQ_FILTER_VNODE, select.KQ_EV_ADD | select.KQ_EV_CLEAR, changes)
        self._queue.control([event], 0)

"""Linux: processes through /proc and pidfds, peers through SO_PEERCRED, readiness through epoll.

/proc is read directly and not through psutil: an ancestry is asked for at every connection, psutil builds far more than
is needed, and its start times are made of the wall clock, so that they move when the clock is set.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from xsessiond.io._process import PeerCred, ProcessId, ProcessStat

if TYPE_CHECKING:
    from xsessiond.io.readiness import FdSet

assert not TYPE_CHECKING or sys.platform != "darwin"

SO_PEERPIDFD = 77
"""Since Linux 6.5; Python has no name for it yet."""
LONGEST_ENVIRON = 4 << 20
"""More of a process's environment is not read; the kernel lets no string be longer than 128 KiB."""
_UCRED = struct.Struct("3i")


def peer_credentials(sock: socket.socket) -> PeerCred:
    """Return who connected. A pid of 0 is a process that our pid namespace does not show. Raises OSError."""
    pid, uid, gid = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return PeerCred(pid or None, uid, gid)


def peer_process(sock: socket.socket) -> ProcessId | None:
    """Return the process that connected, or None if it is gone or not visible from here. Raises OSError."""
    pid = peer_credentials(sock).pid
    if pid is None:
        return None
    try:
        pidfd = sock.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError as error:
        if error.errno != errno.ENOPROTOOPT:
            return None  # it is gone, and the number may be somebody else's by now
        found = read_stat(pid)  # an older kernel: nothing better than the number is to be had
        return None if found is None else ProcessId(pid, found.start)
    found = read_stat(pid)
    try:
        signal.pidfd_send_signal(pidfd, 0)  # after reading: fails once the pid may have passed to somebody else
    except PermissionError:
        pass  # it runs under another uid by now (sudo), but it is there
    except ProcessLookupError:
        return None
    finally:
        os.close(pidfd)
    return None if found is None else ProcessId(pid, found.start)


def read_stat(pid: int) -> ProcessStat | None:
    """Return what /proc says about `pid`, or None if there is no such process or it is hidden from us."""
    line = _read(f"/proc/{pid}/stat", 4096)
    if line is None:
        return None
    # The name stands in brackets and may hold brackets and spaces itself.
    opening, closing = line.index(b"("), line.rindex(b")")
    fields = line[closing + 2 :].split(b" ")
    # Where the environment lies in memory: chosen anew, at random, by each exec. Zeros: it is not ours to know.
    begin, end = fields[47:49]
    return ProcessStat(
        parent=int(fields[1]),
        start=int(fields[19]),
        terminal=int(fields[4]),
        dead=fields[0] in b"ZXx",
        name=line[opening + 1 : closing].decode("utf-8", "backslashreplace"),
        session=int(fields[3]),
        image=b"" if end == b"0" else begin + b"-" + end,
    )


def read_environ(pid: int, wanted: frozenset[str]) -> frozenset[str] | None:
    """Return which of the variables `wanted` are in the environment that `pid` was started with, or None if it is gone
    or not ours to read. What they are set to, and what else is there, is nobody's business."""
    block = _read(f"/proc/{pid}/environ", LONGEST_ENVIRON)
    if block is None:
        return None
    names = {entry.partition(b"=")[0] for entry in block.split(b"\0")}
    return frozenset(name for name in wanted if name.encode() in names)


def is_ours(pid: int) -> bool:
    """Tell whether `pid` belongs to our uid and is no process that the kernel keeps from us.

    A program that changed its uid (sshd), or is more privileged than we are (setgid, capabilities), belongs to root in
    this sense.
    """
    try:
        return os.stat(f"/proc/{pid}/environ").st_uid == os.geteuid()
    except OSError:
        return False


def read_place(pid: int) -> int | None:
    """Return which mount namespace a process is in, as the number by which the kernel tells them apart: every container
    has its own. None if that is hidden from us, or it is gone."""
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino
    except OSError:
        return None


def terminal_name(device: int) -> str | None:
    """Return the name of a terminal without `/dev/`, or None if the kernel's numbering does not tell it."""
    major, minor = os.major(device), os.minor(device)
    if 136 <= major <= 143:
        return f"pts/{(major - 136) * 256 + minor}"
    if major == 4:
        return f"tty{minor}" if minor < 64 else f"ttyS{minor - 64}"
    return None


def read_boot_id() -> str | None:
    """Return the kernel's random id of this boot, or None where it is hidden."""
    text = _read("/proc/sys/kernel/random/boot_id", 64)
    return text.decode().strip() if text else None


def _read(path: str, most: int) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        first = os.read(fd, min(most, 65536))
        if len(first) < 4096:
            return first
        parts = [first]
        while len(first) < most and (part := os.read(fd, 65536)):
            parts.append(part)
            most -= len(part)
        return b"".join(parts)
    except OSError:
        return None  # it ended between the two calls, or we may not look into it
    finally:
        os.close(fd)


class KernelSet:
    """An epoll: descriptors to be readable."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = select.epoll()

    def fileno(self) -> int:
        """Return the descriptor that is readable when one in the set is."""
        return self._set.fileno()

    def add(self, fd: int) -> None:
        """Put `fd` in the set."""
        self._set.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        """Take `fd`, still open, out of the set."""
        self._set.unregister(fd)

    def poll(self, most: int) -> list[int]:
        """Return at most `most` descriptors that are readable now."""
        return [fd for fd, _ in self._set.poll(0, most)]

    def close(self) -> None:
        """Give the set back."""
        self._set.close()


class ExitSource:
    """Exits through pidfds: readable once the process is a zombie, whoever its parent is. One descriptor a process."""

    __slots__ = ("_fds", "_on_exit", "_pidfds", "_processes", "_ready")

    def __init__(self, fds: FdSet, on_exit: Callable[[ProcessId], None]) -> None:
        self._fds = fds
        self._on_exit = on_exit
        self._ready = self._exited
        self._pidfds: dict[ProcessId, int] = {}
        self._processes: dict[int, ProcessId] = {}

    def start(self, process: ProcessId) -> bool:
        """Watch `process`; False if it has ended. Raises OSError where that cannot be done (kernel, descriptors)."""
        try:
            pidfd = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return False
        found = read_stat(process.pid)  # after opening: if it is still the one meant, the pidfd is of that one
        if found is None or found.dead or found.start != process.start:
            os.close(pidfd)
            return False
        try:
            self._fds.add(pidfd, self._ready)
        except BaseException:
            os.close(pidfd)
            raise
        self._pidfds[process] = pidfd
        self._processes[pidfd] = process
        return True

    def stop(self, process: ProcessId) -> None:
        """Watch `process` no longer."""
        pidfd = self._pidfds.pop(process)
        del self._processes[pidfd]
        self._fds.remove(pidfd)
        os.close(pidfd)

    def close(self) -> None:
        """Stop watching all."""
        for process in list(self._pidfds):
            self.stop(process)

    def _exited(self, pidfd: int) -> None:
        process = self._processes[pidfd]
        self.stop(process)
        self._on_exit(process)

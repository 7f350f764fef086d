"""The lock that makes a broker the only one: kernel locks on two files, held for life.

One file lies in the runtime dir and one in the state dir, because two brokers must neither share a rendezvous nor a
store, and because a runtime dir may be deleted and made again while its broker lives: a newcomer then finds the first
file free and the second one taken.

Laws: the kernel's lock decides (flock), never the file's being there or what stands in it, so the death of a holder
frees it at once, however it died. The files are never unlinked. What is written in them is for people, and to tell a
dying holder from another living one. Refuses to know: what the lock protects.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import time

from xsessiond.core.limits import LOCK_WAIT_S
from xsessiond.paths import Paths, UnsafePath

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.05
"""Between two tries."""
DYING_S = 0.1
"""How long a holder is given the benefit of the doubt: one that was just killed is gone in milliseconds."""
LONGEST_NOTE = 512


class AlreadyRunning(Exception):
    """Another broker holds the lock. `pid` is None if it could not be read; `path` is the file that it holds."""

    def __init__(self, path: str, pid: int | None, version: str | None, host: str | None) -> None:
        self.path = path
        self.pid = pid
        self.version = version
        self.host = host
        who = "already running" if pid is None else f"already running (pid {pid})"
        if host is not None and host != socket.gethostname():
            who += f" on {host}, which shares this directory"
        super().__init__(f"{who}: it holds {path}")


class BrokerLock:
    """Both locks, held. Made by `acquire_broker_lock`; ends with `release` or with the process."""

    __slots__ = ("_note", "_runtime_fd", "_store_fd", "paths")

    def __init__(self, paths: Paths, runtime_fd: int, store_fd: int, note: bytes) -> None:
        self.paths = paths
        self._runtime_fd = runtime_fd
        self._store_fd = store_fd
        self._note = note

    @property
    def held(self) -> bool:
        """Tell whether `release` has not been called."""
        return self._store_fd >= 0

    def renew(self, paths: Paths) -> None:
        """Take the runtime dir's lock again after that dir was lost and made anew, there or, by `paths`, elsewhere.

        The lock in the state dir, which was held all the time, keeps every other broker of this store away. Does
        nothing if the file that is locked is still the one that lies there. Raises AlreadyRunning if a broker of
        another store has taken the place, OSError.
        """
        assert self.held, "a lock that was given back cannot be renewed"
        assert paths.state_dir == self.paths.state_dir, "a broker does not change its store"
        if not _lies_at(self._runtime_fd, paths.lock_file):
            fresh = _lock(paths.lock_file, time.monotonic() + DYING_S)
            os.close(self._runtime_fd)
            self._runtime_fd = fresh
            _write_note(fresh, self._note)
        self.paths = paths
        record_runtime_dir(paths)

    def detach(self) -> tuple[int, int]:
        """Give up the descriptors, of the runtime dir's lock and the state dir's, without giving back the locks."""
        assert self.held, "a lock that was given back cannot be passed on"
        fds = self._runtime_fd, self._store_fd
        self._runtime_fd = self._store_fd = -1
        return fds

    def release(self) -> None:
        """Give both locks back. The files stay."""
        if self.held:
            os.close(self._runtime_fd)
            os.close(self._store_fd)
            self._runtime_fd = self._store_fd = -1


def acquire_broker_lock(paths: Paths, version: str, *, wait_s: float = 0.0) -> BrokerLock:
    """Become the one broker of this runtime dir and this state dir, which exist and are private.

    Waits at most `wait_s` seconds for a living holder (an upgrade waits for its predecessor), and besides that as long
    as it takes for a killed one to be gone. On success leaves word in the state dir of where this broker runs. Blocks.
    Raises AlreadyRunning, UnsafePath, OSError (ENOLCK: a file system without locks).
    """
    deadline = time.monotonic() + max(wait_s, DYING_S)
    note = f"{os.getpid()} {version} {socket.gethostname()}\n".encode()
    runtime_fd = _lock(paths.lock_file, deadline)
    try:
        predecessor = _read_note(runtime_fd)[0]
        try:
            store_fd = _lock(paths.store_lock_file, deadline)
        except AlreadyRunning as found:
            # A process that dies lets go of one file after the other. If this is the one that just let go of the first,
            # it will let go of the second; any other lives on.
            if found.pid is None or found.pid != predecessor:
                raise
            store_fd = _lock(paths.store_lock_file, time.monotonic() + LOCK_WAIT_S)
        try:
            _write_note(runtime_fd, note)
            _write_note(store_fd, note)
            record_runtime_dir(paths)
        except BaseException:
            os.close(store_fd)
            raise
    except BaseException:
        os.close(runtime_fd)
        raise
    return BrokerLock(paths, runtime_fd, store_fd, note)


def adopt_broker_lock(paths: Paths, version: str, runtime_fd: int, store_fd: int) -> BrokerLock:
    """Go on with the locks of the broker that ran in this process before us, which these descriptors hold.

    Raises AlreadyRunning if they do not: the broker of another store went before us; OSError.
    """
    if not _lies_at(store_fd, paths.store_lock_file):
        raise AlreadyRunning(paths.store_lock_file, *_read_note(store_fd))
    note = f"{os.getpid()} {version} {socket.gethostname()}\n".encode()
    for fd in (runtime_fd, store_fd):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ours already; were it not, this tells
        _write_note(fd, note)
    record_runtime_dir(paths)
    return BrokerLock(paths, runtime_fd, store_fd, note)


def record_runtime_dir(paths: Paths) -> None:
    """Leave word in the state dir of where the broker runs (`paths.recorded_runtime_dir`). Only the lock's holder may.

    The word is a symbolic link, so that it is replaced whole and read in one call. Raises OSError.
    """
    try:
        if os.readlink(paths.recorded_link) == paths.runtime_dir:
            return
    except OSError:
        pass  # none yet, or something else in its place
    fresh = paths.recorded_link + ".new"
    try:
        os.unlink(fresh)
    except FileNotFoundError:
        pass
    os.symlink(paths.runtime_dir, fresh)
    os.rename(fresh, paths.recorded_link)


def _lock(path: str, deadline: float) -> int:
    """Return a descriptor that holds the lock on the file which lies at `path` now. Raises AlreadyRunning, UnsafePath,
    OSError."""
    pause = FIRST_PAUSE_S
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise UnsafePath(path, f"{path} is not a plain file. Move it away.")
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid, version, host = _read_note(fd)
            os.close(fd)
            if time.monotonic() >= deadline:
                raise AlreadyRunning(path, pid, version, host) from None
        except BaseException:
            os.close(fd)
            raise
        else:
            if _lies_at(fd, path):
                return fd
            os.close(fd)  # somebody replaced the file between our opening and locking it
            continue
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_S)


def _lies_at(fd: int, path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return os.path.samestat(found, os.fstat(fd))


def _write_note(fd: int, note: bytes) -> None:
    os.pwrite(fd, note, 0)
    os.ftruncate(fd, len(note))


def _read_note(fd: int) -> tuple[int | None, str | None, str | None]:
    """Return pid, version and host of the last that held the file, each None if it is not there."""
    words = os.pread(fd, LONGEST_NOTE, 0).decode("utf-8", "replace").split()
    pid = int(words[0]) if words and words[0].isdecimal() else None
    return pid, words[1] if len(words) > 1 else None, words[2] if len(words) > 2 else None

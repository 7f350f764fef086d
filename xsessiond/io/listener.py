"""Listening sockets at paths: bound under the lock, or taken over from a service manager, and known again later.

Laws: nothing is unlinked or bound without the lock in hand; a socket is readable and writable by this user alone from
its first moment; what lies at a path and is not a socket of ours is left alone. Refuses to know: who connects.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys
from collections.abc import MutableMapping

from xsessiond.core.limits import BACKLOG
from xsessiond.io.lock import BrokerLock
from xsessiond.io.sdnotify import take_passed_sockets
from xsessiond.paths import UnsafePath, check_socket_path

DYING_S = 1.0
"""How long a listener whose owner was killed may still answer: a process lets go of its descriptors one by one."""


class PathInUse(Exception):
    """Something listens at the path, and does so without our lock: a service manager, or another program."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"another program listens at {path}. If the service manager does, let it start the broker: "
            "systemctl --user start xsessiond"
        )


class BadListener(Exception):
    """A socket that was passed to us is not one that we can serve. The text says what is wrong with it."""


class ListeningSocket(socket.socket):
    """A socket that listens at `path`, non-blocking. It knows whether it is still what lies there."""

    __slots__ = ("_device", "_inode", "path")

    path: str

    def intact(self) -> bool:
        """Tell whether the file at `path` still is this socket's: neither gone nor replaced, and in the same place."""
        try:
            found = os.lstat(self.path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (self._device, self._inode)

    def unlink(self) -> None:
        """Take the file away, if it still is this socket's. The socket stays open."""
        if self.intact():
            os.unlink(self.path)

    def _lies_nowhere(self, path: str) -> None:
        self.path, self._device, self._inode = path, -1, -1

    def _lies_at(self, path: str) -> None:
        found = os.lstat(path)
        self.path, self._device, self._inode = path, found.st_dev, found.st_ino


def bind_listener(path: str, lock: BrokerLock, *, backlog: int = BACKLOG) -> ListeningSocket:
    """Listen at `path`, in a private directory, with mode 0600; a socket that a dead broker left there is replaced.

    Raises PathInUse if somebody still listens there, UnsafePath if something else than a socket lies there,
    SocketPathTooLong, OSError. May block for `DYING_S` if the place is taken.
    """
    assert lock.held, "a socket is bound under the lock"
    check_socket_path(path)
    _clear(path)
    listener = ListeningSocket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _bind_private(listener, path)
        listener._lies_at(path)
        listener.listen(backlog)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def take_over_listener(fd: int) -> ListeningSocket:
    """The listening socket that the broker which ran in this process before us left open. Raises BadListener."""
    try:
        listener = ListeningSocket(fileno=fd)
    except OSError as error:
        raise BadListener(f"What was handed over as a socket is none: {error.strerror}.") from None
    where = os.fsdecode(listener.getsockname())
    try:
        listener._lies_at(where)
    except OSError:
        listener._lies_nowhere(where)  # it was deleted meanwhile; who looks after the directory makes it again
    listener.setblocking(False)
    return listener


def adopt_listeners(environ: MutableMapping[str, str], expected_path: str) -> dict[str, ListeningSocket]:
    """Take over the sockets that a service manager passed to us, by name; empty if there are none.

    Their variables are taken out of `environ`. All are closed and BadListener is raised unless each is a listening Unix
    stream socket that was bound at `expected_path`. One whose file was deleted since is closed and left out: nobody
    can connect to it any more, and the caller is free to bind its own in its place.
    """
    adopted: dict[str, ListeningSocket] = {}
    passed = take_passed_sockets(environ)
    try:
        for name in list(passed):
            listener = _adopt(name, passed.pop(name), expected_path)
            if _is_reached(expected_path):
                listener._lies_at(expected_path)
                os.chmod(expected_path, 0o600)
                adopted[name] = listener
            else:
                listener.close()
    except BaseException:
        for listener in adopted.values():
            listener.close()
        for fd in passed.values():
            os.close(fd)
        raise
    return adopted


def _adopt(name: str, fd: int, expected_path: str) -> ListeningSocket:
    try:
        listener = ListeningSocket(fileno=fd)
    except OSError:
        with contextlib.suppress(OSError):
            os.close(fd)
        raise BadListener(f"What was passed as {name!r} is not a socket.") from None
    try:
        if listener.family != socket.AF_UNIX or listener.type != socket.SOCK_STREAM:
            raise BadListener(f"What was passed as {name!r} is not a Unix stream socket.")
        if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise BadListener(f"The socket that was passed as {name!r} does not listen.")
        where = os.fsdecode(listener.getsockname())
        if where != expected_path:
            raise BadListener(
                f"The socket that was passed as {name!r} listens at {where}, but clients look for {expected_path}. "
                "Make the unit's ListenStream the same, or unset XSESSIOND_RUNTIME_DIR."
            )
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _is_reached(path: str) -> bool:
    """Whether who connects to `path` reaches a listener. Under the lock, and for a path that one was bound at, that is
    this one: what a dead broker left there refuses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            return True  # its backlog is full
        except OSError:
            return False
        return True


def _clear(path: str) -> None:
    """Unlink a socket that nobody listens on any more."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise UnsafePath(path, f"{path} is not a socket of this user. Look at what it is, and remove it.")
    if _somebody_listens(path):
        raise PathInUse(path)
    os.unlink(path)


def _somebody_listens(path: str) -> bool:
    for _ in range(2):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(DYING_S)
            try:
                probe.connect(path)
            except BlockingIOError:
                return True  # its backlog is full
            except OSError:
                return False
            try:
                probe.recv(1)
            except TimeoutError:
                return True
            except OSError:
                pass
        # We hold the lock, so a broker that listened here is dying: its end closed our connection, and by now nobody
        # listens. A program that merely turned us away still does; so ask once more.
    return True


def _bind_private(listener: socket.socket, path: str) -> None:
    if sys.platform == "darwin":
        # The umask is the whole process's, and a thread may be starting a program just now; here is no other way.
        before = os.umask(0o177)
        try:
            listener.bind(path)
        finally:
            os.umask(before)
    else:
        os.fchmod(listener.fileno(), 0o600)  # Linux gives the file the mode of the socket
        listener.bind(path)
        if stat.S_IMODE(os.lstat(path).st_mode) != 0o600:  # a strange umask, or a kernel that is Linux by name only
            os.chmod(path, 0o600)

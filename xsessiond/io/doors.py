"""The private sockets of sessions: a listening socket for each, from when it may be reached until it may not.

Laws: a session has one door at most, and its file is there exactly while the door is open; one that a broker before us
left open, in this process or by being killed, is taken over or taken away. Refuses to know: who connects, why a session
may be reached.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from xsessiond.core.limits import DOOR_CONNECTIONS, LINKS_PER_SESSION
from xsessiond.io.accept import Acceptor
from xsessiond.io.listener import ListeningSocket, PathInUse, bind_listener
from xsessiond.io.lock import BrokerLock
from xsessiond.io.logs import Log
from xsessiond.paths import PathError, UnsafePath, dir_fault
from xsessiond.private_dirs import check_parents

Serve = Callable[[str, socket.socket, Callable[[], None]], None]
"""Takes a connection to a session's door: the session's id, the socket, and what to call when it is closed."""


class _Door(NamedTuple):
    """granted: where its socket is, if not in the sessions' dir."""

    ref: str
    granted: str | None
    listener: ListeningSocket


class Doors:
    """All doors. left: sockets that the broker before us left open, by path. `begin` must be called before `open`."""

    __slots__ = ("_acceptor", "_left", "_lock", "_log", "_open", "_serve")

    def __init__(self, lock: BrokerLock, serve: Serve, log: Log, left: Mapping[str, ListeningSocket]) -> None:
        self._lock, self._serve, self._log = lock, serve, log
        self._left = dict(left)
        self._open: dict[str, _Door] = {}
        self._acceptor: Acceptor | None = None

    def begin(self, acceptor: Acceptor) -> None:
        """From now on doors are served there. Sockets of a broker that was killed are removed; those of sessions that
        may come back are bound anew at once."""
        self._acceptor = acceptor
        directory = self._lock.paths.session_dir
        try:
            names = os.listdir(directory)
        except OSError:
            return  # gone since it was made; who looks after it makes it again
        for name in names:
            path = f"{directory}/{name}"
            if not name.endswith(".sock") or path in self._left:
                continue
            try:
                os.unlink(path)
            except OSError as problem:
                self._log.write("warning", "what lies there is left", {"path": path, "problem": problem.strerror})

    def settle(self) -> None:
        """All sessions of the broker before us are here: what it left open for others is closed."""
        for listener in self._left.values():
            listener.unlink()
            listener.close()
        self._left.clear()

    def open(self, session_id: str, ref: str, granted: str | None = None) -> None:
        """Listens on a session's private socket; nothing to do if it does. granted: where it is, if not in the
        sessions' dir; its directory must be there and private."""
        if session_id in self._open or self._acceptor is None:
            return
        try:
            self._add(session_id, ref, granted)
        except (OSError, PathError, PathInUse) as problem:
            self._log.write("error", "a private socket cannot be opened", {"ref": ref, "problem": str(problem)})

    def close(self, session_id: str) -> None:
        """Stops listening on a session's private socket and removes it."""
        door = self._open.pop(session_id, None)
        if door is not None and self._acceptor is not None:
            door.listener.unlink()
            self._acceptor.remove(door.listener)

    def intact(self) -> bool:
        """Whether the files of all are there that should be."""
        return not any(map(_is_lost, self._open.values()))

    def directories(self) -> list[str]:
        """Where granted sockets are, as far as that is there."""
        granted = {os.path.dirname(door.granted) for door in self._open.values() if door.granted is not None}
        return sorted(filter(os.path.isdir, granted))

    def remake(self) -> None:
        """Binds again those whose files are lost. Raises PathError, PathInUse, OSError: some are missing still."""
        assert self._acceptor is not None
        failed: Exception | None = None
        for session_id, door in list(self._open.items()):
            if not _is_lost(door):
                continue
            try:
                self._add(session_id, door.ref, door.granted)
            except (PathError, PathInUse, OSError) as problem:
                failed = failed or problem  # the others first; then this one is tried again
                continue
            self._acceptor.remove(door.listener)
        if failed is not None:
            raise failed

    def at(self, path: str) -> ListeningSocket | None:
        """The door whose file is there."""
        return next((door.listener for door in self._open.values() if door.listener.path == path), None)

    def unlink(self) -> None:
        """Removes the files of all."""
        for door in self._open.values():
            door.listener.unlink()

    def detach(self) -> tuple[int, ...]:
        """The descriptors of all, which nobody here closes any more."""
        fds = tuple(door.listener.detach() for door in self._open.values())
        self._open.clear()
        return fds

    def _add(self, session_id: str, ref: str, granted: str | None) -> None:
        assert self._acceptor is not None
        path = self._lock.paths.session_socket(ref) if granted is None else granted
        listener = self._left.pop(path, None)
        if listener is not None and not listener.intact():
            listener.close()
            listener = None
        if listener is None:
            if granted is not None:
                _require_private(os.path.dirname(granted))
            listener = bind_listener(path, self._lock, backlog=LINKS_PER_SESSION)
        self._acceptor.add(listener, partial(self._serve, session_id), max_connections=DOOR_CONNECTIONS)
        self._open[session_id] = _Door(ref, granted, listener)


def _is_lost(door: _Door) -> bool:
    """Whether its file is not there. A granted directory that is gone is nobody's to make again."""
    if door.listener.intact():
        return False
    return door.granted is None or os.path.isdir(os.path.dirname(door.granted))


def _require_private(directory: str) -> None:
    """Raises UnsafePath, OSError, unless only this user can enter it and nobody else can put another in its place."""
    check_parents(directory, os.geteuid())
    wrong = dir_fault(os.lstat(directory), os.geteuid(), private=True)
    if wrong is not None:
        raise UnsafePath(directory, f"{directory} is not used: {wrong}.")

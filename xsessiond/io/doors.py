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

from xsessiond.core.limits import DOOR_CONNECTIONS, LINKS_PER_SESSION
from xsessiond.io.accept import Acceptor
from xsessiond.io.listener import ListeningSocket, PathInUse, bind_listener
from xsessiond.io.lock import BrokerLock
from xsessiond.io.logs import Log
from xsessiond.paths import PathError

Serve = Callable[[str, socket.socket, Callable[[], None]], None]
"""Takes a connection to a session's door: the session's id, the socket, and what to call when it is closed."""


class Doors:
    """All doors. left: sockets that the broker before us left open, by path. `begin` must be called before `open`."""

    __slots__ = ("_acceptor", "_left", "_lock", "_log", "_open", "_serve")

    def __init__(self, lock: BrokerLock, serve: Serve, log: Log, left: Mapping[str, ListeningSocket]) -> None:
        self._lock, self._serve, self._log = lock, serve, log
        self._left = dict(left)
        self._open: dict[str, tuple[str, ListeningSocket]] = {}
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

    def open(self, session_id: str, ref: str) -> None:
        """Listens on a session's private socket; nothing to do if it does."""
        if session_id in self._open or self._acceptor is None:
            return
        try:
            self._add(session_id, ref, self._bind(ref))
        except (OSError, PathError, PathInUse) as problem:
            self._log.write("error", "a private socket cannot be opened", {"ref": ref, "problem": str(problem)})

    def close(self, session_id: str) -> None:
        """Stops listening on a session's private socket and removes it."""
        door = self._open.pop(session_id, None)
        if door is not None and self._acceptor is not None:
            door[1].unlink()
            self._acceptor.remove(door[1])

    def intact(self) -> bool:
        """Whether the files of all are there."""
        return all(listener.intact() for _, listener in self._open.values())

    def remake(self) -> None:
        """Binds again those whose files are not. Raises PathError, PathInUse, OSError: some are missing still."""
        assert self._acceptor is not None
        failed: Exception | None = None
        for session_id, (ref, listener) in list(self._open.items()):
            if listener.intact():
                continue
            try:
                fresh = self._bind(ref)
            except (PathError, PathInUse, OSError) as problem:
                failed = failed or problem  # the others first; then this one is tried again
                continue
            self._acceptor.remove(listener)
            self._add(session_id, ref, fresh)
        if failed is not None:
            raise failed

    def at(self, path: str) -> ListeningSocket | None:
        """The door whose file is there."""
        return next((listener for _, listener in self._open.values() if listener.path == path), None)

    def unlink(self) -> None:
        """Removes the files of all."""
        for _, listener in self._open.values():
            listener.unlink()

    def detach(self) -> tuple[int, ...]:
        """The descriptors of all, which nobody here closes any more."""
        fds = tuple(listener.detach() for _, listener in self._open.values())
        self._open.clear()
        return fds

    def _bind(self, ref: str) -> ListeningSocket:
        path = self._lock.paths.session_socket(ref)
        left = self._left.pop(path, None)
        if left is not None:
            if left.intact():
                return left
            left.close()
        return bind_listener(path, self._lock, backlog=LINKS_PER_SESSION)

    def _add(self, session_id: str, ref: str, listener: ListeningSocket) -> None:
        assert self._acceptor is not None
        self._open[session_id] = ref, listener
        self._acceptor.add(listener, partial(self._serve, session_id), max_connections=DOOR_CONNECTIONS)

"""Accepting connections on any number of listening sockets, whatever the machine runs out of.

Laws: one task serves all listening sockets. A socket whose connections are at their limit is left alone until one of
them closes; newcomers wait in the kernel's backlog. A connection that fails, or a lack of descriptors, ends nothing.
Refuses to know: what is said on a connection, and who may connect.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from functools import partial

import trio

from xsessiond.core.limits import ACCEPT_RETRY_S, ACCEPTS_PER_TURN, MAX_CONNECTIONS
from xsessiond.io.readiness import FdSet

PASSING = frozenset({errno.ECONNABORTED, errno.EINTR, errno.EPERM, errno.EPROTO, errno.ETIMEDOUT})
"""Errors of `accept` that concern the one connection that was to be accepted."""
SHORTAGE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of `accept` that pass when somebody else lets go of something."""

Handler = Callable[[socket.socket, Callable[[], None]], None]
"""Takes over one connection, a non-blocking socket, and calls back once when it has closed it, perhaps at once."""


class Acceptor:
    """Listening sockets, each with a handler for its connections.

    `report` gets a sentence when connections cannot be accepted, and when they can again; `nursery` is where that is
    waited for. The caller runs `fds.run`.
    """

    __slots__ = ("_fds", "_nursery", "_ready", "_report", "_reserve", "_short", "_sources")

    def __init__(self, fds: FdSet, nursery: trio.Nursery, report: Callable[[str], None]) -> None:
        self._fds = fds
        self._nursery = nursery
        self._report = report
        self._ready = self._accept
        self._sources: dict[int, _Source] = {}
        self._reserve: int | None = _open_reserve()
        self._short = False

    def __len__(self) -> int:
        return len(self._sources)

    def add(self, listener: socket.socket, handler: Handler, *, max_connections: int = MAX_CONNECTIONS) -> None:
        """Serve `listener`, which is non-blocking. It belongs to the acceptor from now on. Raises OSError."""
        fd = listener.fileno()
        self._fds.add(fd, self._ready)
        self._sources[fd] = _Source(listener, handler, max_connections)

    def remove(self, listener: socket.socket) -> None:
        """Serve `listener` no longer and close it. Who is connected stays; who waited to be accepted still is."""
        fd = listener.fileno()
        source = self._sources.get(fd)
        if source is None:
            return
        if source.open < source.most:
            self._accept(fd)
        self._fds.remove(fd)
        del self._sources[fd]
        listener.close()

    def adopt(self, listener: socket.socket, connection: socket.socket) -> None:
        """Take a connection as if it had just come in through `listener`."""
        source = self._sources[listener.fileno()]
        source.open += 1
        source.handler(connection, partial(self._closed, source))

    def let_go(self) -> None:
        """Accept nobody any more, and leave the listening sockets open: who connects waits in the kernel."""
        for fd in self._sources:
            self._fds.remove(fd)
        self._sources.clear()
        self.close()

    def close(self) -> None:
        """Close all listening sockets. Connections live on."""
        for fd, source in list(self._sources.items()):
            self._fds.remove(fd)
            source.listener.close()
        self._sources.clear()
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None

    def _accept(self, fd: int) -> None:
        source = self._sources[fd]
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connection, _address = source.listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in PASSING:
                    continue
                if error.errno in SHORTAGE:
                    self._wait_out(fd, source, error)
                    return
                raise
            connection.setblocking(False)
            if self._short:
                self._short = False
                self._report("Connections are accepted again.")
            source.open += 1
            source.handler(connection, partial(self._closed, source))
            if source.open >= source.most:
                self._fds.remove(fd)
                source.full = True
                return

    def _closed(self, source: _Source) -> None:
        source.open -= 1
        if source.full:
            source.full = False
            self._resume(source)

    def _resume(self, source: _Source) -> None:
        fd = source.listener.fileno()
        if self._sources.get(fd) is source:
            self._fds.add(fd, self._ready)

    def _wait_out(self, fd: int, source: _Source, error: OSError) -> None:
        if not self._short:
            self._short = True
            self._report(f"Connections cannot be accepted for now: {error.strerror}.")
        if error.errno == errno.EMFILE and self._reserve is not None:
            # Out of our own descriptors: with the one kept back, one client learns at once that it must come again.
            os.close(self._reserve)
            self._reserve = None
            try:
                turned_away, _address = source.listener.accept()
                turned_away.close()
            except OSError:
                pass
        self._reserve = self._reserve if self._reserve is not None else _open_reserve()
        self._fds.remove(fd)
        self._nursery.start_soon(self._retry, source)

    async def _retry(self, source: _Source) -> None:
        await trio.sleep(ACCEPT_RETRY_S)
        self._resume(source)


class _Source:
    __slots__ = ("full", "handler", "listener", "most", "open")

    def __init__(self, listener: socket.socket, handler: Handler, most: int) -> None:
        self.listener = listener
        self.handler = handler
        self.most = most
        self.open = 0
        self.full = False


def _open_reserve() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None

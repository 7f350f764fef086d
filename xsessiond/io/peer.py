"""One connection: reads frames for the engine, sends at once, waits only for a peer that is full.

Laws: a send is tried first and queued only when the socket does not take it; what is queued is bounded, and while much
of it waits nothing more is read from that peer; one turn reads a bounded number of bytes, so that one peer cannot keep
the others waiting. Refuses to know: what a frame means.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

import trio

from xsessiond.core.limits import OUTBOX_BYTES, OUTBOX_PAUSE, READ_SIZE
from xsessiond.core.link import Frame, Link
from xsessiond.io.readiness import FdSet

_NOTHING = bytearray()
"""Shared by all for whom nothing waits, which is nearly always; never added to."""


class Peer:
    """A connected stream socket, non-blocking, which belongs to the peer from now on.

    fds: the set that tells when there is something to read. nursery: for waiting until a full peer takes more.
    handle(link, frames): called with what one read brought. gone(peer): called once, when the connection has ended,
    whoever ended it; the socket is closed then.
    """

    __slots__ = (
        "_closing", "_draining", "_emptied", "_fd", "_fds", "_gone", "_handle", "_nursery", "_outbox", "_reading",
        "_sock", "link", "protocol",
    )  # fmt: skip

    def __init__(
        self,
        sock: socket.socket,
        link: int,
        fds: FdSet,
        nursery: trio.Nursery,
        handle: Callable[[int, Sequence[Frame]], None],
        gone: Callable[[Peer], None],
    ) -> None:
        self.link, self.protocol = link, Link()
        self._sock, self._fd, self._fds, self._nursery = sock, sock.fileno(), fds, nursery
        self._handle, self._gone = handle, gone
        self._outbox = _NOTHING
        self._draining = self._closing = self._reading = False
        self._emptied = trio.Event()

    def start(self) -> None:
        """Begins to read."""
        self._reading = True
        self._fds.add(self._fd, self._read)

    def _read(self, _fd: int) -> None:
        try:
            data = self._sock.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.cut()
            return
        frames = self.protocol.receive(data)
        if frames:
            self._handle(self.link, frames)
        if self._draining and len(self._outbox) > OUTBOX_PAUSE:
            self._stop_reading()

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._fds.remove(self._fd)

    def send(self, data: bytes) -> None:
        """Sends, or queues what the socket does not take now. A peer that let too much gather is cut off."""
        if self._draining:
            if len(self._outbox) + len(data) > OUTBOX_BYTES:
                self.cut()
            else:
                self._outbox += data
            return
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it has gone; the next read finds out
        if sent < len(data):
            self._outbox = bytearray(memoryview(data)[sent:])
            self._draining = True
            self._emptied = trio.Event()
            self._nursery.start_soon(self._drain)

    async def _drain(self) -> None:
        """Sends what was queued, as the peer takes it."""
        try:
            while self._outbox and self._fd >= 0:
                await trio.lowlevel.wait_writable(self._sock)
                with memoryview(self._outbox) as view, view[:READ_SIZE] as some:
                    sent = self._sock.send(some)
                del self._outbox[:sent]
                if not self._reading and not self._closing and len(self._outbox) <= OUTBOX_PAUSE:
                    self.start()
        except (OSError, trio.ClosedResourceError):
            self._closing = True  # it has gone, and may not be read at present: nobody else would find out
        self._outbox = _NOTHING
        self._draining = False
        self._emptied.set()
        if self._closing:
            self.cut()

    def close(self) -> None:
        """Ends the connection after what was sent."""
        self._closing = True
        if self._draining:
            self._stop_reading()
        else:
            self.cut()

    def cut(self) -> None:
        """Ends the connection now."""
        if self._fd < 0:
            return
        self._stop_reading()
        self._fd = -1
        if self._draining:
            trio.lowlevel.notify_closing(self._sock)
        self._sock.close()
        self._gone(self)

    def abandon(self) -> None:
        """Closes the socket and tells nobody: the broker itself is over."""
        if self._fd >= 0:
            self._stop_reading()
            self._fd = -1
            self._sock.close()

    async def drained(self) -> None:
        """Returns when nothing waits to be sent any more, sent or given up."""
        while self._draining:
            await self._emptied.wait()

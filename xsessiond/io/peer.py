"""One connection: reads frames for the engine, sends at once, waits only for a peer that is full.

Laws: a send is tried first and queued only when the socket does not take it; what is queued is bounded, and while much
of it waits nothing more is read from that peer; one turn handles a bounded number of frames. Refuses to know: what a
frame means.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

import trio

from xsessiond.core.limits import FRAMES_PER_TURN, OUTBOX_BYTES, OUTBOX_PAUSE, READ_SIZE
from xsessiond.core.link import Frame, Link


class Peer:
    """A connected stream socket, non-blocking. `handle(frames)` is called with what one read brought, or a part of it.

    The owner runs `run`, which ends when either side closed, and then closes the socket.
    """

    __slots__ = ("_closing", "_drained", "_handle", "_nursery", "_outbox", "_scope", "_sock", "link", "protocol")

    def __init__(
        self,
        sock: socket.socket,
        link: int,
        nursery: trio.Nursery,
        handle: Callable[[int, Sequence[Frame]], None],
    ) -> None:
        self.link, self.protocol = link, Link()
        self._sock, self._nursery, self._handle = sock, nursery, handle
        self._outbox = bytearray()
        self._drained: trio.Event | None = None
        self._closing = False
        self._scope: trio.CancelScope | None = None

    def send(self, data: bytes) -> None:
        """Sends, or queues what the socket does not take now. A peer that let too much gather is cut off."""
        if self._outbox:
            self._outbox += data
            if len(self._outbox) > OUTBOX_BYTES:
                self.cut()
            return
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it has gone; the reader finds out
        if sent < len(data):
            self._outbox += memoryview(data)[sent:]
            self._nursery.start_soon(self._drain)

    async def _drain(self) -> None:
        """Sends what was queued, as the peer takes it."""
        self._drained = drained = trio.Event()
        outbox = self._outbox
        try:
            while outbox:
                await trio.lowlevel.wait_writable(self._sock)
                with memoryview(outbox) as view, view[:READ_SIZE] as some:
                    sent = self._sock.send(some)
                del outbox[:sent]
        except (OSError, trio.ClosedResourceError):
            outbox.clear()
        finally:
            self._drained = None
            drained.set()
            if self._closing:
                self.cut()

    def close(self) -> None:
        """Ends the connection after what was sent."""
        self._closing = True
        if self._drained is None and not self._outbox:
            self.cut()

    def cut(self) -> None:
        """Ends the connection now."""
        if self._scope is not None:
            self._scope.cancel()

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be sent."""
        return not self._outbox

    async def run(self) -> None:
        """Reads until the peer or `close` ends the connection."""
        with trio.CancelScope() as self._scope:
            if not self._closing:
                await self._read()

    async def _read(self) -> None:
        sock, receive, handle = self._sock, self.protocol.receive, self._handle
        while True:
            await trio.lowlevel.wait_readable(sock)
            try:
                data = sock.recv(READ_SIZE)
            except BlockingIOError:
                continue
            except OSError:
                return
            if not data:
                return
            frames = receive(data)
            while len(frames) > FRAMES_PER_TURN:
                handle(self.link, frames[:FRAMES_PER_TURN])
                del frames[:FRAMES_PER_TURN]
                await trio.lowlevel.checkpoint()
            if frames:
                handle(self.link, frames)
            while len(self._outbox) > OUTBOX_PAUSE and self._drained is not None:
                await self._drained.wait()

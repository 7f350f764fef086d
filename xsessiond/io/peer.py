"""One connection: reads frames for the engine, sends at once, waits only for a peer that is full.

Laws: a send is tried first and queued only when the socket does not take it; what is queued is bounded, and while much
of it waits, or the engine holds the peer, nothing more is read or handled from it; one turn handles a bounded number of
bytes and of frames, so that one peer cannot keep the others waiting. Refuses to know: what a frame means.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

import trio

from xsessiond.core.limits import FRAMES_PER_TURN, OUTBOX_BYTES, OUTBOX_PAUSE, READ_SIZE
from xsessiond.core.link import Frame, Link
from xsessiond.io.readiness import FdSet

_NOTHING = bytearray()
"""Shared by all for whom nothing waits, which is nearly always; never added to."""


class Peer:
    """A connected stream socket, non-blocking, which belongs to the peer from now on.

    fds: the set that tells when there is something to read. nursery: for waiting until a full peer takes more.
    handle(link, frames): called with what came; returns how many of the frames it handled, the rest come again.
    gone(peer): called once, when the connection has ended, whoever ended it; the socket is closed then.
    """

    __slots__ = (
        "_closing", "_draining", "_emptied", "_fd", "_fds", "_frames", "_gone", "_handle", "_heard", "_held",
        "_nursery", "_outbox", "_reading", "_sock", "link", "protocol",
    )  # fmt: skip

    def __init__(
        self,
        sock: socket.socket,
        link: int,
        fds: FdSet,
        nursery: trio.Nursery,
        handle: Callable[[int, Sequence[Frame]], int],
        gone: Callable[[Peer], None],
    ) -> None:
        self.link, self.protocol = link, Link()
        self._sock, self._fd, self._fds, self._nursery = sock, sock.fileno(), fds, nursery
        self._handle, self._gone = handle, gone
        self._outbox = _NOTHING
        self._frames: list[Frame] = []
        self._draining = self._closing = self._reading = self._held = self._heard = False
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
        self._heard = True
        frames = self.protocol.receive(data)
        if frames:
            self._work_on(frames)
        elif self._full:
            self._stop_reading()

    @property
    def _full(self) -> bool:
        return self._held or (self._draining and len(self._outbox) > OUTBOX_PAUSE)

    def _work_on(self, frames: list[Frame]) -> None:
        """Has frames handled: as many as one turn may bring. What is left comes before what is read next."""
        done = self._handle(self.link, frames if len(frames) <= FRAMES_PER_TURN else frames[:FRAMES_PER_TURN])
        if self._fd < 0:
            return
        self._frames = frames[done:]
        if self._full or self._frames:
            self._stop_reading()
            if not self._full:
                self._fds.soon(self._go_on)

    def _go_on(self) -> None:
        """There was more to do than one turn allows, or no room for the answers."""
        if self._fd < 0 or self._closing or self._full:
            return
        if self._frames:
            frames, self._frames = self._frames, []
            self._work_on(frames)
        if not self._frames:
            self._read_on()

    def _read_on(self) -> None:
        if self._fd >= 0 and not self._reading and not self._full:
            self.start()

    def hear_out(self) -> None:
        """Has handled what came and was not read yet, at the end: one read's share of it."""
        if self._fd >= 0 and not (self._closing or self._full):
            self._read(self._fd)

    def hold(self) -> None:
        """Handles and reads nothing more, until `resume`: enough of this peer's is under way."""
        self._held = True
        self._stop_reading()

    def resume(self) -> None:
        """Goes on after `hold`."""
        self._held = False
        self._fds.soon(self._go_on)

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
                self.protocol.unsent = len(self._outbox)
            return
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it has gone; the next read finds out
        if sent < len(data):
            self._outbox = bytearray(memoryview(data)[sent:])
            self.protocol.unsent = len(self._outbox)
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
                self.protocol.unsent = len(self._outbox)
                if not (self._reading or self._full):
                    self._fds.soon(self._go_on)
        except (OSError, trio.ClosedResourceError):
            self._closing = True  # it has gone, and may not be read at present: nobody else would find out
        self._outbox = _NOTHING
        self.protocol.unsent = 0
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

    def let_go(self) -> int | None:
        """Gives up the connection without ending it, if nothing was said on it yet: its descriptor, which nobody here
        closes any more. None, and all as it was, if something was."""
        if self._heard or self._closing or self._fd < 0:
            return None
        self._stop_reading()
        self._fd = -1
        return self._sock.detach()

    async def drained(self) -> None:
        """Returns when nothing waits to be sent any more, sent or given up."""
        while self._draining:
            await self._emptied.wait()

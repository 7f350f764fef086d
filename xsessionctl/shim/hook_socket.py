"""The connections of hooks that ask: one request in, one answer out, and nothing waits for either.

    request   `EVENT ask|wait LENGTH`, a newline, and so many bytes
    answer    all that comes before the connection ends

Laws: what is read is bounded, in bytes and in time; whoever wrote an answer learns whether it went out whole. Refuses
to know: who may ask, what is asked.
"""

from __future__ import annotations

import os
from _socket import AF_UNIX, SOCK_STREAM
from _socket import socket as Socket  # noqa: N812 - it is a class
from time import monotonic

from xsessionctl.shim.loop import send_some

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST_S = 1.0
"""A hook that has not said all by then is not heard."""
REQUEST_BYTES = 8 << 20
HEAD_BYTES = 200


class Request:
    """What a hook has to say. waits: it wants to be told something later, by which it wakes its session."""

    __slots__ = ("body", "event", "waits")

    def __init__(self, event: str, body: bytes, *, waits: bool) -> None:
        self.event, self.body, self.waits = event, body, waits


class Listener:
    """A socket that is listened at. greet: is given each new connection."""

    wants_write = False
    due: float | None = None

    def __init__(self, greet: Callable[[Socket], None]) -> None:
        self._greet = greet
        self._socket = Socket(AF_UNIX, SOCK_STREAM)
        self._socket.setblocking(False)

    def bind(self, path: str, backlog: int) -> None:
        """Call once. Raises OSError."""
        self._socket.bind(path)
        os.chmod(path, 0o600)
        self._socket.listen(backlog)

    def fileno(self) -> int | None:
        """To poll."""
        return self._socket.fileno()

    def read(self) -> None:
        """Somebody knocks."""
        try:
            descriptor, _ = self._socket._accept()  # type: ignore[attr-defined] # what `socket.accept` is made of
        except OSError:
            return
        link = Socket(AF_UNIX, SOCK_STREAM, 0, descriptor)
        link.setblocking(False)
        self._greet(link)

    def write(self) -> None:
        """Never called."""

    def tick(self, now: float) -> None:
        """Has no deadline."""

    def close(self) -> None:
        """Listens no more."""
        self._socket.close()


class Caller:
    """One who asks. hear: is given the request. part: is told of its end.

    on_gone: called at its end too, for whoever kept it to answer later.
    """

    __slots__ = (
        "_dropped",
        "_hear",
        "_heard",
        "_incoming",
        "_link",
        "_outgoing",
        "_part",
        "_sent",
        "due",
        "on_gone",
        "reply",
    )

    def __init__(self, link: Socket, hear: Callable[[Caller, Request], None], part: Callable[[Caller], None]) -> None:
        self._link, self._hear, self._part = link, hear, part
        self._incoming = b""
        self._heard = False
        self._outgoing: bytes | None = None
        self._sent: Callable[[], None] = _nothing
        self._dropped: Callable[[], None] = _nothing
        self.due: float | None = monotonic() + REQUEST_S
        self.on_gone: Callable[[], None] = _nothing
        self.reply = self._reply  # one object, by which it is known again

    @property
    def wants_write(self) -> bool:
        """Whether something is left to write."""
        return self._outgoing is not None

    def fileno(self) -> int | None:
        """To poll."""
        number = self._link.fileno()
        return number if number >= 0 else None

    def read(self) -> None:
        """More of its request, or its end."""
        try:
            data = self._link.recv(1 << 16)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data or self._heard:
            self.close()
            return
        self._incoming += data
        head, newline, body = self._incoming.partition(b"\n")
        if len(head) > HEAD_BYTES:
            self.close()
            return
        if not newline:
            return
        words = head.decode("ascii", "replace").split(" ")
        sound = len(words) == 3 and words[1] in ("ask", "wait") and words[2].isdecimal()
        size = min(int(words[2]), REQUEST_BYTES) if sound else -1
        if len(body) > size:
            self.close()
        elif len(body) == size:
            self._heard = True
            self.due = None
            self._incoming = b""
            self._hear(self, Request(words[0], body, waits=words[1] == "wait"))

    def _reply(self, text: str, done: Callable[[], None], dropped: Callable[[], None]) -> None:
        # That there is nothing to say is said by saying nothing.
        self.send("" if text == "{}" else text, done, dropped)

    def send(self, text: str, done: Callable[[], None], dropped: Callable[[], None]) -> None:
        """Writes all that there is to say, and hangs up. done, dropped: called when it went out whole, or will not."""
        if self._link.fileno() < 0:
            dropped()
            return
        self._sent, self._dropped = done, dropped
        self._outgoing = text.encode("utf-8", "replace")
        self.due = monotonic() + REQUEST_S
        self.write()

    def write(self) -> None:
        """Writes what it takes."""
        assert self._outgoing is not None
        try:
            self._outgoing = send_some(self._link, self._outgoing)
        except OSError:
            self.close()
            return
        if self._outgoing:
            return
        sent, self._sent, self._dropped = self._sent, _nothing, _nothing
        self.close()
        sent()

    def tick(self, now: float) -> None:
        """Hangs up on one that takes too long."""
        if self.due is not None and self.due <= now:
            self.close()

    def close(self) -> None:
        """Hangs up."""
        self._part(self)
        self._link.close()
        self._outgoing = None
        self.due = None
        dropped, self._dropped = self._dropped, _nothing
        gone, self.on_gone = self.on_gone, _nothing
        dropped()
        gone()


def _nothing() -> None:
    pass

"""One peer's side of the protocol: bytes in, frames out, and what it may say now.

    HELLO     nothing was agreed; `hello`, `status`, `stop` and `restart` only
    READY     every method of its kind of socket
    DRAINING  the broker stops; only what settles mail that was given out is taken, the rest is refused
    CLOSED    nothing comes any more

Laws: a line that is no frame of the protocol before the handshake closes the link without an answer; afterwards with
one. A refused frame leaves the state as it was. Refuses to know: sessions, what a frame means, sockets.
"""

from __future__ import annotations

from enum import Enum

from xsessiond.core.jsonrpc import INVALID_REQUEST, REFUSED, EndlessLine, LineSplitter, Oversize
from xsessiond.core.limits import MAX_FRAME, MAX_SKIP
from xsessiond.core.wire import (
    Ack,
    Answer,
    AnyRequest,
    BadFrame,
    End,
    Handed,
    Hello,
    Release,
    Restart,
    Status,
    Stop,
    decode_frame,
)


class LinkState(Enum):
    """Where the link is."""

    HELLO = "hello"
    READY = "ready"
    DRAINING = "draining"
    CLOSED = "closed"


STEPS = {
    (LinkState.HELLO, "agreed"): LinkState.READY,
    (LinkState.READY, "agreed"): LinkState.READY,
    (LinkState.HELLO, "drain"): LinkState.DRAINING,
    (LinkState.READY, "drain"): LinkState.DRAINING,
    (LinkState.DRAINING, "agreed"): LinkState.DRAINING,
    (LinkState.DRAINING, "drain"): LinkState.DRAINING,
    (LinkState.HELLO, "close"): LinkState.CLOSED,
    (LinkState.READY, "close"): LinkState.CLOSED,
    (LinkState.DRAINING, "close"): LinkState.CLOSED,
    (LinkState.CLOSED, "close"): LinkState.CLOSED,
}
"""What each event makes of each state. A missing pair is our own bug."""

Frame = AnyRequest | Answer | BadFrame


class Link:
    """The protocol of one connection. `receive` is the only way in; the caller acts on each frame before it feeds
    more. proven: it has shown a session's token. unsent: bytes that the peer has not taken yet, as its socket's owner
    keeps it."""

    __slots__ = ("_splitter", "proven", "state", "unsent")

    def __init__(self) -> None:
        self._splitter = LineSplitter(MAX_FRAME, MAX_SKIP)
        self.state = LinkState.HELLO
        self.proven = False
        self.unsent = 0

    def step(self, event: str) -> None:
        """Moves the state. Raises KeyError naming state and event when that cannot happen."""
        self.state = STEPS[self.state, event]

    @property
    def unfinished(self) -> int:
        """Bytes of a line that has not ended."""
        return self._splitter.pending

    def receive(self, data: bytes) -> list[Frame]:
        """The frames that `data` completes. A `BadFrame` that is fatal is the last: close the link then."""
        if self.state is LinkState.CLOSED:
            return []
        try:
            lines = self._splitter.feed(data)
        except EndlessLine as endless:
            return [_fatal(f"A line of more than {endless} bytes; the limit is {MAX_FRAME}.", "too_large")]
        frames: list[Frame] = []
        for line in lines:
            frame: Frame
            if type(line) is Oversize:
                frame = BadFrame(
                    None, REFUSED, f"The frame has {line.size} bytes; the limit is {MAX_FRAME}.", refusal="too_large"
                )
            else:
                frame = decode_frame(line)  # type: ignore[arg-type]  # mypy does not narrow on `type() is`
            frames.append(frame)
            if type(frame) is BadFrame and frame.fatal:
                break
        return frames

    def allows(self, frame: AnyRequest) -> bool:
        """Whether this request may come now."""
        if self.state is LinkState.DRAINING:
            return isinstance(frame, Hello | Status | Stop | Ack | Handed | Release | End)
        return self.state is LinkState.READY or isinstance(frame, Hello | Status | Stop | Restart)


def _fatal(text: str, refusal: str) -> BadFrame:
    return BadFrame(None, INVALID_REQUEST, text, fatal=True, refusal=refusal)

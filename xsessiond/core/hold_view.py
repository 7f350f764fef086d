"""The hold queue as it is shown, each to what it may see, and to whom it is shown as it changes.

Laws: one answer fits into one frame, and says how much did not; what somebody must decide about is shown whole when it
is asked for by itself. Refuses to know: who may decide, how a message is held.
"""

from __future__ import annotations

from collections.abc import Sequence

from xsessiond.core import limits
from xsessiond.core.errors import Refusal
from xsessiond.core.mailbox import Message
from xsessiond.core.outgoing import encode_notification
from xsessiond.core.shapes import SessionShape, shape_hold
from xsessiond.core.sight import find_own, may_read
from xsessiond.core.state import Core, Wire
from xsessiond.core.wire import encode

FITS = limits.MAX_FRAME - 1024
"""Bytes of held messages that one frame takes."""

Shown = dict[str, object]


class HoldView:
    """The part of the broker that shows the queue."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def held_messages(self) -> list[Message]:
        """All held messages, in the order they came."""
        boxes = [session.box for session in self._core.roster.known.values() if session.box.held]
        return sorted((message for box in boxes for message in box.held.values()), key=lambda message: message.seq)

    def show(self, wire: Wire, wanted: str | None) -> Shown:
        """`{held, left_out}` of docs/protocol.md. wanted: that one only. Raises Refusal: not_found."""
        own = find_own(self._core, wire)
        messages = self._visible(own)
        if wanted is not None:
            messages = [message for message in messages if message.id == wanted]
            if not messages:
                raise Refusal(
                    "not_found", f"No held message has the id {wanted[:80]}.", "xsessionctl hold-queue lists them."
                )
        shown = self._as_fits(messages, own)
        held: list[Shown] = shown["held"]  # type: ignore[assignment]
        room = FITS - sum(len(encode(hold)) + 1 for hold in held)
        for hold, message in zip(held, messages, strict=False):
            room = _add_text(hold, message, room, alone=wanted is not None) if _readable(own, message) else room
        return shown

    def tell_watchers(self) -> None:
        """The queue has changed: tells those who watch it, once for all that one event changed. Whole texts might not
        fit into one frame; who wants one asks for it."""
        self._core.queue_changed = False
        for link in sorted(self._core.queue_watchers):
            own = find_own(self._core, self._core.wires[link])
            self._core.send(link, encode_notification("queue", self._as_fits(self._visible(own), own)))

    def _visible(self, own: frozenset[str] | None) -> list[Message]:
        messages = self.held_messages()
        if own is None:
            return messages
        return [message for message in messages if message.target in own or message.row.sender_id in own]

    def _as_fits(self, messages: Sequence[Message], own: frozenset[str] | None) -> Shown:
        """Without their texts, oldest first."""
        held: list[Shown] = []
        size = 0
        for message in messages:
            hold = self._shape(message)
            if not _readable(own, message):
                hold["preview"] = hold["summary"] = None
            size += len(encode(hold)) + 1
            if size > FITS:
                break
            held.append(hold)
        return {"held": held, "left_out": len(messages) - len(held)}

    def _shape(self, message: Message) -> Shown:
        known = self._core.roster.known
        sender = known.get(message.row.sender_id or "")
        return shape_hold(
            message,
            self._core.shape(sender) if sender is not None else None,
            self._core.shape(known[message.target]),
        )


def _readable(own: frozenset[str] | None, message: Message) -> bool:
    return may_read(own, message.row.sender_id, message.target, message.state)


def _add_text(hold: Shown, message: Message, room: int, *, alone: bool) -> int:
    """Adds the text if it fits, and returns what room is left. One that is asked for by itself makes room for its text:
    what its parties chose to say about themselves goes first."""
    text = message.row.body
    size = len(encode(text))
    if size > room and alone:
        room += _slim(hold)
    if size <= room:
        hold["text"] = text
        room -= size
    return room


def _slim(hold: Shown) -> int:
    """Leaves out what the text tells too, and what the parties say about themselves. Returns the bytes it saved."""
    before = len(encode(hold))
    hold["preview"] = None
    sessions = {side: shape for side, shape in hold.items() if isinstance(shape, SessionShape)}
    for side, shape in sessions.items():
        hold[side] = {"id": shape.id, "ref": shape.ref, "name": shape.name, "harness": shape.harness}
    return before - len(encode(hold))

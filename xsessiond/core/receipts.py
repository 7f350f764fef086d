"""What a sender is told later, by itself: one sentence a message, for the states that it must not miss.

Laws: a receipt is no message: it cannot be replied to and causes none; it waits for the sender's next step and wakes
nobody; at most `MOST` wait, the oldest go first. Refuses to know: how a client shows it.
"""

from __future__ import annotations

from xsessiond.core.mailbox import Message
from xsessiond.core.records import DropReceipts, PutReceipt
from xsessiond.core.roster import Session
from xsessiond.core.state import Core, Wire
from xsessiond.core.times import Now, format_time

MOST = 100

SENTENCES = {
    "expired": "{id} to {to} expired: it was not taken in time.",
    "refused": "{id} to {to} was refused after all, by the receiver's settings.",
    "denied": "{id} to {to} was denied by the receiver's user.",
    "discarded": "{id} to {to} was discarded: its session ended before taking it.",
    "stalled": "{id} was given to {to}'s harness, but nothing shows that its model has seen it. Do not send it again.",
    "released": "{id} to {to} was released and is on its way.",
    "held": "{id} to {to} is held: a human must decide. Do not send it again.",
}
"""The only states that are told without being asked for."""


class Receipts:
    """The part of the broker that remembers what senders have not heard yet."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def add(self, message: Message, state: str, now: Now) -> None:
        """Something happened to a message that its sender must hear."""
        sender_id = message.row.sender_id
        if sender_id is None or sender_id == self._core.script.id:
            return
        text = SENTENCES[state].format(id=message.id, to=message.row.target_name)
        self._core.persist(PutReceipt(sender_id, message.id, state, now.ms, text))
        self.restore(sender_id, message.id, state, now.ms, text)

    def restore(self, session_id: str, message_id: str, state: str, at: int, text: str) -> None:
        """A receipt that was stored before."""
        waiting = self._core.receipts.setdefault(session_id, [])
        waiting.append({"id": message_id, "state": state, "at": format_time(at), "text": text})
        del waiting[:-MOST]

    def show(self, wire: Wire, session: Session) -> list[dict[str, object]]:
        """All that wait for this session. They are told once the link goes on to its next step (`confirm`)."""
        waiting = self._core.receipts.get(session.id, [])
        wire.receipts = len(waiting)
        return waiting

    def confirm(self, wire: Wire, session: Session, now: Now) -> None:
        """What this link was shown has reached the session."""
        if not wire.receipts:
            return
        waiting = self._core.receipts.get(session.id, [])
        del waiting[: wire.receipts]
        wire.receipts = 0
        if not waiting:
            self._core.receipts.pop(session.id, None)
        self._core.persist(DropReceipts(session.id, now.ms))

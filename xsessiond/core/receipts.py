"""What a sender is told later, by itself: one sentence a message, for the states that it must not miss.

Laws: a receipt is no message: it cannot be replied to and causes none; it waits for the sender's next step and wakes
nobody; at most `MOST` wait, the oldest go first; no two of a sender have the same time, which tells them apart.
Refuses to know: how a client shows it.
"""

from __future__ import annotations

from xsessiond.core.mailbox import Message
from xsessiond.core.records import DropReceipts, PutReceipt
from xsessiond.core.roster import Session
from xsessiond.core.state import Core, Receipt, Wire
from xsessiond.core.times import Now, format_time

MOST = 100

SENTENCES = {
    "expired": "{id} to {to} expired: it was not taken in time.",
    "refused": "{id} to {to} was refused after all, by the receiver's settings ({why}).",
    "denied": "{id} to {to} was denied by the receiver's user: {why}.",
    "discarded": "{id} to {to} was discarded: its session ended before taking it.",
    "stalled": "{id} was given to {to}'s harness, but nothing shows that its model has seen it. Do not send it again.",
    "released": "{id} to {to} was released ({why}) and is on its way.",
    "held": "{id} to {to} is held: a human must decide. Do not send it again.",
}
"""The only states that are told without being asked for. why: the rule, or what the user said."""
UNDECIDED = "{id} to {to} expired: nobody decided about it in time."
"""Of one that was still held."""
RECEIVER_SENTENCES = {
    "expired": "1 held message from {name} expired; nobody decided about it.",
    "denied": "1 held message from {name} was denied by your user.",
}
"""What a receiver hears of a message that it never got."""


class Receipts:
    """The part of the broker that remembers what senders have not heard yet."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def add(self, message: Message, state: str, now: Now, why: str = "") -> None:
        """Something happened to a message that its sender must hear. A sender that nothing is known of any more hears
        nothing, and so does a script: it has gone."""
        sender_id = message.row.sender_id or ""
        sender = self._core.owner_of(sender_id)
        if sender is None or sender is self._core.script:
            return
        undecided = state == "expired" and message.hold is not None and message.hold.released_at is None
        sentence = UNDECIDED if undecided else SENTENCES[state]
        text = sentence.format(id=message.id, to=message.row.target_name, why=why.rstrip("."))
        self._tell(sender_id, message.id, state, text, now)

    def tell_receiver(self, message: Message, state: str, now: Now) -> None:
        """A held message ended and its receiver never knew of it: one line for its next step, without the text."""
        text = RECEIVER_SENTENCES[state].format(name=message.row.sender_name)
        self._tell(message.target, message.id, state, text, now)

    def _tell(self, session_id: str, message_id: str, state: str, text: str, now: Now) -> None:
        waiting = self._core.receipts.get(session_id)
        at = max(now.ms, waiting[-1].at + 1) if waiting else now.ms
        self._core.persist(PutReceipt(session_id, message_id, state, at, text))
        self.restore(session_id, message_id, state, at, text)

    def restore(self, session_id: str, message_id: str, state: str, at: int, text: str) -> None:
        """A receipt that was stored before."""
        waiting = self._core.receipts.setdefault(session_id, [])
        waiting.append(Receipt(at, {"id": message_id, "state": state, "at": format_time(at), "text": text}))
        del waiting[:-MOST]

    def show(self, wire: Wire, owner: Session) -> list[dict[str, object]]:
        """All that wait for this session or human. They are told once the link goes on to its next step
        (`confirm`)."""
        waiting = self._core.receipts.get(owner.id)
        if not waiting:
            return []
        wire.told = owner, waiting[-1].at
        return [receipt.shape for receipt in waiting]

    def confirm(self, wire: Wire, now: Now) -> None:
        """What this link was shown has reached its reader."""
        if wire.told is None:
            return
        owner, upto = wire.told
        wire.told = None
        waiting = self._core.receipts.get(owner.id, [])
        left = [receipt for receipt in waiting if receipt.at > upto]
        if len(left) == len(waiting):
            return  # another link was quicker
        if left:
            self._core.receipts[owner.id] = left
        else:
            del self._core.receipts[owner.id]
        self._core.persist(DropReceipts(owner.id, upto))

"""What a sender is told later, by itself: one sentence a message, for the states that it must not miss.

Laws: a receipt is no message: it cannot be replied to and causes none, and no limit of messages counts it; it waits for
the session's next step, and its links hear when receipts begin to wait. It wakes nobody, unless it is what the session
asked to be woken for. At most `MOST` wait, the oldest go first; no two of a session have the same time, which tells
them apart. Refuses to know: how a client shows it.
"""

from __future__ import annotations

from xsessiond.core.mailbox import Message
from xsessiond.core.outgoing import encode_notification
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
    "queued": "{id} still waits: {to} has been at work since, and did not take it. Do not send it again.",
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
        self.tell(sender_id, message.id, state, text, now)

    def tell_receiver(self, message: Message, state: str, now: Now) -> None:
        """A held message ended and its receiver never knew of it: one line for its next step, without the text."""
        text = RECEIVER_SENTENCES[state].format(name=message.row.sender_name)
        self.tell(message.target, message.id, state, text, now)

    def tell(
        self, session_id: str, message_id: str, state: str, text: str, now: Now, *, wake: bool = False, hop: int = 0
    ) -> None:
        """One sentence for this session, or the human. message_id: what it is about; empty for nothing that has an id.
        wake: it is worth a turn of its own, which it has caused; hop: as of a message."""
        waiting = self._core.receipts.get(session_id)
        before = waiting[-1].at if waiting else None
        at = now.ms if before is None else max(now.ms, before + 1)
        row = PutReceipt(session_id, message_id, state, at, text, wake, hop)
        self._core.persist(row)
        self.restore(row)
        session = self._core.roster.known.get(session_id)
        for link in session.links if session is not None else ():
            told = self._core.wires[link].told
            # Of those that it was shown and has not gone on from, it knows.
            if wake or before is None or (told is not None and told[1] >= before):
                self.announce(link, session_id)

    def announce(self, link: int, session_id: str) -> None:
        """Tells a link of a session that receipts wait, if any do."""
        waiting = self._core.receipts.get(session_id)
        if waiting:
            news = {"receipts": len(waiting), "wake": any(receipt.wake for receipt in waiting)}
            self._core.send(link, encode_notification("news", news))

    def restore(self, row: PutReceipt) -> None:
        """A receipt that is stored."""
        waiting = self._core.receipts.setdefault(row.session_id, [])
        shape: dict[str, object] = {
            "id": row.message_id or None,
            "state": row.state,
            "at": format_time(row.at),
            "text": row.text,
        }
        waiting.append(Receipt(row.at, shape, row.wake, row.hop))
        del waiting[:-MOST]

    def show(self, wire: Wire, owner: Session, now: Now) -> list[dict[str, object]]:
        """All that wait for this session or human. They are told once the link goes on to its next step (`confirm`);
        those that wake are acted on from now."""
        waiting = self._core.receipts.get(owner.id)
        if not waiting:
            return []
        wire.told = owner, waiting[-1].at
        for receipt in waiting:
            if receipt.wake:
                owner.causes.enter(str(receipt.shape["id"]), receipt.hop, now.mono)
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

"""How a message gets to its receiver: offered, leased, handed, acknowledged, given back.

Laws: a message is leased by at most one link; only an acknowledgement makes it `delivered`; a lease that ends
otherwise puts it back in its old place. What waits for a conversation that ended is kept for it, for a time. Refuses
to know: who may send what to whom.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec
from msgspec import UNSET, Raw

from xsessiond.core import limits
from xsessiond.core.effects import Persist
from xsessiond.core.envelope import EnvelopeInput, render_envelope
from xsessiond.core.errors import Refusal
from xsessiond.core.ids import MessageId
from xsessiond.core.mailbox import FINAL, Message
from xsessiond.core.receipts import Receipts
from xsessiond.core.records import MarkMessage
from xsessiond.core.roster import Session
from xsessiond.core.shapes import DeliveryShape, PushShape, shape_delivery
from xsessiond.core.state import Core, Wire
from xsessiond.core.times import Now
from xsessiond.core.wire import Ack, Handed, Release, Take, encode, encode_notification

BATCH_BYTES = limits.MAX_FRAME - (8 << 10)
"""What one answer to `take` may hold, so that with its frame it stays under the limit."""


class Delivery:
    """The part of the broker that moves messages out of boxes."""

    __slots__ = ("_core", "_receipts")

    def __init__(self, core: Core, receipts: Receipts) -> None:
        self._core, self._receipts = core, receipts

    def offer(self, target: Session, now: Now) -> None:
        """Pushes what waits over a link that wants it; tells other links that mail waits when it just began to."""
        box = target.box
        if not box.waiting:
            return
        wires = self._core.wires
        quiet = None
        for link in target.links:
            wire = wires[link]
            if not wire.push:
                quiet = wire
                continue
            room = limits.PUSH_WINDOW - len(wire.outstanding)
            if room > 0:
                for message in box.lease(link, room):
                    wire.pushed += 1
                    wire.outstanding.append((wire.pushed, message))
                    shape = PushShape(wire.pushed, shape_delivery(message, target, now.ms))
                    self._core.send(link, encode_notification("message", shape))
                return
        if quiet is not None and len(box.waiting) == 1:
            self._core.send(quiet.link, encode_notification("mail", {"queued": 1}))

    def take(self, wire: Wire, box_of: Session, request: Take, now: Now) -> None:
        """Leases waiting mail to the asking link."""
        most = limits.TAKE_MAX if request.params.max is None else max(0, min(request.params.max, limits.TAKE_MAX))
        taken: list[Raw] = []
        size = 0
        box = box_of.box
        while box.waiting and len(taken) < most:
            shape = shape_delivery(box.waiting[0], box_of, now.ms)
            data = encode(shape) if not request.params.render else encode(self._rendered(shape, box_of))
            if taken and size + len(data) > BATCH_BYTES:
                break
            size += len(data) + 1
            taken.append(Raw(data))
            box.lease(wire.link, 1)
        self._receipts.confirm(wire, box_of, now)
        receipts = self._receipts.show(wire, box_of)
        self._core.answer(wire, request.id, {"messages": taken, "receipts": receipts, "left": len(box.waiting)})

    def _rendered(self, shape: DeliveryShape, receiver: Session) -> dict[str, object]:
        row = self._core.messages[shape.id].row
        found = self._core.roster.known.get(row.sender_id or "")
        text = render_envelope(
            EnvelopeInput(
                id=MessageId(row.id),
                from_kind=row.sender_kind,
                from_id=found.id if found else None,
                from_ref=found.ref if found else None,
                from_name=row.sender_name,
                from_harness=row.sender_harness,
                from_folder=row.sender_cwd,
                sent_at=row.sent_at,
                age_s=shape.age_s,
                hop=shape.hop,
                seq=shape.seq,
                reply_to=MessageId(row.reply_to) if row.reply_to is not None else None,
                can_reply=receiver.can_reply,
                reply_how="tool" if receiver.can_reply else "none",
                body=shape.text,
            ),
            nonce=self._core.entropy(8).hex(),
            full_note=shape.full_note,
        )
        return {**msgspec.json.decode(encode(shape), type=dict[str, object]), "envelope": text}

    def acknowledge(self, wire: Wire, box_of: Session, request: Ack, now: Now) -> None:
        """These are in the receiver's context now."""
        count = 0
        lazy = request.id is UNSET  # nobody waits for the answer; should it be lost with the broker, the lease is too
        upto = request.params.upto
        if upto is not None:
            outstanding = wire.outstanding
            while outstanding and outstanding[0][0] <= upto:
                _, message = outstanding.popleft()
                if message.lease == wire.link:
                    self._deliver(box_of, message, now, lazy=lazy)
                    count += 1
        for message in self._mine(box_of, request.params.ids) if request.params.ids else ():
            self._deliver(box_of, message, now, lazy=lazy)
            count += 1
        if count and not box_of.noted and box_of.kind == "session":
            box_of.noted = True
            self._core.save(box_of)
        if wire.receipts:
            self._receipts.confirm(wire, box_of, now)
        if request.id is not UNSET:
            self._core.answer(wire, request.id, {"acked": count})
        if box_of.box.waiting:
            self.offer(box_of, now)

    def _deliver(self, box_of: Session, message: Message, now: Now, *, lazy: bool) -> None:
        message.advance("ack")
        box_of.box.remove(message)
        del self._core.messages[message.id]
        op = MarkMessage(message.seq, message.id, "delivered", now.ms)
        self._core.out.append(Persist(op, lazy=lazy))

    def hand(self, wire: Wire, box_of: Session, request: Handed, now: Now) -> None:
        """These were given to the harness; whether a turn has them is not known yet."""
        count = 0
        for message in self._mine(box_of, request.params.ids):
            if message.lease is None or message.state == "handed":
                continue
            message.advance("hand")
            message.handed_at = now.ms
            self._core.persist(MarkMessage(message.seq, message.id, "handed", now.ms))
            self._core.agenda.schedule(("stalled", message.id), now.mono + limits.STALLED_AFTER_S)
            count += 1
        self._core.answer(wire, request.id, {"handed": count})

    def release(self, wire: Wire, box_of: Session, request: Release, now: Now) -> None:
        """These did not reach the harness; they wait again."""
        mine = [message for message in self._mine(box_of, request.params.ids) if message.lease == wire.link]
        self._restore(box_of, mine, now)
        self._core.answer(wire, request.id, {"released": len(mine)})

    def give_back(self, box_of: Session, wire: Wire, now: Now) -> None:
        """A link ends: what it had leased waits again, for another link perhaps."""
        leased = box_of.box.leased_by(wire.link)
        wire.outstanding.clear()
        if leased:
            self._restore(box_of, leased, now)

    def _restore(self, box_of: Session, messages: Iterable[Message], now: Now) -> None:
        for message in box_of.box.restore(messages):
            if message.state == "handed":
                message.advance("return")
                self._core.agenda.cancel(("stalled", message.id))
                self._core.persist(MarkMessage(message.seq, message.id, "queued", now.ms, rule="given back"))
        self.offer(box_of, now)

    def _mine(self, box_of: Session, ids: Iterable[str]) -> list[Message]:
        """Those of the ids that are in this box, each once. Others were taken care of before: a late acknowledgement
        is no error."""
        messages = self._core.messages
        found = {}
        for message_id in islice(ids, limits.RECENT_SENDS):
            message = messages.get(message_id)
            if message is not None and message.target == box_of.id:
                found[message_id] = message
        return list(found.values())

    def finish(self, message: Message, event: str, now: Now, *, by: str | None, rule: str) -> None:
        """Ends a message that never reached its receiver, and tells its sender."""
        owner = self._core.owner_of(message.target)
        if owner is not None:
            owner.box.remove(message)
        state = message.advance(event)
        assert state in FINAL
        del self._core.messages[message.id]
        self._core.agenda.cancel(("stalled", message.id))
        self._core.persist(MarkMessage(message.seq, message.id, state, now.ms, by, rule))
        self._receipts.add(message, state, now)

    def stalled(self, message: Message, now: Now) -> None:
        """Handed a while ago, and still no evidence."""
        if message.state == "handed":
            self._receipts.add(message, "stalled", now)

    def keep_for_later(self, session: Session, now: Now) -> None:
        """A conversation ended: when what it had not taken is to expire."""
        if len(session.box):
            self._schedule_expiry(session, now)

    def expire_kept(self, session: Session, now: Now) -> None:
        """The conversation did not come back in time. Asked more often than needed, since a laptop's clock may have
        slept."""
        if session.running:
            return
        if session.ended_at is not None and now.ms - session.ended_at >= self._core.settings.keep_ms:
            for message in list(session.box):
                self.finish(message, "expire", now, by=None, rule="offline.keep")
        else:
            self._schedule_expiry(session, now)

    def _schedule_expiry(self, session: Session, now: Now) -> None:
        left = (session.ended_at or now.ms) + self._core.settings.keep_ms - now.ms
        self._core.agenda.schedule(("keep", session.id), now.mono + min(max(left / 1000, 0.0), 3600.0))


def own_box(wire: Wire) -> Session:
    """The box that this link may empty: its session's."""
    if wire.session is None:
        raise Refusal("not_permitted", "Only a session's own link can take its mail.", "Attach first.")
    return wire.session

"""How a message gets to its receiver: offered, leased, handed, acknowledged, given back.

Laws: a message is leased by at most one link; only an acknowledgement makes it `delivered`; a lease that ends
otherwise puts it back in its old place. What waits for a conversation that ended is kept for it, for a time. Refuses
to know: who may send what to whom.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec
from msgspec import UNSET, Raw

from xsessiond.core import limits
from xsessiond.core.callers import find_caller
from xsessiond.core.effects import Persist
from xsessiond.core.envelope import EnvelopeInput, HeldInfo, render_envelope
from xsessiond.core.errors import Refusal
from xsessiond.core.ids import MessageId
from xsessiond.core.mailbox import FINAL, Message
from xsessiond.core.outgoing import encode_notification
from xsessiond.core.receipts import Receipts
from xsessiond.core.records import MarkMessage
from xsessiond.core.roster import Session
from xsessiond.core.shapes import DeliveryShape, PushShape, shape_delivery
from xsessiond.core.state import Core, Wire
from xsessiond.core.times import Now
from xsessiond.core.waits import Waits
from xsessiond.core.wire import Ack, Handed, Release, Take, encode

BATCH_BYTES = limits.MAX_FRAME - (8 << 10)
"""What one answer to `take` may hold, so that with its frame it stays under the limit."""


class Delivery:
    """The part of the broker that moves messages out of boxes."""

    __slots__ = ("_core", "_receipts", "_waits")

    def __init__(self, core: Core, receipts: Receipts, waits: Waits) -> None:
        self._core, self._receipts, self._waits = core, receipts, waits

    def offer(self, target: Session, now: Now, added: int = 0) -> None:
        """Pushes what is due over a link that wants it. Without one, tells the links when mail began to wait: when all
        that is due is among the `added` that became so now."""
        box = target.box
        if not box.waiting:
            return
        wires = self._core.wires
        pushing = False
        for link in target.links:
            wire = wires[link]
            if not wire.push or wire.paused:
                continue
            pushing = True
            room = limits.PUSH_WINDOW - len(wire.outstanding)
            if room > 0:
                for message in box.lease(link, room, target.state):
                    wire.pushed += 1
                    wire.outstanding[message.id] = wire.pushed, message
                    shape = PushShape(wire.pushed, shape_delivery(message, target, now.ms))
                    self._core.send(link, encode_notification("message", shape))
                return
        count = 0 if pushing else len(box.due(target.state))
        if 0 < count <= added:
            for link in target.links:
                if not wires[link].push:
                    self._core.send(link, encode_notification("mail", {"queued": count}))

    def arrive(self, messages: Sequence[Message], target: Session, now: Now) -> None:
        """These were put into its box: a reply goes to whoever waits for it, all else is offered."""
        others = [
            message
            for message in messages
            if message.row.reply_to is None or not self._waits.hand_reply(message, target, now)
        ]
        if others:
            self.offer(target, now, added=len(others))
        if not target.running:
            self.keep_for_later(target, now)

    def follow(self, target: Session, before: str, now: Now) -> None:
        """The state of a session is another one than before: what waited for that goes."""
        was_due = {message.id for message in target.box.due(before)}
        added = sum(message.id not in was_due for message in target.box.due(target.state))
        if added:
            self.offer(target, now, added)

    def announce(self, wire: Wire, session: Session, now: Now) -> None:
        """A link has become one of this session: it hears what waits."""
        self._receipts.announce(wire.link, session.id)
        self.offer(session, now)

    def resume(self, target: Session, now: Now) -> None:
        """What was given back is pushed again, to whoever gave it back too."""
        for link in target.links:
            self._core.wires[link].paused = False
        self.offer(target, now)

    def take(self, wire: Wire, request: Take, now: Now) -> None:
        """Leases waiting mail to the asking link."""
        box_of = self._box_for(wire)
        most = limits.TAKE_MAX if request.params.max is None else max(0, min(request.params.max, limits.TAKE_MAX))
        taken: list[Raw] = []
        size = 0
        box = box_of.box
        for message in list(islice(box.due(box_of.state), most)):
            shape = shape_delivery(message, box_of, now.ms)
            data = encode(shape)
            if request.params.render:
                rendered = encode(self._rendered(shape, box_of))
                # One that would not fit into a frame goes without its envelope: its receiver has the text for it.
                data = rendered if len(rendered) <= BATCH_BYTES else data
            if taken and size + len(data) > BATCH_BYTES:
                break
            size += len(data) + 1
            taken.append(Raw(data))
            box.lease_one(message, wire.link)
        if taken and wire.session is None:
            wire.borrowed.add(box_of)
        self._receipts.confirm(wire, now)
        receipts = self._receipts.show(wire, box_of, now)
        self._core.answer(
            wire, request.id, {"messages": taken, "receipts": receipts, "left": len(box.due(box_of.state))}
        )

    def _box_for(self, wire: Wire) -> Session:
        """Whose mail this link may take: its session's; on the rendezvous, a human takes what was answered to them."""
        if wire.session is not None:
            return wire.session
        if wire.door is not None:
            raise attach_first()
        caller = find_caller(self._core, wire)
        if caller.kind != "human":
            raise Refusal(
                "not_permitted",
                "Only a session's own link takes its mail, and a person at a terminal takes theirs.",
                "Look at it with `inbox`; the session gets it by itself.",
            )
        return caller.session

    def _rendered(self, shape: DeliveryShape, receiver: Session) -> dict[str, object]:
        message = self._core.messages[shape.id]
        row, hold = message.row, message.hold
        held = None
        if hold is not None and hold.released_at is not None:
            held = HeldInfo((hold.released_at - hold.held_at) / 1000, hold.released_by, hold.released_at)
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
                held=held,
                subagent=bool(row.subagent),
            ),
            nonce=self._core.entropy(8).hex(),
            full_note=shape.full_note,
        )
        return {**msgspec.json.decode(encode(shape), type=dict[str, object]), "envelope": text}

    def acknowledge(self, wire: Wire, request: Ack, now: Now) -> None:
        """These are in the receiver's context now."""
        count = 0
        lazy = request.id is UNSET  # nobody waits for the answer; should it be lost with the broker, the lease is too
        upto = request.params.upto
        if upto is not None:
            while wire.outstanding:
                number, message = next(iter(wire.outstanding.values()))
                if number > upto:
                    break
                self.deliver(message, now, lazy=lazy)
                count += 1
        for message in self._mine(wire, request.params.ids) if request.params.ids else ():
            self.deliver(message, now, lazy=lazy)
            count += 1
        session = wire.session
        if count and session is not None and not session.noted:
            session.noted = True
            self._core.save(session)
        if wire.told is not None:
            self._receipts.confirm(wire, now)
        if request.id is not UNSET:
            self._core.answer(wire, request.id, {"acked": count})
        if session is not None:
            wire.paused = False
            if session.box.waiting:
                self.offer(session, now)

    def deliver(self, message: Message, now: Now, *, lazy: bool) -> None:
        """There is evidence that it is in its receiver's context, which acts on it from now on. lazy: nobody waits for
        this to be stored."""
        message.advance("ack")
        self.take_out(message).causes.enter(message.id, message.row.hop, now.mono)
        op = MarkMessage(message.seq, message.id, "delivered", now.ms)
        self._core.out.append(Persist(op, lazy=lazy))

    def take_out(self, message: Message) -> Session:
        """The message has left its box for good: nobody holds it, and memory need not know it. Returns its receiver."""
        self._end_lease(message)
        owner = self._core.owner_of(message.target)
        assert owner is not None, "a box is kept for as long as it holds anything"
        owner.box.remove(message)
        self._core.stir(owner)
        del self._core.messages[message.id]
        self._core.told_of.pop(message.id, None)
        if message.handed_at is not None:
            self._core.agenda.cancel(("stalled", message.id))
        return owner

    def _end_lease(self, message: Message) -> None:
        wire = self._core.wires.get(message.lease) if message.lease is not None else None
        if wire is not None:
            wire.outstanding.pop(message.id, None)

    def hand(self, wire: Wire, request: Handed, now: Now) -> None:
        """These were given to the harness; whether a turn has them is not known yet."""
        if wire.session is None:
            raise attach_first()
        count = 0
        for message in self._mine(wire, request.params.ids):
            if message.lease is None or message.state == "handed":
                continue
            first = message.handed_at is None and message.row.handed_at is None
            message.advance("hand")
            message.handed_at = now.ms
            self._core.persist(MarkMessage(message.seq, message.id, "handed", now.ms, rule=None if first else "again"))
            self._core.agenda.schedule(("stalled", message.id), now.mono + limits.STALLED_AFTER_S)
            count += 1
        self._core.answer(wire, request.id, {"handed": count})

    def release(self, wire: Wire, request: Release, now: Now) -> None:
        """These did not reach the harness; they wait again. A link that wants pushes gets them again in a while, or
        when it has something new to say: at once would be a circle."""
        session = wire.session
        if session is None and wire.door is not None:
            raise attach_first()
        mine = [message for message in self._mine(wire, request.params.ids) if message.lease == wire.link]
        if mine and wire.push and session is not None:
            wire.paused = True
            self._core.agenda.schedule(("offer", session.id), now.mono + limits.RELEASE_PAUSE_S)
        self._restore(mine, now)
        self._core.answer(wire, request.id, {"released": len(mine)})

    def give_back(self, wire: Wire, now: Now) -> None:
        """A link ends: what it had leased waits again, for another link perhaps."""
        boxes = [*wire.borrowed] if wire.session is None else [wire.session, *wire.borrowed]
        for box_of in boxes:
            self._restore(box_of.box.leased_by(wire.link), now)
        wire.borrowed.clear()

    def _restore(self, messages: list[Message], now: Now) -> None:
        """Leases end without an acknowledgement: their messages wait again, in their old place."""
        if not messages:
            return
        for message in messages:
            self._end_lease(message)
            if message.state == "handed":
                message.advance("return")
                message.stalled = False
                self._core.agenda.cancel(("stalled", message.id))
                self._core.persist(MarkMessage(message.seq, message.id, "queued", now.ms, rule="given back"))
        by_owner: dict[str, list[Message]] = {}
        for message in messages:
            by_owner.setdefault(message.target, []).append(message)
        for owner_id, theirs in by_owner.items():
            owner = self._core.owner_of(owner_id)
            assert owner is not None, "a box is kept for as long as it holds anything"
            owner.box.restore(theirs)
            self.offer(owner, now, added=len(theirs))

    def _mine(self, wire: Wire, ids: Iterable[str]) -> list[Message]:
        """Those of the ids that are in this link's session's box or leased to the link itself, each once. Others were
        taken care of before: a late acknowledgement is no error."""
        messages = self._core.messages
        own = None if wire.session is None else wire.session.id
        found = {}
        for message_id in islice(ids, limits.RECENT_SENDS):
            message = messages.get(message_id)
            if message is None or message.state == "held":
                continue
            if message.target == own or message.lease == wire.link:
                found[message_id] = message
        return list(found.values())

    def finish(self, message: Message, event: str, now: Now, *, by: str | None, rule: str) -> None:
        """Ends a message that never reached its receiver, and tells its sender."""
        state = message.advance(event)
        assert state in FINAL
        self.take_out(message)
        self._waits.end(message.id, state)
        self._core.persist(MarkMessage(message.seq, message.id, state, now.ms, by, rule))
        self._receipts.add(message, state, now, rule)

    def stalled(self, message: Message, now: Now) -> None:
        """Handed a while ago, and still no evidence. (What is not handed any more has no such deadline.)"""
        message.stalled = True
        self._receipts.add(message, "stalled", now)

    def keep_for_later(self, session: Session, now: Now) -> None:
        """A conversation does not run: when what it has not taken is to expire. Asked more often than needed, since a
        laptop's clock may have slept."""
        kept = [self.kept_until(session, message) for message in (*session.box, *session.box.held.values())]
        ends = [until for until in kept if until is not None]
        if ends:
            left = min(ends) - now.ms
            self._core.agenda.schedule(("keep", session.id), now.mono + min(max(left / 1000, 0.0), 3600.0))

    def expire_kept(self, session: Session, now: Now) -> None:
        """The conversation did not come back in time for these."""
        if session.running:
            return
        for message in list(session.box):
            until = self.kept_until(session, message)
            if until is not None and now.ms >= until:
                self.finish(message, "expire", now, by=None, rule="offline.keep")
        self.keep_for_later(session, now)

    def kept_until(self, session: Session, message: Message) -> int | None:
        """Counted from when it could be taken and nobody was there. None: it is held, and has a time of its own."""
        hold = message.hold
        if hold is not None and hold.released_at is None and hold.expires_at is not None:
            return None
        free = message.row.sent_at if hold is None or hold.released_at is None else hold.released_at
        return max(session.ended_at or 0, free) + self._core.settings.keep_ms


def attach_first() -> Refusal:
    """The link came through a session's private socket and has not shown its token."""
    return Refusal("not_permitted", "Only a session's own link can do that, and this is none yet.", "Attach first.")

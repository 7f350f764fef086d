"""Messages that a human must decide about: who judges, how they wait, and every way out.

Laws: the verdict is `admission.decide` over what the broker knows now, never over what a sender says; a held message is
in nobody's reach; each way out is told to the sender and, where it never got it, to the receiver. Deadlines use a clock
that goes on while the machine sleeps. Refuses to know: who may decide.
"""

from __future__ import annotations

from msgspec import structs

from xsessiond.core.admission import Admit, Hold, Party, Policy, Refuse, Setting, Verdict, decide
from xsessiond.core.delivery import Delivery
from xsessiond.core.effects import Notify
from xsessiond.core.errors import Refusal
from xsessiond.core.mailbox import Message
from xsessiond.core.outgoing import encode_notification
from xsessiond.core.policy import policy_of
from xsessiond.core.receipts import Receipts
from xsessiond.core.records import DropTrust, HoldRow, MarkMessage, MessageRow, PutHold, TrustRow
from xsessiond.core.roster import Session
from xsessiond.core.shapes import shape_hold
from xsessiond.core.state import Core
from xsessiond.core.times import Now

LOOK_AGAIN_S = 60.0
"""Longest time between two looks at a deadline of the wall clock."""
WATCHED_MOST = 200
"""Messages in one notification of the queue."""


class Holding:
    """The part of the broker that holds messages and lets them go."""

    __slots__ = ("_core", "_delivery", "_epoch", "_receipts")

    def __init__(self, core: Core, delivery: Delivery, receipts: Receipts) -> None:
        self._core, self._delivery, self._receipts = core, delivery, receipts
        self._epoch = 0

    # -- judging -------------------------------------------------------------------------------------

    def judge(self, sender: Session, target: Session, now: Now) -> Verdict:
        """What would become of a message between these two now."""
        known = sender.verdicts.get(target.id)
        if known is not None and known[0] == self._epoch:
            return known[1]
        trust = self.find_trust(sender.id, target.id, now)
        verdict = decide(self.party(sender), self.party(target), None if trust is None else trust.id)
        if trust is None or trust.until is None:  # one that ends by itself is looked at each time
            sender.verdicts[target.id] = self._epoch, verdict
        return verdict

    def party(self, session: Session) -> Party:
        """One side as admission sees it. The human's own box takes everything."""
        if session.kind != "session":
            accept = Policy(inbound=Setting("accept", "user", "your own box")) if session.kind == "human" else Policy()
            return Party(session.kind, "unknown", accept)
        return Party("session", self._core.class_of(session), session.policy)

    def find_trust(self, sender_id: str, target_id: str, now: Now) -> TrustRow | None:
        """The decision that covers this pair now."""
        for trust in self._core.trusts.values():
            if trust.sender_id == sender_id and trust.target_id == target_id:
                if trust.until is None or trust.until > now.ms:
                    return trust
        return None

    def forget_verdicts(self) -> None:
        """Something changed that verdicts depend on."""
        self._epoch += 1

    def refresh_policy(self, session: Session) -> None:
        """Works out anew what is in force for a session."""
        session.policy = policy_of(self._core.settings, session.launch, session.project)
        self.forget_verdicts()

    # -- holding -------------------------------------------------------------------------------------

    def check_room(self, target: Session) -> None:
        """Raises Refusal: hold_full."""
        most = self._core.settings.held_per_session
        if len(target.box.held) >= most:
            raise Refusal(
                "hold_full",
                f"{most} messages for {target.name} wait for a human already. Nothing was sent.",
                "Wait until the user has decided some: xsessionctl hold-queue.",
                detail={"held": len(target.box.held)},
            )

    def put(self, message: Message, target: Session, verdict: Hold, sender_class: str, now: Now) -> HoldRow:
        """A new message waits for a human."""
        expiry = self._core.settings.hold_expiry_ms
        row = HoldRow(
            message.seq,
            message.id,
            verdict.cause,
            verdict.rule,
            sender_class,
            now.ms,
            now.ms + expiry if verdict.expires and expiry is not None else None,
        )
        self._core.persist(PutHold(row))
        self._core.persist(MarkMessage(message.seq, message.id, "held", now.ms, by=None, rule=verdict.rule))
        self.take_up(message, target, row, now)
        sender = message.row.sender_name
        self._core.out.append(Notify(f"A message for {target.name} is held", f"From {sender}: {verdict.cause}."))
        self._queue_changed(now)
        return row

    def take_up(self, message: Message, target: Session, row: HoldRow, now: Now) -> None:
        """A held message, new or from the store."""
        message.hold = row
        target.box.hold(message)
        if row.expires_at is not None:
            self._schedule(row, now)

    def _schedule(self, row: HoldRow, now: Now) -> None:
        left = ((row.expires_at or now.ms) - now.ms) / 1000
        self._core.agenda.schedule(("held", row.message_id), now.mono + min(max(left, 0.0), LOOK_AGAIN_S))

    def due(self, message: Message, now: Now) -> None:
        """Perhaps the time of a held message is over."""
        row = message.hold
        if message.state != "held" or row is None or row.expires_at is None:
            return
        if now.ms >= row.expires_at:
            self.drop(message, "expire", now, by=None, rule="inbound.hold_expiry")
        else:
            self._schedule(row, now)

    # -- ways out ------------------------------------------------------------------------------------

    def release(self, message: Message, now: Now, *, by: str | None, rule: str) -> None:
        """It may go: to the receiver, and its sender hears so."""
        target = self._core.owner_of(message.target)
        row = message.hold
        assert target is not None, "what is held is in a box"
        assert row is not None, "what is held has its reason"
        message.advance("release")
        message.hold = structs.replace(row, released_by=by or rule, released_at=now.ms)
        self._core.agenda.cancel(("held", message.id))
        self._core.persist(PutHold(message.hold))
        self._core.persist(MarkMessage(message.seq, message.id, "queued", now.ms, by, rule))
        target.box.let_go(message)
        self._receipts.add(message, "released", now)
        if target.running:
            self._delivery.offer(target, now, added=1)
        else:
            self._delivery.keep_for_later(target, now)
        self._queue_changed(now)

    def drop(self, message: Message, event: str, now: Now, *, by: str | None, rule: str) -> None:
        """It will not go: denied, expired, or refused since a setting changed. Both sides hear so."""
        target = self._core.owner_of(message.target)
        self._core.agenda.cancel(("held", message.id))
        self._delivery.finish(message, event, now, by=by, rule=rule)
        if target is not None and event != "refuse":
            self._receipts.tell_receiver(message, message.state, now)
        self._queue_changed(now)

    def reconsider(self, target: Session, now: Now) -> None:
        """The receiver's class, a setting or a trust changed: what may go now goes, all together; what is refused now
        is dropped."""
        for message in list(target.box.held.values()):
            match self._judge_again(message, target, now):
                case Admit(rule):
                    self.release(message, now, by=None, rule=rule)
                case Refuse(rule):
                    self.drop(message, "refuse", now, by=None, rule=rule)
                case Hold():
                    pass

    def reconsider_all(self, now: Now) -> None:
        """A setting that concerns everybody changed."""
        for session in list(self._core.roster.known.values()):
            if session.kind == "session":
                self.refresh_policy(session)
        for session in list(self._core.roster.known.values()):
            if session.box.held:
                self.reconsider(session, now)

    def _judge_again(self, message: Message, target: Session, now: Now) -> Verdict:
        """With the sender's class as it was when it sent: what it became later says nothing about that message."""
        row: MessageRow = message.row
        assert message.hold is not None
        sender = self._core.roster.known.get(row.sender_id or "")
        policy = sender.policy if sender is not None else Policy()
        party = Party(row.sender_kind, message.hold.sender_class, policy)
        trust = self.find_trust(row.sender_id or "", target.id, now)
        return decide(party, self.party(target), None if trust is None else trust.id)

    def end_trusts_of(self, session: Session) -> None:
        """What was trusted for this session only ends with it."""
        for trust in list(self._core.trusts.values()):
            if trust.scope == "session" and session.id in (trust.sender_id, trust.target_id):
                del self._core.trusts[trust.id]
                self._core.persist(DropTrust(trust.id))
        self.forget_verdicts()

    # -- showing -------------------------------------------------------------------------------------

    def held_messages(self) -> list[Message]:
        """All held messages, in the order they came."""
        boxes = [session.box for session in self._core.roster.known.values() if session.box.held]
        return sorted((message for box in boxes for message in box.held.values()), key=lambda message: message.seq)

    def shape(self, message: Message) -> dict[str, object]:
        """`hold` of the contract."""
        sender = self._core.roster.known.get(message.row.sender_id or "")
        target = self._core.roster.known[message.target]
        return shape_hold(message, sender, target, self._core.identity.machine, self._core.class_of(target))

    def _queue_changed(self, now: Now) -> None:
        if not self._core.queue_watchers:
            return
        held = [self.shape(message) for message in self.held_messages()[:WATCHED_MOST]]
        for hold in held:
            hold["text"] = None  # the whole texts may not fit into one frame; who wants one asks for it
        frame = encode_notification("queue", {"held": held})
        for link in self._core.queue_watchers:
            self._core.send(link, frame)

"""Messages that a human must decide about: who judges, how they wait, and every way out.

Laws: the verdict is `admission.decide` over what the broker knows now, never over what a sender says; a held message is
in nobody's reach; each way out is told to the sender and, where it never got it, to the receiver. Deadlines use a clock
that goes on while the machine sleeps. Refuses to know: who may decide, how the queue is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from xsessiond.core import limits
from xsessiond.core.admission import (
    Admit,
    Hold,
    Party,
    Policy,
    Refuse,
    Setting,
    Verdict,
    decide,
    is_senders_own,
    merge_settings,
)
from xsessiond.core.delivery import Delivery
from xsessiond.core.effects import Notify
from xsessiond.core.errors import Refusal
from xsessiond.core.hold_view import HoldView
from xsessiond.core.mailbox import Message
from xsessiond.core.policy import policy_of
from xsessiond.core.receipts import Receipts
from xsessiond.core.records import DropTrust, HoldRow, Kind, MarkMessage, MessageRow, PutHold, TrustRow
from xsessiond.core.roster import Session
from xsessiond.core.shapes import shape_step
from xsessiond.core.state import Caller, Core
from xsessiond.core.times import Now

LOOK_AGAIN_S = 60.0
"""Longest time between two looks at a deadline of the wall clock."""
UNKNOWN_OUTBOUND = Policy(outbound=Setting(None, "project", "its session is not known any more"))
"""Of a sender that was forgotten, for what its own settings held: nothing says that they would let it go now."""


class Holding:
    """The part of the broker that holds messages and lets them go."""

    __slots__ = ("_core", "_delivery", "_epoch", "_receipts", "_view")

    def __init__(self, core: Core, delivery: Delivery, receipts: Receipts, view: HoldView) -> None:
        self._core, self._delivery, self._receipts, self._view = core, delivery, receipts, view
        self._epoch = 0

    # -- judging -------------------------------------------------------------------------------------

    def judge(self, caller: Caller, target: Session, now: Now) -> Verdict:
        """What would become of a message of this caller to that session now."""
        if caller.among:
            return decide(self.party_of(caller), self.party(target))
        sender = caller.session
        known = sender.verdicts.get(target.id)
        if known is not None and known[0] == self._epoch:
            return known[1]
        trust = self.find_trust(sender.id, target.id, now)
        verdict = decide(self.party_of(caller), self.party(target), None if trust is None else trust.id)
        if trust is None or trust.until is None:  # one that ends by itself is looked at each time
            sender.verdicts[target.id] = self._epoch, verdict
        return verdict

    def party(self, session: Session) -> Party:
        """A receiver as admission sees it. One inside another session that has another class may have said of itself
        what suits that one: its class is not known."""
        if session.kind != "session":
            return Party(session.kind, "unknown", Policy())
        return Party("session", _one_of(self._classes(self._bound_by(session)), "unknown"), session.policy)

    def party_of(self, caller: Caller) -> Party:
        """A sender as admission sees it. One that may be any of several sessions is bound by what binds each, and so is
        one inside another: an agent can start a session below itself, and have it say of itself what suits."""
        if not caller.among and not caller.session.outer:
            return self.party(caller.session)
        speakers = caller.among or self._bound_by(caller.session)
        outbound = [session.policy.outbound for session in speakers if session.policy.outbound is not None]
        roots = {session.policy.project_root for session in speakers}
        policy = Policy(
            outbound=merge_settings((), outbound),
            project_root=roots.pop() if len(roots) == 1 and not caller.among else None,
        )
        kind: Kind = "session" if caller.is_session else "script"
        return Party(kind, _one_of(self._classes(speakers), "several"), policy)

    def _bound_by(self, session: Session) -> tuple[Session, ...]:
        """It, and those that it was started inside of, though they have ended."""
        known = self._core.roster.known
        return (session, *(known[outer] for outer in sorted(session.outer) if outer in known))

    def _classes(self, sessions: Sequence[Session]) -> set[str]:
        return {self._core.class_of(session) for session in sessions}

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

    def check_room(self, target: Session, size: int) -> None:
        """Whether one more of so many bytes can be held. Raises Refusal: hold_full."""
        box = target.box
        if len(box.held) >= self._core.settings.held_per_session:
            raise _full(target, f"{len(box.held)} messages")
        if box.held_size + size > limits.QUEUE_BYTES_PER_SESSION:
            raise _full(target, f"{box.held_size} bytes of messages")

    def put(
        self, message: Message, target: Session, verdict: Hold, sender_class: str, answers: int | None, now: Now
    ) -> HoldRow:
        """A new message waits for a human. answers: seq of the message that it replies to."""
        expiry = self._core.settings.hold_expiry_ms
        expires_at = now.ms + expiry if verdict.expires and expiry is not None else None
        row = HoldRow(message.seq, message.id, verdict.cause, verdict.rule, sender_class, now.ms, expires_at, answers)
        self._core.persist(PutHold(row))
        self._core.persist(MarkMessage(message.seq, message.id, "held", now.ms, by=None, rule=verdict.rule))
        self.take_up(message, target, row, now)
        sender = message.row.sender_name
        self._core.out.append(Notify(f"A message for {target.name} is held", f"From {sender}: {verdict.cause}."))
        self._core.queue_changed = True
        return row

    def take_up(self, message: Message, target: Session, row: HoldRow, now: Now) -> None:
        """A held message, new or from the store."""
        message.hold = row
        target.box.hold(message)
        if row.expires_at is not None:
            self._schedule(message.id, row.expires_at, now)

    def _schedule(self, message_id: str, expires_at: int, now: Now) -> None:
        left = (expires_at - now.ms) / 1000
        self._core.agenda.schedule(("held", message_id), now.mono + min(max(left, 0.0), LOOK_AGAIN_S))

    def due(self, message: Message, now: Now) -> None:
        """Perhaps the time of a held message is over. (What is not held any more has no such deadline.)"""
        assert message.hold is not None, "what is held has its reason"
        assert message.hold.expires_at is not None, "only what expires is looked at"
        if now.ms >= message.hold.expires_at:
            self.drop(message, "expire", now, by=None, rule="inbound.hold_expiry")
        else:
            self._schedule(message.id, message.hold.expires_at, now)

    def expire_kept(self, session: Session, now: Now) -> None:
        """A conversation did not come back: what is held for it without a time of its own does not wait for ever."""
        if session.running:
            return
        for message in list(session.box.held.values()):
            until = self._delivery.kept_until(session, message)
            if until is not None and now.ms >= until:
                self.drop(message, "expire", now, by=None, rule="offline.keep")

    def forget(self, message: Message) -> None:
        """It was not stored, so it never was held."""
        self._core.agenda.cancel(("held", message.id))
        self._delivery.take_out(message)
        self._core.queue_changed = True

    # -- ways out ------------------------------------------------------------------------------------

    def release(self, freed: Iterable[tuple[Message, str]], now: Now, *, by: str | None) -> None:
        """These may go, each by its rule: to their receivers, all of one together, and their senders hear so."""
        by_target: dict[str, list[Message]] = {}
        for message, rule in freed:
            self._let_go(message, now, by, rule)
            by_target.setdefault(message.target, []).append(message)
        for target_id, theirs in by_target.items():
            target = self._core.roster.known[target_id]
            target.box.let_go(theirs)
            self._delivery.arrive(theirs, target, now)
        if by_target:
            self._core.queue_changed = True

    def _let_go(self, message: Message, now: Now, by: str | None, rule: str) -> None:
        hold = message.hold
        assert hold is not None, "what is held has its reason"
        message.advance("release")
        message.hold = structs.replace(hold, released_at=now.ms, released_rule=rule, released_by=by)
        self._core.agenda.cancel(("held", message.id))
        self._core.persist(PutHold(message.hold))
        self._core.persist(MarkMessage(message.seq, message.id, "queued", now.ms, by, rule))
        if hold.answers is not None and message.row.reply_to is not None:  # now it is an admitted reply
            self._core.persist(MarkMessage(hold.answers, message.row.reply_to, "replied", now.ms))
        self._receipts.add(message, "released", now, rule if by is None else f"approved by {by}")
        self._tell_decision(message, now, by, rule)

    def drop(self, message: Message, event: str, now: Now, *, by: str | None, rule: str) -> None:
        """It will not go: denied, expired, or refused since a setting changed. Both sides hear so."""
        self._core.agenda.cancel(("held", message.id))
        self._delivery.finish(message, event, now, by=by, rule=rule)
        if event != "refuse":  # which is the receiver's own wish
            self._receipts.tell_receiver(message, message.state, now)
        self._tell_decision(message, now, by, rule)
        self._core.queue_changed = True

    def _tell_decision(self, message: Message, now: Now, by: str | None, rule: str) -> None:
        step = shape_step(message.state, now.ms, rule, by)
        self._core.tell_followers("decision", {"id": message.id, **step})

    def reconsider(self, session: Session, now: Now) -> None:
        """Its class, its settings or a trust changed: of what is held for it or from it, what may go now goes, all
        together; what is refused now is dropped."""
        mine = [
            message
            for message in self._view.held_messages()
            if message.target == session.id or message.row.sender_id == session.id
        ]
        self._reconsider(mine, now)

    def reconsider_all(self, now: Now) -> None:
        """A setting that concerns everybody changed."""
        for session in self._core.roster.known.values():
            self.refresh_policy(session)
        self._reconsider(self._view.held_messages(), now)

    def _reconsider(self, messages: list[Message], now: Now) -> None:
        freed: list[tuple[Message, str]] = []
        for message in messages:
            verdict = self._judge_again(message, now)
            if isinstance(verdict, Admit):
                freed.append((message, verdict.rule))
            elif isinstance(verdict, Refuse):
                self.drop(message, "refuse", now, by=None, rule=verdict.rule)
        self.release(freed, now, by=None)

    def _judge_again(self, message: Message, now: Now) -> Verdict:
        """With the sender's class as it was when it sent: what it became later says nothing about that message."""
        row: MessageRow = message.row
        hold, target = message.hold, self._core.roster.known[message.target]
        assert hold is not None, "what is held has its reason"
        sender = self._core.roster.known.get(row.sender_id or "")
        if sender is not None:
            policy = self.party_of(Caller("session", sender)).policy
        else:
            policy = UNKNOWN_OUTBOUND if is_senders_own(hold.cause, hold.rule) else Policy()
        trust = self.find_trust(row.sender_id or "", target.id, now)
        party = Party(row.sender_kind, hold.sender_class, policy)
        return decide(party, self.party(target), None if trust is None else trust.id)

    # -- trust -----------------------------------------------------------------------------------------

    def end_trusts_of(self, session: Session) -> None:
        """What was trusted for this session only ends with it."""
        for trust in list(self._core.trusts.values()):
            if trust.scope == "session" and session.id in (trust.sender_id, trust.target_id):
                self.end_trust(trust.id)

    def end_trust(self, trust_id: str) -> None:
        """A decision covers nothing any more."""
        del self._core.trusts[trust_id]
        self._core.persist(DropTrust(trust_id))
        self.forget_verdicts()


def _one_of(classes: set[str], otherwise: str) -> str:
    return classes.pop() if len(classes) == 1 else otherwise


def _full(target: Session, what: str) -> Refusal:
    return Refusal(
        "hold_full",
        f"{what} for {target.name} wait for a human already. Nothing was sent.",
        "Wait until the user has decided some: xsessionctl hold-queue.",
        detail={"held": len(target.box.held)},
    )

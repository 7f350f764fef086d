"""Sending: from a request to a message in its receiver's box, or to a refusal that stored nothing.

Laws: every check comes before the first effect; the sender is who the broker finds it to be; an answer says what is
true when it leaves. Refuses to know: how the receiver gets it.
"""

from __future__ import annotations

from functools import partial

from msgspec import UNSET

from xsessiond.core import limits
from xsessiond.core.admission import Admit, Hold, Refuse
from xsessiond.core.brakes import Brakes
from xsessiond.core.callers import find_speaker
from xsessiond.core.delivery import Delivery
from xsessiond.core.draft import Draft, draft_of
from xsessiond.core.effects import Prune
from xsessiond.core.errors import Refusal
from xsessiond.core.holding import Holding
from xsessiond.core.ids import ID_BYTES, message_id_from
from xsessiond.core.liveness import Liveness
from xsessiond.core.mailbox import Message, message_of
from xsessiond.core.modes import BUSY, MODES, find_obstacle
from xsessiond.core.records import MarkMessage, MessageRow, PutMessage, PutPin
from xsessiond.core.repeats import Repeats
from xsessiond.core.resuming import Resuming
from xsessiond.core.roster import Session
from xsessiond.core.shapes import SendShape, shape_entry, shape_origin
from xsessiond.core.sight import find_own
from xsessiond.core.state import Core, Wire
from xsessiond.core.targets import Targets
from xsessiond.core.times import Now, format_time_or_none
from xsessiond.core.waits import Waits
from xsessiond.core.watchers import Watchers
from xsessiond.core.wire import Send

DAY_MS = 24 * 3600 * 1000

NOTICES = {
    "pull": "It reads its mail when it next uses one of its xsession tools.",
    "turn": "It reads its mail at its next turn.",
    "none": "It has no way to read mail now.",
    "human": "A person reads it with xsessionctl inbox.",
}
"""What a sender should know of a receiver that cannot be woken."""
IN_TURN = "It reads it when its present turn is over."
WAIT = "Do not send it again."
WATCHING = "You are told once, when it is idle. Do not ask again."
WATCHING_HUMAN = (
    "You are told once, when it is idle: on your desktop if approvals.notify is set, and by xsessionctl inbox."
)


class Sending:
    """The part of the broker that accepts messages."""

    __slots__ = (
        "_brakes",
        "_core",
        "_delivery",
        "_holding",
        "_liveness",
        "_repeats",
        "_resuming",
        "_targets",
        "_waits",
        "_watchers",
    )

    def __init__(
        self,
        core: Core,
        delivery: Delivery,
        liveness: Liveness,
        waits: Waits,
        holding: Holding,
        watchers: Watchers,
        brakes: Brakes,
        resuming: Resuming,
    ) -> None:
        self._core, self._delivery, self._liveness, self._waits = core, delivery, liveness, waits
        self._holding, self._watchers, self._brakes, self._resuming = holding, watchers, brakes, resuming
        self._repeats, self._targets = Repeats(core), Targets(core, resuming)

    # -- checks ------------------------------------------------------------------------------

    def send(self, wire: Wire, request: Send, now: Now) -> None:
        """A request to send. Raises Refusal, or goes on at once or when the store has answered."""
        self._begin(wire, draft_of(wire.link, request, find_speaker(self._core, wire)), now)

    def _begin(self, wire: Wire, draft: Draft, now: Now) -> None:
        if draft.params.key is not None and draft.params.message is not UNSET:
            self._repeats.look_for_key(wire, draft, self._find_target, now)
        else:
            self._find_target(wire, draft, now)

    def _find_target(self, wire: Wire, draft: Draft, now: Now) -> None:
        self._targets.find(wire, draft, self._admit, now)

    def _admit(self, wire: Wire, draft: Draft, target: Session, now: Now) -> None:
        """The last checks; then it is accepted."""
        sender, params = draft.caller.session, draft.params
        if not sender.running:  # meanwhile, while the store was asked
            raise Refusal("not_running", "Your own session ended. Nothing was sent.", "Register anew.")
        if target is draft.resumed and not target.running:
            text = f"{target.name} was resumed, and has ended again. Nothing was sent."
            raise Refusal("not_running", text, "Use when_offline = queue to keep the message until it runs.")
        if target is sender:
            raise Refusal(
                "self_target", "That is this session itself. Nothing was sent.", "List the sessions to find another."
            )
        if params.notify_when_idle:
            self._watchers.check(draft.caller, target, starting=draft.resume)
            if params.message is UNSET:
                self._tell_of_wish(draft, target, now)
                return
        obstacle = find_obstacle(params.mode, target)
        if obstacle is not None:
            raise Refusal(
                "unsupported_mode",
                f"{target.name} cannot take a message as {params.mode}: {obstacle}. Nothing was sent.",
                f"It can: {', '.join(mode for mode in MODES if find_obstacle(mode, target) is None)}.",
            )
        verdict = self._holding.judge(draft.caller, target, now)
        if isinstance(verdict, Refuse):
            raise Refusal(
                "refused",
                f"What you send to {target.name} is refused: {verdict.rule}. Nothing was sent.",
                "Only the user can change that.",
                detail={"rule": verdict.rule},
            )
        settings = self._core.settings.pacing
        repeat = sender.pace.find_repeat(target.id, draft.digest, now.mono) if settings.duplicate_window else None
        if repeat is not None:
            self._brakes.count(sender, target, "duplicate", now)
            self._repeats.refuse_duplicate(wire, draft, target, repeat)
            return
        held = isinstance(verdict, Hold)
        try:
            if held:
                self._holding.check_room(target, draft.size)
            self._brakes.check(draft, target, now, queues=not held)
        except Refusal as refusal:
            self._brakes.count(sender, target, refusal.code, now)
            raise
        if draft.resume and isinstance(verdict, Admit):
            self._resuming.begin(wire, draft.request_id, target, partial(self._go_on, draft), now)
        else:
            self._accept(draft, target, verdict, now)

    def _go_on(self, draft: Draft, wire: Wire, *, target: Session, now: Now) -> None:
        """Its target is there now. What was found out before may have changed: all is checked again."""
        draft.resumed, draft.resume = target, False
        draft.notice = f"{target.name} was not running; it was resumed for this."
        self._begin(wire, draft, now)

    def _tell_of_wish(self, draft: Draft, target: Session, now: Now) -> None:
        """Nothing is sent; the answer says whether the target is idle already."""
        cause = self._brakes.find_cause(draft, now)
        watch = self._watchers.ask(draft.caller.session, target, cause.hop + 1 if cause else 0, now)
        notice = draft.notice
        if watch["state"] == "watching":
            how = WATCHING_HUMAN if draft.caller.kind == "human" else WATCHING
            notice = how if notice is None else f"{notice} {how}"
        nothing = dict.fromkeys(("id", "state", "rule", "expires_at", "bytes", "sha256", "reply"))
        answer = {**nothing, "to": target.target, "notice": notice, "watch": watch}
        self._core.answer(self._core.wires[draft.link], draft.request_id, answer)

    # -- acceptance ------------------------------------------------------------------------------

    def _accept(self, draft: Draft, target: Session, verdict: Admit | Hold, now: Now) -> None:
        core, params, sender, cause = self._core, draft.params, draft.caller.session, draft.cause
        seq = core.next_seq
        core.next_seq = seq + 1
        message_id = message_id_from(core.entropy(ID_BYTES))
        pair_seq = sender.pair_seqs[target.id] = sender.pair_seqs.get(target.id, 0) + 1
        own = draft.caller.is_session
        harness, cwd = (sender.harness, sender.cwd) if own else (None, None)
        state = "queued" if isinstance(verdict, Admit) else "held"
        row = MessageRow(
            seq, message_id, state, sender.kind, sender.id, sender.name, harness, cwd, target.id, target.name,
            draft.body, draft.size, draft.digest, params.summary, params.reply_to, draft.thread or message_id,
            cause.hop + 1 if cause else 0, params.mode, params.key, pair_seq, verdict.rule, now.ms, None,
            None, None, None, None, cause.message_id if cause else None, own and params.subagent,
        )  # fmt: skip
        message = message_of(row, shape_origin(row, sender.ref) if row.subagent else sender.origin)
        if not target.running:
            core.save(target)  # pruning may have taken it from the store; with mail it stays
        core.persist(PutMessage(row))
        self._brakes.spend(draft, target, message_id, now)
        if draft.pin is not None and own and sender.pins.get(draft.pin) != target.id:
            before = sender.pins.get(draft.pin)
            if before is not None:
                sender.pins_before[draft.pin] = before
            sender.pins[draft.pin] = target.id
            core.persist(PutPin(sender.id, draft.pin, target.id))
        if params.key is not None:
            self._repeats.note_key(row)
        core.messages[message_id] = message
        shape = SendShape(message_id, row.state, target.target, row.rule, None, draft.size, draft.digest.hex())
        if params.notify_when_idle:
            shape.watch = self._watchers.begin(sender, target, row.hop, now)
        if isinstance(verdict, Hold):
            self._hold(draft, message, target, verdict, shape, now)
        else:
            self._let_through(draft, message, target, shape, now)
        if target.running and now.mono - target.seen >= limits.PING_AFTER_S:
            self._liveness.wonder(target, now)
        if core.followers:
            core.tell_followers("entry", shape_entry(row, with_text=True))
        if now.ms - core.pruned_at > DAY_MS:
            core.pruned_at = now.ms
            core.out.append(Prune(now.ms - core.settings.keep_ms))

    def _let_through(self, draft: Draft, message: Message, target: Session, shape: SendShape, now: Now) -> None:
        """It is its receiver's; the answer leaves, or waits for a reply."""
        params = draft.params
        if draft.original is not None:
            self._mark_replied(draft.original, now)
        known = NOTICES.get(target.delivery if target.kind == "session" else target.kind)
        waits = IN_TURN if params.mode == "followup" and target.state in BUSY else None
        shape.notice = draft.notice or waits or known
        target.box.put(message)
        self._delivery.arrive([message], target, now)  # first, since its receiver is the one who is waiting
        if params.wait_reply and draft.request_id is not UNSET:
            self._waits.begin(draft.link, draft.request_id, shape, params.wait_reply, now)
        else:
            self._core.answer(self._core.wires[draft.link], draft.request_id, shape)

    def _hold(self, draft: Draft, message: Message, target: Session, verdict: Hold, shape: SendShape, now: Now) -> None:
        """A human must decide first. The answer leaves at once, also where a reply was to be waited for: none comes
        before that; it says until when, and where."""
        original = draft.original
        if isinstance(original, Message):
            self._mark_read(original, now)  # replied it is when this reply is let through
        hold = self._holding.put(
            message,
            target,
            verdict,
            self._holding.party_of(draft.caller).perm_class,
            original.seq if original is not None else None,
            now,
        )
        shape.expires_at = format_time_or_none(hold.expires_at)
        known = f"{draft.notice} " if draft.notice is not None else ""
        unseen = "" if self._is_watched() else " Nobody is known to be looking."
        shape.notice = f"{known}Held ({hold.cause}): a human decides with `xsessionctl hold-queue`.{unseen} {WAIT}"
        self._core.answer(self._core.wires[draft.link], draft.request_id, shape)
        if not target.running:
            self._delivery.keep_for_later(target, now)

    def _is_watched(self) -> bool:
        """Whether a held message comes to somebody's notice by itself."""
        core = self._core
        if core.settings.passphrase and not core.settings.passphrase_is_set:
            return False  # whoever looks can decide nothing
        return core.settings.notifies or any(find_own(core, core.wires[link]) is None for link in core.queue_watchers)

    def _mark_read(self, original: Message, now: Now) -> None:
        """A reply is evidence that the original was read, even if its acknowledgement was lost."""
        self._delivery.deliver(original, now, lazy=False)

    def _mark_replied(self, original: MessageRow | Message, now: Now) -> None:
        if isinstance(original, Message):
            self._mark_read(original, now)
            original.advance("reply")
        elif original.replied_at is not None:
            return
        self._core.persist(MarkMessage(original.seq, original.id, "replied", now.ms))

    def forget(self, row: MessageRow, problem: str) -> None:
        """The store did not take this message: it never was. What its sender used up for it is given back. problem:
        why, in a sentence."""
        message = self._core.messages.get(row.id)
        if message is not None:
            self.take_back(message)
            if message.state == "held":
                self._holding.forget(message)
            else:
                self._delivery.take_out(message)
        self._waits.forget(row.id, problem)
        if row.key is not None:
            self._repeats.forget_key(row)
        sender = self._core.owner_of(row.sender_id or "")
        if sender is None:
            return
        self._brakes.give_back(sender, row)
        if sender.pair_seqs.get(row.target_id) == row.pair_seq:
            sender.pair_seqs[row.target_id] -= 1

    def take_back(self, message: Message) -> None:
        """Whoever was given this message, or told of it, was not sent that: it must ask again."""
        for link in {message.lease, self._core.told_of.get(message.id)}:
            if link is not None:
                self._core.close(link, "the store did not take what it was given")

    def forget_pin(self, op: PutPin) -> None:
        """The message that pinned a name was not stored: the name means what it meant before."""
        sender = self._core.owner_of(op.sender_id)
        if sender is not None and sender.pins.get(op.name) == op.target_id:
            del sender.pins[op.name]
            if (before := sender.pins_before.pop(op.name, None)) is not None:
                sender.pins[op.name] = before

"""Sending: from a request to a message in its receiver's box, or to a refusal that stored nothing.

Laws: every check comes before the first effect; the sender is who the broker finds it to be; an answer says what is
true when it leaves. Refuses to know: how the receiver gets it.
"""

from __future__ import annotations

from hashlib import sha256

from msgspec import Struct

from xsessiond.core import limits
from xsessiond.core.callers import find_caller
from xsessiond.core.delivery import Delivery
from xsessiond.core.effects import FindKey, FindMessage, Found, Prune
from xsessiond.core.errors import Refusal
from xsessiond.core.introductions import Introductions
from xsessiond.core.mailbox import Message, message_of
from xsessiond.core.records import MarkMessage, MessageRow, PutMessage, PutPin
from xsessiond.core.roster import Session
from xsessiond.core.shapes import SendShape, shape_delivery, shape_entry
from xsessiond.core.state import Caller, Core, Wait, Wire
from xsessiond.core.text import check_body
from xsessiond.core.times import Now
from xsessiond.core.wire import Cancel, RequestId, Send, SendParams, encode, encode_notification

MAX_WAIT_S = 120.0
"""Longest wait for a reply; shims ask for less than their harness's own timeout."""
DAY_MS = 24 * 3600 * 1000
RULE = "default: accept"
"""Which rule admitted a message."""

NOTICES = {
    "pull": "It reads its mail when it next uses one of its xsession tools.",
    "turn": "It reads its mail at its next turn.",
    "none": "It has no way to read mail now.",
}
"""What a sender should know of a receiver that cannot be woken."""


class Draft(Struct):
    """A message on its way through the checks. answers: id of the message that it replies to; thread, back_to: of that
    message."""

    link: int
    request_id: RequestId
    caller: Caller
    params: SendParams
    body: str
    size: int
    digest: bytes
    pin: str | None = None
    notice: str | None = None
    thread: str | None = None
    original: MessageRow | Message | None = None


class Sending:
    """The part of the broker that accepts messages."""

    __slots__ = ("_core", "_delivery", "_introductions", "_keys")

    def __init__(self, core: Core, delivery: Delivery, introductions: Introductions) -> None:
        self._core, self._delivery, self._introductions = core, delivery, introductions
        self._keys: dict[tuple[str, str], Message] = {}

    # -- checks ------------------------------------------------------------------------------

    def send(self, wire: Wire, request: Send, now: Now) -> None:
        """A request to send. Raises Refusal, or goes on at once or when the store has answered."""
        params = request.params
        body = check_body(params.message)
        data = body.encode()
        size = len(data)
        if size > limits.MAX_BODY or (size > limits.MAX_BODY // 6 and len(encode(body)) > limits.MAX_BODY):
            raise Refusal(
                "too_large",
                f"The message has {size} bytes, as JSON {len(encode(body))}; the limit is {limits.MAX_BODY}.",
                "Put it in a file and send its path.",
                detail={"bytes": size, "limit": limits.MAX_BODY},
            )
        if params.summary is not None and len(params.summary) > limits.MAX_LABEL:
            raise Refusal("too_large", f"The summary has more than {limits.MAX_LABEL} characters.", "Shorten it.")
        if params.key is not None or params.notify_when_idle or params.when_offline != "refuse":
            self._check_promises(params)
        draft = Draft(wire.link, request.id, find_caller(self._core, wire), params, body, size, sha256(data).digest())
        if params.key is not None:
            self._look_for_key(wire, draft, params.key, now)
        elif params.reply_to is not None:
            self._look_for_original(wire, draft, params.reply_to, now)
        else:
            self._address(wire, draft, now)

    def _check_promises(self, params: SendParams) -> None:
        """What this broker cannot do is refused, never left out in silence."""
        if params.when_offline == "resume":
            raise Refusal(
                "unsupported_mode",
                "No harness is set up to be resumed.",
                "Use when_offline = queue, or start the session.",
            )
        if params.notify_when_idle:
            raise Refusal(
                "unsupported_mode",
                "Notices when a session becomes idle are not available.",
                "Send without notify_when_idle.",
            )
        if params.key is not None and not 0 < len(params.key) <= limits.MAX_KEY:
            raise Refusal("usage", f"A key has 1 to {limits.MAX_KEY} characters.", "Use a shorter one, such as a UUID.")

    def _look_for_key(self, wire: Wire, draft: Draft, key: str, now: Now) -> None:
        sender = draft.caller.session.id
        known = self._keys.get((sender, key))
        if known is not None and known.id in self._core.messages:
            self._repeat(wire, draft, known.id, known.state, known.row.sha256, known.target, known.row.target_name)
            return

        def then(wire: Wire, found: Found, now: Now) -> None:
            assert found is None or isinstance(found, MessageRow)
            self._with_key(wire, draft, key, found, now)

        self._core.ask(wire, draft.request_id, FindKey(sender, key), then)

    def _with_key(self, wire: Wire, draft: Draft, key: str, found: MessageRow | None, now: Now) -> None:
        known = self._keys.get((draft.caller.session.id, key))
        if known is not None and known.id in self._core.messages:
            self._repeat(wire, draft, known.id, known.state, known.row.sha256, known.target, known.row.target_name)
        elif found is not None:
            self._repeat(wire, draft, found.id, found.state, found.sha256, found.target_id, found.target_name)
        elif draft.params.reply_to is not None:
            self._look_for_original(wire, draft, draft.params.reply_to, now)
        else:
            self._address(wire, draft, now)

    def _repeat(
        self, wire: Wire, draft: Draft, message_id: str, state: str, digest: bytes, target_id: str, target_name: str
    ) -> None:
        """The same key again: the same message, or another one under a used key."""
        if digest != draft.digest:
            raise Refusal(
                "key_reused",
                f"The key was used for another text, in {message_id}. Nothing was sent.",
                "Use a new key for a new text.",
                detail={"id": message_id},
            )
        owner = self._core.owner_of(target_id)
        to: dict[str, object] = {
            "id": target_id,
            "ref": owner.ref if owner else None,
            "name": owner.name if owner else target_name,
        }
        shape = SendShape(
            message_id, state, to, RULE, None, draft.size, digest.hex(), notice="Sent before under this key; not again."
        )
        self._core.answer(wire, draft.request_id, shape)

    def _look_for_original(self, wire: Wire, draft: Draft, message_id: str, now: Now) -> None:
        known = self._core.messages.get(message_id)
        if known is not None:
            self._reply(wire, draft, known, now)
            return

        def then(wire: Wire, found: Found, now: Now) -> None:
            self._reply(wire, draft, found[0] if isinstance(found, tuple) else None, now)

        self._core.ask(wire, draft.request_id, FindMessage(message_id), then)

    def _reply(self, wire: Wire, draft: Draft, original: MessageRow | Message | None, now: Now) -> None:
        """A reply goes to the session that sent the original, whatever names do meanwhile."""
        answered = draft.params.reply_to
        receiver = draft.caller.session.id
        row = original.row if isinstance(original, Message) else original
        if original is None or row is None or row.target_id != receiver:
            raise Refusal(
                "not_found",
                f"You got no message {answered}.",
                "Reply to the id that stands in the message, or send without reply_to.",
            )
        sender = row.sender_id or row.sender_kind
        target = self._core.human if sender in ("human", "script") else self._core.roster.known.get(sender)
        if target is None or not target.running:
            target = self._offline(draft, target, sender, now)
        draft.original, draft.thread = original, row.thread
        named = draft.params.to
        if named is not None and self._names_another(named, target, draft, now):
            draft.notice = f"A reply goes to who sent the original, {target.name}, not to {named[:80]}."
        self._admit(wire, draft, target, now)

    def _names_another(self, named: str, target: Session, draft: Draft, now: Now) -> bool:
        try:
            return self._core.resolver.resolve(named, draft.caller.session, now).session is not target
        except Refusal:
            return False

    def _offline(self, draft: Draft, target: Session | None, target_id: str, now: Now) -> Session:
        """A target that does not run: kept for its conversation if the sender wants that."""
        if target is not None and draft.params.when_offline == "queue" and target.harness_session_id is not None:
            draft.notice = f"{target.name} does not run; kept for when its conversation resumes."
            return target
        name = target.name if target is not None else target_id
        raise Refusal(
            "not_running",
            f"{name} is not running: its conversation ended. Nothing was sent.",
            None
            if target is None or target.harness_session_id is None
            else "Send with when_offline = queue to keep it for when it resumes.",
            candidates=[self._core.resolver.candidate(target, now)] if target is not None else [],
        )

    def _address(self, wire: Wire, draft: Draft, now: Now) -> None:
        to = draft.params.to
        if to is None or not to.strip():
            raise Refusal(
                "usage",
                "The message has no address: `to` is missing.",
                "Name a session, or the message that you reply to.",
            )
        asker = draft.caller.session
        try:
            resolved = self._core.resolver.resolve(to, asker, now)
        except Refusal as refusal:
            if refusal.code != "not_running" or not isinstance(refusal.detail, str):
                raise
            self._admit(wire, draft, self._offline(draft, self._core.roster.known.get(refusal.detail), to, now), now)
            return
        draft.pin, draft.notice = resolved.pin, resolved.notice
        self._admit(wire, draft, resolved.session, now)

    def _admit(self, wire: Wire, draft: Draft, target: Session, now: Now) -> None:
        """The last checks, cheapest first; then it is accepted."""
        sender, settings = draft.caller.session, self._core.settings.pacing
        params = draft.params
        if target is sender:
            raise Refusal(
                "self_target", "That is this session itself. Nothing was sent.", "List the sessions to find another."
            )
        if params.mode not in target.modes and target.kind == "session":
            raise Refusal(
                "unsupported_mode",
                f"{target.name} cannot take a message as {params.mode}: its harness has no door for that.",
                f"It can: {', '.join(target.modes)}.",
            )
        repeat = sender.pace.find_repeat(target.id, draft.digest, now.mono) if settings.duplicate_window else None
        if repeat is not None:
            known = self._core.messages.get(repeat)
            state = known.state if known is not None else "delivered or decided"
            raise Refusal(
                "duplicate",
                f"You sent this text to {target.name} a moment ago, as {repeat}; it is {state}. "
                "Nothing was sent again.",
                "It is not lost: do not repeat it.",
                detail={"id": repeat, "state": state},
            )
        box = target.box
        if len(box) >= settings.queue_per_session or box.size + draft.size > limits.QUEUE_BYTES_PER_SESSION:
            raise Refusal(
                "queue_full",
                f"{target.name} has {len(box)} messages waiting and takes no more. Nothing was sent.",
                "Wait until it has read some.",
                detail={"queued": len(box)},
            )
        wait = sender.pace.wait_needed(target.id, settings, now.mono)
        if wait is not None:
            seconds, which = wait
            whom = f"to {target.name}" if which == "target" else "in all"
            raise Refusal(
                "rate_limited",
                f"You sent too many messages {whom}. Nothing was sent.",
                f"Wait {seconds:.0f} s, and say more in one message.",
                retry_after_s=round(seconds, 1),
            )
        self._accept(wire, draft, target, now)

    # -- acceptance ------------------------------------------------------------------------------

    def _accept(self, wire: Wire, draft: Draft, target: Session, now: Now) -> None:
        core, params, sender = self._core, draft.params, draft.caller.session
        seq = core.next_seq
        core.next_seq = seq + 1
        message_id = "m-" + core.entropy(16).hex()
        pair_seq = sender.pair_seqs[target.id] = sender.pair_seqs.get(target.id, 0) + 1
        own = draft.caller.is_session
        harness, cwd = (sender.harness, sender.cwd) if own else (None, None)
        row = MessageRow(
            seq, message_id, "queued", sender.kind, sender.id, sender.name, harness, cwd, target.id, target.name,
            draft.body, draft.size, draft.digest, params.summary, params.reply_to, draft.thread or message_id, 0,
            params.mode, params.key, pair_seq, RULE, now.ms, None,
        )  # fmt: skip
        message = message_of(row, sender.origin)
        core.persist(PutMessage(row))
        sender.pace.spend(target.id)
        sender.pace.note_sent(target.id, draft.digest, message_id, core.settings.pacing, now.mono)
        if draft.pin is not None and own and sender.pins.get(draft.pin) != target.id:
            sender.pins[draft.pin] = target.id
            core.persist(PutPin(sender.id, draft.pin, target.id))
        if params.key is not None:
            self._keys[sender.id, params.key] = message
        target.box.put(message)
        core.messages[message_id] = message
        if draft.original is not None:
            self._mark_replied(draft.original, now)
        notice = draft.notice or NOTICES.get(target.delivery)
        shape = SendShape(message_id, "queued", target.target, RULE, None, draft.size, draft.digest.hex(), None, notice)
        if not (params.reply_to is not None and self._hand_to_waiter(message, target, now)):
            self._delivery.offer(target, now)  # first, since its receiver is the one who is waiting
        if params.wait_reply:
            self._wait(draft, message_id, params.wait_reply, shape, now)
        else:
            core.answer(wire, draft.request_id, shape)
        if now.mono - target.seen >= limits.PING_AFTER_S:
            self._introductions.wonder(target, now)
        if core.followers:
            self._tell_followers(row)
        if now.ms - core.pruned_at > DAY_MS:
            core.pruned_at = now.ms
            core.out.append(Prune(now.ms - core.settings.keep_ms))

    def _mark_replied(self, original: MessageRow | Message, now: Now) -> None:
        """A reply is evidence that the original was read, even if its acknowledgement was lost."""
        if isinstance(original, Message):
            owner = self._core.owner_of(original.target)
            assert owner is not None
            original.advance("ack")
            owner.box.remove(original)
            del self._core.messages[original.id]
            self._core.agenda.cancel(("stalled", original.id))
            self._core.persist(MarkMessage(original.seq, original.id, "delivered", now.ms))
            original.advance("reply")
        elif original.replied_at is not None:
            return
        self._core.persist(MarkMessage(original.seq, original.id, "replied", now.ms))

    def _tell_followers(self, row: MessageRow) -> None:
        for wire in self._core.wires.values():
            if wire.following:
                frame = encode_notification("entry", shape_entry(row, with_text=True))
                self._core.send(wire.link, frame)

    def forget(self, op: PutMessage) -> None:
        """The store did not take this message: it never was."""
        message = self._core.messages.pop(op.row.id, None)
        if message is None:
            return
        owner = self._core.owner_of(message.target)
        if owner is not None:
            owner.box.remove(message)
        row = message.row
        sender = self._core.owner_of(row.sender_id or "") or self._core.script
        sender.pace.forget_sent(row.target_id, row.sha256)
        if row.key is not None:
            self._keys.pop((sender.id, row.key), None)
        self._core.waits.pop(message.id, None)
        for wire in self._core.wires.values():
            if wire.session is owner:
                wire.outstanding = type(wire.outstanding)(
                    (n, other) for n, other in wire.outstanding if other is not message
                )

    # -- waiting for a reply ------------------------------------------------------------------------------

    def _wait(self, draft: Draft, message_id: str, seconds: float, shape: SendShape, now: Now) -> None:
        """The answer is held back until the reply comes, or the time is over."""
        self._core.waits[message_id] = Wait(draft.link, draft.request_id, draft.caller.session, shape)
        self._core.agenda.schedule(("wait", message_id), now.mono + min(max(seconds, 0.0), MAX_WAIT_S))

    def _hand_to_waiter(self, message: Message, target: Session, now: Now) -> bool:
        """The reply that a sender waits for: leased to its link, and in its answer."""
        answered = message.row.reply_to or ""
        wait = self._core.waits.get(answered)
        if wait is None or wait.link not in self._core.wires or len(target.box.waiting) != 1:
            return False  # behind other mail it comes as a message: order is kept
        del self._core.waits[answered]
        self._core.agenda.cancel(("wait", answered))
        target.box.lease(wait.link, 1)
        wait.shape.state = "replied"
        wait.shape.notice = None
        wait.shape.reply = {
            "id": message.id,
            "text": message.row.body,
            "from_name": message.row.sender_name,
            "message": shape_delivery(message, target, now.ms),
        }
        self._core.answer(self._core.wires[wait.link], wait.request_id, wait.shape)
        return True

    def wait_over(self, message_id: str) -> None:
        """No reply in time, or nobody waits any more: the message goes on, its reply comes as a message."""
        wait = self._core.waits.pop(message_id, None)
        if wait is None or wait.link not in self._core.wires:
            return
        known = self._core.messages.get(message_id)
        wait.shape.state = known.state if known is not None else "delivered"
        wait.shape.notice = f"{wait.shape.state}, not replied yet; the reply comes as a message. Do not send again."
        self._core.answer(self._core.wires[wait.link], wait.request_id, wait.shape)

    def cancel(self, wire: Wire, request: Cancel, now: Now) -> None:
        """The client gives up a wait; the message is not touched."""
        for message_id, wait in list(self._core.waits.items()):
            if wait.link == wire.link and wait.request_id == request.params.id:
                self._core.agenda.cancel(("wait", message_id))
                self.wait_over(message_id)
        self._core.answer(wire, request.id, {})

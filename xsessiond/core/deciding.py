"""What a human asks and says about held messages: the queue, decisions, trust, and why.

Laws: who decides is found by `permission`, each time anew; a refused attempt is logged and shown; deciding twice
changes nothing. Refuses to know: how a held message waits.
"""

from __future__ import annotations

from collections.abc import Callable

from xsessiond.core import limits
from xsessiond.core.admission import Admit, Hold, Party, Policy, decide
from xsessiond.core.callers import find_caller
from xsessiond.core.effects import FindMessage, Found, PassphraseChecked, ReadSettings
from xsessiond.core.errors import Refusal
from xsessiond.core.holding import Holding
from xsessiond.core.mailbox import Message
from xsessiond.core.permission import require_human
from xsessiond.core.records import DropTrust, Kind, MarkMessage, MessageRow, PutTrust, TrustRow
from xsessiond.core.roster import Session
from xsessiond.core.shapes import shape_config, shape_trust
from xsessiond.core.state import Core, Wire
from xsessiond.core.times import Now
from xsessiond.core.wire import Decide, DecideParams, Explain, HoldQueue, Reload, RequestId, RevokeTrust, Trusts, encode

IDS_MOST = 1000
ATTEMPTS_MOST = 10_000
"""Refused attempts that are remembered, so that each is told once."""
OUTSIDE: dict[str, Kind] = {"human": "human", "script": "script"}
"""Senders that are no sessions, as `explain` names them."""


class Deciding:
    """The part of the broker that listens to its human."""

    __slots__ = ("_attempts", "_core", "_holding")

    def __init__(self, core: Core, holding: Holding) -> None:
        self._core, self._holding = core, holding
        self._attempts: set[tuple[str, str]] = set()

    def hold_queue(self, wire: Wire, request: HoldQueue, now: Now) -> None:
        """The held messages. A session is shown only those to it, without their texts: they are not its yet."""
        caller = find_caller(self._core, wire)
        messages = self._holding.held_messages()
        wanted = request.params.message_id
        if caller.is_session or caller.among:
            own = {session.id for session in caller.among} | {caller.session.id}
            messages = [message for message in messages if message.target in own or message.row.sender_id in own]
        if wanted is not None:
            messages = [message for message in messages if message.id == wanted]
            if not messages:
                raise Refusal(
                    "not_found", f"No held message has the id {wanted[:80]}.", "xsessionctl hold-queue lists them."
                )
        held: list[dict[str, object]] = []
        size = 0
        for message in messages:
            hold = self._holding.shape(message)
            if caller.is_session and message.row.sender_id != caller.session.id:
                hold["text"] = hold["preview"] = None
            size += len(encode(hold))
            if size > limits.MAX_FRAME - (16 << 10):
                hold["text"] = None
            held.append(hold)
        self._core.answer(wire, request.id, {"held": held})
        if request.params.watch:
            self._core.queue_watchers.add(wire.link)

    # -- decisions -----------------------------------------------------------------------------------

    def decide(self, wire: Wire, request: Decide, now: Now) -> None:
        """Approves or denies. Raises Refusal: not_permitted; what is wrong with one id is said beside it."""
        params = request.params
        self._require_human(wire, params, now)
        if params.trust not in (None, "once") and params.verdict == "deny":
            raise Refusal("usage", "Trust goes with an approval.", "Approve, or deny without trust.")
        self._with_passphrase(
            wire, request.id, params.passphrase, lambda wire, now: self._decide(wire, request, now), now
        )

    def _decide(self, wire: Wire, request: Decide, now: Now) -> None:
        params = request.params
        ids = [message.id for message in self._holding.held_messages()] if params.all else list(params.ids[:IDS_MOST])
        by = self._name_of(wire)
        waiting: dict[str, dict[str, object]] = {}
        unknown: list[str] = []
        for message_id in dict.fromkeys(ids):
            message = self._core.messages.get(message_id)
            if message is None or message.state != "held":
                unknown.append(message_id)
                continue
            waiting[message_id] = {"id": message_id, "state": self._decide_one(message, params, by, now), "error": None}
        self._explain_rest(wire, request, list(dict.fromkeys(ids)), waiting, unknown, now)

    def _decide_one(self, message: Message, params: DecideParams, by: str, now: Now) -> str:
        if params.verdict == "deny":
            reason = (params.reason or "")[: limits.MAX_REASON]
            self._holding.drop(message, "deny", now, by=by, rule=f"denied: {reason}" if reason else "denied")
            return message.state
        self._holding.release(message, now, by=by, rule="approved")
        if params.trust in ("session", "pair"):
            self._trust(message, params, by, now)
        return message.state

    def _explain_rest(
        self,
        wire: Wire,
        request: Decide,
        ids: list[str],
        done: dict[str, dict[str, object]],
        unknown: list[str],
        now: Now,
    ) -> None:
        """What became of the ids that are not held: the store knows, one after the other."""
        if not unknown:
            self._core.answer(wire, request.id, {"decided": [done[message_id] for message_id in ids]})
            return
        message_id = unknown.pop()

        def then(wire: Wire, found: Found, now: Now) -> None:
            row = found[0] if isinstance(found, tuple) and isinstance(found[0], MessageRow) else None
            state = None if row is None else row.state
            done[message_id] = {"id": message_id, "state": state, "error": _why_not(message_id, row).to_json()}
            self._explain_rest(wire, request, ids, done, unknown, now)

        self._core.ask(wire, request.id, FindMessage(message_id), then)

    # -- trust ---------------------------------------------------------------------------------------

    def _trust(self, message: Message, params: DecideParams, by: str, now: Now) -> None:
        """The decision covers what follows between the two; what else is held between them goes too."""
        sender_id = message.row.sender_id
        target = self._core.owner_of(message.target)
        if sender_id is None or target is None or message.row.sender_kind != "session":
            return
        until = None if params.for_s is None else now.ms + round(params.for_s * 1000)
        row = TrustRow(
            f"t-{self._core.entropy(8).hex()}",
            sender_id,
            message.row.sender_name,
            message.target,
            target.name,
            params.trust or "session",
            by,
            now.ms,
            until,
        )
        self._core.trusts[row.id] = row
        self._core.persist(PutTrust(row))
        self._core.log("info", "trust given", trust=row.id, sender=sender_id, target=target.id)
        self._holding.forget_verdicts()
        self._holding.reconsider(target, now)

    def trusts(self, wire: Wire, request: Trusts, now: Now) -> None:
        """The decisions that cover what follows."""
        rows = [row for row in self._core.trusts.values() if row.until is None or row.until > now.ms]
        known = self._core.roster.known
        shaped = [shape_trust(row, known.get(row.sender_id), known.get(row.target_id)) for row in rows]
        self._core.answer(wire, request.id, {"trusts": shaped})

    def revoke_trust(self, wire: Wire, request: RevokeTrust, now: Now) -> None:
        """It covers nothing any more. Raises Refusal: not_permitted, not_found."""
        require_human(self._core, wire, "revoke trust")
        self._with_passphrase(
            wire, request.id, request.params.passphrase, lambda wire, now: self._revoke(wire, request), now
        )

    def _revoke(self, wire: Wire, request: RevokeTrust) -> None:
        trust_id = request.params.id
        if self._core.trusts.pop(trust_id, None) is None:
            raise Refusal("not_found", f"There is no trust {trust_id[:40]}.", "xsessionctl trust list shows them.")
        self._core.persist(DropTrust(trust_id))
        self._core.log("info", "trust revoked", trust=trust_id)
        self._holding.forget_verdicts()
        self._core.answer(wire, request.id, {"revoked": trust_id})

    # -- explanations --------------------------------------------------------------------------------

    def explain(self, wire: Wire, request: Explain, now: Now) -> None:
        """The verdict between two sessions, and its rule. Nothing is sent."""
        params = request.params
        target = self._core.resolver.resolve(params.receiver, None, now).session
        sender: Session | None = None
        kind = OUTSIDE.get(params.sender)
        if kind is not None:
            party = Party(kind, "unknown", Policy())
        else:
            sender = self._core.resolver.resolve(params.sender, None, now).session
            party = self._holding.party(sender)
        trust = self._holding.find_trust(sender.id, target.id, now) if sender is not None else None
        verdict = decide(party, self._holding.party(target), None if trust is None else trust.id)
        told: dict[str, object] = {"verdict": "admit", "cause": None, "rule": verdict.rule, "expires": None}
        if isinstance(verdict, Hold):
            told = {"verdict": "hold", "cause": verdict.cause, "rule": verdict.rule, "expires": verdict.expires}
        elif not isinstance(verdict, Admit):
            told["verdict"] = "refuse"
        policy = target.policy
        told["sender"] = {
            "kind": party.kind,
            "name": sender.name if sender is not None else params.sender,
            "ref": sender.ref if sender is not None else None,
            "class": party.perm_class,
        }
        told["receiver"] = {
            "name": target.name,
            "ref": target.ref,
            "class": self._core.class_of(target),
            "policy": {"inbound": policy.inbound, "outbound": policy.outbound, "scope": policy.scope},
        }
        self._core.answer(wire, request.id, told)

    def reload(self, wire: Wire, request: Reload, now: Now) -> None:
        """Reads the settings files anew; the answer, that of `config`, comes when they are in force."""
        self._core.reloading.append((wire.link, request.id))
        self._core.out.append(ReadSettings())

    def reloaded(self) -> None:
        """New settings are in force."""
        waiting, self._core.reloading = self._core.reloading, []
        for link, request_id in waiting:
            wire = self._core.wires.get(link)
            if wire is not None:
                self._core.answer(wire, request_id, shape_config(self._core.settings))

    # -- who decides ---------------------------------------------------------------------------------

    def _require_human(self, wire: Wire, params: DecideParams, now: Now) -> None:
        """Raises Refusal: not_permitted. The attempt stands in the history of each message that it named."""
        try:
            require_human(self._core, wire, "decide about held messages")
        except Refusal:
            caller = find_caller(self._core, wire)
            by = f"session {caller.session.name} [{caller.session.ref}]" if caller.is_session else "no human"
            for message_id in params.ids[:IDS_MOST]:
                self._note_attempt(message_id, by, f"tried to {params.verdict}, refused: only a human decides", now)
            raise

    def _note_attempt(self, message_id: str, by: str, rule: str, now: Now) -> None:
        """Once for each caller, however often it tries."""
        message = self._core.messages.get(message_id)
        if message is None or message.state != "held" or (message_id, by) in self._attempts:
            return
        if len(self._attempts) >= ATTEMPTS_MOST:
            self._attempts.clear()
        self._attempts.add((message_id, by))
        self._core.persist(MarkMessage(message.seq, message_id, "held", now.ms, by, rule))

    def _name_of(self, wire: Wire) -> str:
        where = f" ({wire.peer.tty})" if wire.peer.tty else ""
        return f"human {wire.peer.user}{where}"

    def _with_passphrase(
        self, wire: Wire, request_id: RequestId, text: str | None, go_on: Callable[[Wire, Now], None], now: Now
    ) -> None:
        """Goes on at once, or when the passphrase was found right, where the user wants one."""
        if not self._core.settings.passphrase:
            go_on(wire, now)
        elif not text:
            raise Refusal(
                "not_permitted",
                "A decision needs your passphrase.",
                "xsessionctl asks for it in your terminal.",
                detail={"passphrase": True},
            )
        else:
            self._core.check_passphrase(wire, request_id, text, go_on)

    def passphrase_checked(self, event: PassphraseChecked, now: Now) -> None:
        """The decision goes on, or is refused and shown."""
        proving = self._core.proving.pop(event.ticket)
        wire = self._core.wires.get(proving.link)
        if wire is None:
            return
        try:
            if not event.ok:
                self._core.warn("A decision was tried with a wrong passphrase.")
                raise Refusal(
                    "not_permitted",
                    event.problem or "That is not the passphrase.",
                    "Try again.",
                    detail={"passphrase": True},
                )
            proving.then(wire, now)
        except Refusal as refusal:
            self._core.refuse(wire, proving.request_id, refusal)


def _why_not(message_id: str, row: MessageRow | None) -> Refusal:
    if row is None:
        return Refusal("not_found", f"No message has the id {message_id[:80]}.", "xsessionctl hold-queue lists them.")
    if row.state == "expired":
        return Refusal("expired", f"{message_id} expired before it was decided.", "Ask its sender to send it again.")
    return Refusal("already_decided", f"{message_id} is not held: it is {row.state}.", "xsessionctl check tells more.")

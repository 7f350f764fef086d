"""What a human asks and says about held messages: the queue, decisions, trust, and why.

Laws: who decides is found by `permission`, each time anew; a refused attempt is logged and shown; deciding twice
changes nothing. Refuses to know: how a held message waits.
"""

from __future__ import annotations

from collections.abc import Callable

from xsessiond.core import limits
from xsessiond.core.admission import Admit, Hold
from xsessiond.core.callers import find_caller
from xsessiond.core.effects import FindMessage, Found, PassphraseChecked, ReadSettings
from xsessiond.core.errors import Refusal
from xsessiond.core.hold_view import HoldView
from xsessiond.core.holding import Holding
from xsessiond.core.inert import inert
from xsessiond.core.mailbox import Message, settled
from xsessiond.core.permission import require_human
from xsessiond.core.records import MarkMessage, MessageRow, PutTrust, TrustRow
from xsessiond.core.shapes import shape_config, shape_trust
from xsessiond.core.state import Caller, Core, Wire
from xsessiond.core.times import Now
from xsessiond.core.wire import Config, Decide, Explain, HoldQueue, Reload, RequestId, RevokeTrust, Trusts
from xsessiond.core.wire_params import DecideParams

IDS_MOST = 1000
"""Messages that one request decides about."""
ATTEMPTS_MOST = 10_000
"""Refused attempts that are remembered, so that each is told once."""

Decided = dict[str, object]


class Deciding:
    """The part of the broker that listens to its human."""

    __slots__ = ("_attempts", "_core", "_holding", "_view")

    def __init__(self, core: Core, holding: Holding, view: HoldView) -> None:
        self._core, self._holding, self._view = core, holding, view
        self._attempts: set[tuple[str, str]] = set()

    def hold_queue(self, wire: Wire, request: HoldQueue, now: Now) -> None:
        """The held messages, as far as the caller may see them. Raises Refusal: not_found."""
        self._core.answer(wire, request.id, self._view.show(wire, request.params.message_id))
        if request.params.watch:
            self._core.queue_watchers.add(wire.link)

    # -- decisions -----------------------------------------------------------------------------------

    def decide(self, wire: Wire, request: Decide, now: Now) -> None:
        """Approves or denies. Raises Refusal: not_permitted, usage; what is wrong with one id is said beside it."""
        params = request.params
        self._require_human(wire, params, now)
        _check(params)
        self.with_passphrase(
            wire, request.id, params.passphrase, lambda wire, now: self._decide(wire, request, now), now
        )

    def _decide(self, wire: Wire, request: Decide, now: Now, told: dict[str, MessageRow | None] | None = None) -> None:
        """What became of the ids that are not held is asked first, one after the other, so that all is decided and
        answered at once. told: what the store has said so far."""
        params, told = request.params, told or {}
        held = {message.id: message for message in self._view.held_messages()}
        ids = list(held)[:IDS_MOST] if params.all else list(dict.fromkeys(params.ids))
        unknown = next((message_id for message_id in ids if message_id not in held and message_id not in told), None)
        if unknown is not None:

            def then(wire: Wire, found: Found, now: Now) -> None:
                row = found[0] if isinstance(found, tuple) else None
                told[unknown] = row if isinstance(row, MessageRow) else None
                self._decide(wire, request, now, told)

            self._core.ask(wire, request.id, FindMessage(unknown), then)
            return
        wanted = [held[message_id] for message_id in ids if message_id in held]
        trusts = self._carry_out(wanted, params, name_of(wire), now)
        decided: list[Decided] = []
        for message_id in ids:
            if (message := held.get(message_id)) is not None:
                trust = trusts.get((message.row.sender_id, message.target))
                decided.append({"id": message_id, "state": message.state, "error": None, "trust": trust})
            else:
                row = told[message_id]
                state = None if row is None else self._state_of(row)
                error = _why_not(message_id, state).to_json()
                decided.append({"id": message_id, "state": state, "error": error, "trust": None})
        self._core.answer(wire, request.id, {"decided": decided})

    def _carry_out(
        self, messages: list[Message], params: DecideParams, by: str, now: Now
    ) -> dict[tuple[str | None, str], str]:
        """Lets them go, or not. Returns the trusts that were given."""
        if params.verdict == "deny":
            reason = inert(params.reason or "", multiline=False)[: limits.MAX_REASON].strip()
            for message in messages:
                self._holding.drop(message, "deny", now, by=by, rule=reason or "no reason given")
            return {}
        self._holding.release([(message, "approved") for message in messages], now, by=by)
        return self._trust(messages, params, by, now)

    def _state_of(self, row: MessageRow) -> str:
        live = self._core.messages.get(row.id)
        return settled(row.state) if live is None else live.state

    # -- trust ---------------------------------------------------------------------------------------

    def _trust(
        self, messages: list[Message], params: DecideParams, by: str, now: Now
    ) -> dict[tuple[str | None, str], str]:
        """Decisions that cover what follows: one for each pair of sessions among these. They replace earlier ones; what
        else is held between the two goes too. Only sessions are trusted. Returns their ids."""
        given: dict[tuple[str | None, str], str] = {}
        if params.trust not in ("session", "pair"):
            return given
        until = None if params.for_s is None else now.ms + round(params.for_s * 1000)
        for message in messages:
            row, pair = message.row, (message.row.sender_id, message.target)
            if row.sender_kind != "session" or row.sender_id is None or pair in given:
                continue
            for old in list(self._core.trusts.values()):
                if (old.sender_id, old.target_id) == pair:
                    self._holding.end_trust(old.id)
            target = self._core.roster.known[message.target]
            trust_id = f"t-{self._core.entropy(8).hex()}"
            trust = TrustRow(
                trust_id, row.sender_id, row.sender_name, target.id, target.name, params.trust, by, now.ms, until
            )
            self._core.trusts[trust_id] = trust
            self._core.persist(PutTrust(trust))
            self._core.log("info", "trust given", trust=trust_id, sender=row.sender_id, target=target.id)
            given[pair] = trust_id
            self._holding.forget_verdicts()
            self._holding.reconsider(target, now)
        return given

    def trusts(self, wire: Wire, request: Trusts, now: Now) -> None:
        """The decisions that cover what follows."""
        rows = [row for row in self._core.trusts.values() if row.until is None or row.until > now.ms]
        known = self._core.roster.known
        shaped = [shape_trust(row, known.get(row.sender_id), known.get(row.target_id)) for row in rows]
        self._core.answer(wire, request.id, {"trusts": shaped})

    def revoke_trust(self, wire: Wire, request: RevokeTrust, now: Now) -> None:
        """It covers nothing any more. Raises Refusal: not_permitted, not_found."""
        require_human(self._core, wire, "revoke trust")
        self.with_passphrase(
            wire, request.id, request.params.passphrase, lambda wire, now: self._revoke(wire, request), now
        )

    def _revoke(self, wire: Wire, request: RevokeTrust) -> None:
        trust_id = request.params.id
        if trust_id not in self._core.trusts:
            raise Refusal("not_found", f"There is no trust {trust_id[:40]}.", "xsessionctl trust list shows them.")
        self._holding.end_trust(trust_id)
        self._core.log("info", "trust revoked", trust=trust_id)
        self._core.answer(wire, request.id, {"revoked": trust_id})

    # -- explanations --------------------------------------------------------------------------------

    def explain(self, wire: Wire, request: Explain, now: Now) -> None:
        """The verdict between two, and its rule. Nothing is sent."""
        params = request.params
        target = self._core.resolver.resolve(params.receiver, None, now).session
        caller = self._sender(params.sender, now)
        if caller.session is target:
            raise Refusal("self_target", "Sender and receiver are the same session.", "Name two.")
        verdict = self._holding.judge(caller, target, now)
        told: dict[str, object] = {"verdict": "refuse", "cause": None, "rule": verdict.rule, "expires": None}
        if isinstance(verdict, Hold):
            expires = verdict.expires and self._core.settings.hold_expiry_ms is not None
            told |= {"verdict": "hold", "cause": verdict.cause, "expires": expires}
        elif isinstance(verdict, Admit):
            told["verdict"] = "admit"
        party, receiver = self._holding.party_of(caller), self._holding.party(target)
        told["sender"] = {
            "kind": party.kind,
            "name": caller.session.name,
            "ref": caller.session.ref if caller.is_session else None,
            "class": party.perm_class,
        }
        policy = receiver.policy
        told["receiver"] = {
            "name": target.name,
            "ref": target.ref,
            "harness": target.harness,
            "class": receiver.perm_class,
            "policy": {"inbound": policy.inbound, "outbound": policy.outbound, "scope": policy.scope},
        }
        self._core.answer(wire, request.id, told)

    def _sender(self, text: str, now: Now) -> Caller:
        """Whom an address means as a sender: `human` and `script` stand for what is outside every session, unless a
        session has that name."""
        outside = {"human": self._core.human, "script": self._core.script}.get(text)
        if outside is not None and self._core.roster.named(text) is None:
            return Caller(outside.kind, outside)
        return Caller("session", self._core.resolver.resolve(text, None, now).session)

    # -- settings --------------------------------------------------------------------------------------

    def config(self, wire: Wire, request: Config, now: Now) -> None:
        """The settings in force, each with where it was written. Raises Refusal: not_permitted, for who wants to change
        them: a change could switch off what decides."""
        params = request.params
        if not params.to_change:
            self._tell_config(wire, request.id)
            return
        require_human(self._core, wire, "change the settings")
        if not self._core.settings.passphrase_is_set:
            self._tell_config(wire, request.id)  # none to ask for; setting one begins here too
            return
        self.with_passphrase(
            wire, request.id, params.passphrase, lambda wire, now: self._tell_config(wire, request.id), now
        )

    def _tell_config(self, wire: Wire, request_id: RequestId) -> None:
        self._core.answer(wire, request_id, shape_config(self._core.settings))

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
                self._tell_config(wire, request_id)

    # -- who decides ---------------------------------------------------------------------------------

    def _require_human(self, wire: Wire, params: DecideParams, now: Now) -> None:
        """Raises Refusal: not_permitted. The attempt stands in the history of each message that it named."""
        try:
            require_human(self._core, wire, "decide about held messages")
        except Refusal:
            caller = find_caller(self._core, wire)
            by = f"session {caller.session.name} [{caller.session.ref}]" if caller.is_session else "no human"
            who = caller.session.id if caller.is_session else by  # whose name may change
            rule = f"tried to {params.verdict}, refused: only a human decides"
            for message_id in params.ids[:IDS_MOST]:
                self._note_attempt(message_id, who, by, rule, now)
            raise

    def _note_attempt(self, message_id: str, who: str, by: str, rule: str, now: Now) -> None:
        """Once for each caller, however often it tries."""
        message = self._core.messages.get(message_id)
        if message is None or message.state != "held" or (message_id, who) in self._attempts:
            return
        if len(self._attempts) >= ATTEMPTS_MOST:
            self._attempts.clear()
        self._attempts.add((message_id, who))
        self._core.persist(MarkMessage(message.seq, message_id, "held", now.ms, by, rule))

    def with_passphrase(
        self, wire: Wire, request_id: RequestId, text: str | None, go_on: Callable[[Wire, Now], None], now: Now
    ) -> None:
        """Goes on at once, or when the passphrase was found right, where the user wants one."""
        settings = self._core.settings
        if not settings.passphrase:
            go_on(wire, now)
        elif not settings.passphrase_is_set:
            raise Refusal(
                "not_permitted",
                "The settings ask for a passphrase (approvals.passphrase) and none is set, so nobody can do that.",
                "Set one with `xsessionctl passphrase`.",
            )
        elif not text:
            raise _passphrase_needed("A decision needs your passphrase.", "xsessionctl asks for it in your terminal.")
        else:
            self._core.check_passphrase(wire, request_id, text, go_on)

    def require_passed(self, event: PassphraseChecked) -> None:
        """Raises Refusal, which is shown too: not_permitted."""
        if not event.ok:
            self._core.log("warning", "wrong passphrase", problem=event.problem)
            self._core.warn("A decision was tried with a wrong passphrase.")
            if event.problem is not None:
                raise Refusal("not_permitted", event.problem, "The next try can only help once that is mended or over.")
            raise _passphrase_needed("That is not the passphrase.", "Try again.")


def name_of(wire: Wire) -> str:
    """A human as the log names who decided."""
    where = f" ({wire.peer.tty})" if wire.peer.tty else ""
    return f"human {wire.peer.user}{where}"


def _check(params: DecideParams) -> None:
    lasting = params.trust in ("session", "pair")
    if lasting and params.verdict == "deny":
        raise Refusal("usage", "Trust goes with an approval.", "Approve, or deny without trust.")
    if params.for_s is not None and not lasting:
        raise Refusal("usage", "A time goes with trust in a session or a pair.", "Say which, or leave the time out.")
    if not params.all and not params.ids:
        raise Refusal("usage", "No message is named.", "Name some, or say all.")
    if not params.all and len(params.ids) > IDS_MOST:
        raise Refusal("usage", f"One request decides about {IDS_MOST} messages at most.", "Split it.")


def _passphrase_needed(text: str, hint: str) -> Refusal:
    return Refusal("not_permitted", text, hint, detail={"passphrase": True})


def _why_not(message_id: str, state: str | None) -> Refusal:
    if state is None:
        return Refusal("not_found", f"No message has the id {message_id[:80]}.", "xsessionctl hold-queue lists them.")
    if state == "expired":
        return Refusal("expired", f"{message_id} expired before it was decided.", "Ask its sender to send it again.")
    return Refusal("already_decided", f"{message_id} is not held: it is {state}.", "xsessionctl check tells more.")

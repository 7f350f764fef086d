"""What a harness tells in its hooks, and what it is told back.

    idle ──prompt──▶ busy ◀──a tool has run── waiting
     ▲                │ └──the user is asked──▶ ▲
     └──the turn ends─┘

Laws: every hook is answered at once, or within ANSWER_S if the broker is asked, whatever has become of the broker; an
event of a subagent says nothing about the session; whatever a hook's answer carried counts as read when the next hook
comes, or the turn is seen to have ended. Refuses to know: how a hook got here, what its harness calls things, what
becomes of a message.
"""

from __future__ import annotations

from time import monotonic

from xsessionctl.codec import encode
from xsessionctl.shim import dialects
from xsessionctl.shim.courier import RUNNING
from xsessiond.core import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from xsessionctl.shim.broker_link import BrokerLink
    from xsessionctl.shim.courier import Courier
    from xsessionctl.shim.dialects import Dialect
    from xsessionctl.shim.identity import Identity
    from xsessionctl.shim.mail import Batch

    Reply: TypeAlias = Callable[[str, Callable[[], None], Callable[[], None]], None]
    """Writes an answer: (JSON, called when it was written whole, called when it will not be)."""

ANSWER_S = 0.15
"""How long a hook waits for the broker. With the start of a process it stays below 200 ms."""
LOOK_EVERY_S = 30.0
"""How often a running turn is looked at where its end may come without a hook, as when its user presses Escape."""
LOOK_SOON_S = 1.0
"""The same after a sign that it has ended."""
SILENT = "{}"


class _Asked:
    """A hook that waits for its answer. over: it has one, or nobody wants it any more."""

    __slots__ = ("deadline", "event", "over", "reply", "stopping")

    def __init__(self, event: str, reply: Reply, *, stopping: bool) -> None:
        self.event, self.reply, self.stopping = event, reply, stopping
        self.deadline = monotonic() + ANSWER_S
        self.over = False


class Hooks:
    """The hooks of one session.

    look: what the harness itself says of its session, as (conversation, state), either of them None if it does not
    say; None where it keeps no such thing. on_named: called when a conversation is named of which none was known.
    """

    __slots__ = (
        "_asked", "_by_turn", "_courier", "_dialect", "_identity", "_link", "_look_at", "_mode", "_owed", "_proven",
        "_saw_bypass", "_state", "_unsandboxed", "look", "on_named",
    )  # fmt: skip

    def __init__(self, identity: Identity, link: BrokerLink, courier: Courier, dialect: Dialect) -> None:
        self._identity, self._link, self._courier, self._dialect = identity, link, courier, dialect
        self._asked: list[_Asked] = []
        self._state = "unknown"
        self._by_turn = True  # the broker knows `turn`
        self._owed: str | None = None  # by whom the turn began that the broker has not heard of
        self._proven = False
        self._mode: str | None = None
        self._saw_bypass = self._unsandboxed = False
        self._look_at: float | None = None
        self.look: Callable[[], tuple[str | None, str | None]] | None = None
        self.on_named: Callable[[], None] = _nothing

    @property
    def due(self) -> float | None:
        """When `tick` has something to do."""
        times = [item.deadline for item in self._asked]
        if self._look_at is not None:
            times.append(self._look_at)
        return min(times, default=None)

    def tick(self, now: float) -> None:
        """Answers the hooks that have waited long enough, and looks at a turn of which nothing was heard for long."""
        for item in [item for item in self._asked if item.deadline <= now]:
            self._answer(item, None)
        if self._look_at is not None and self._look_at <= now:
            self._look()

    def hear(self, fields: Mapping[str, object], reply: Reply, *, proven: bool = True) -> None:
        """One event of the harness. fields: by the harness's own names; a value that it does not have may be missing or
        empty. proven: no command of the model's could have brought it. Where such events come, others are not heard."""
        event = str(fields.get("hook_event_name"))
        self._proven = self._proven or proven
        if fields.get("agent_id") or (self._proven and not proven):
            reply(SILENT, _nothing, _nothing)
            return
        kind = self._dialect.kind(event, fields)
        conversation, mode = fields.get("session_id"), fields.get("permission_mode")
        if isinstance(conversation, str) and conversation:
            self.is_conversation(conversation)
        if isinstance(mode, str) and mode:
            self.note_policy(mode, None)
        self.note_hooks_run()
        self._courier.step()
        if kind == dialects.PROMPT:
            self._prompted(str(fields.get("prompt") or ""))
        elif kind in (dialects.STEP, dialects.DONE):
            self._goes_on()
        elif kind == dialects.ASKS:
            self._becomes("waiting")
        elif kind == dialects.IDLE:
            self._ended()
        stopping = kind == dialects.STOP
        if self._dialect.can_say(event) and self._courier.wants_hook(stopping=stopping):
            item = _Asked(event, reply, stopping=stopping)
            self._asked.append(item)
            self._courier.fetch(self._dialect.most, lambda batch: self._answer(item, batch))
            return
        if stopping:
            self._ended()
        reply(SILENT, _nothing, _nothing)

    def hear_line(self, event: str, conversation: str) -> None:
        """An event that came without anything that proves it, and wants no answer. A harness that can be asked is asked
        itself."""
        if self.look is not None:
            self._look()
            self._look_at = monotonic() + LOOK_SOON_S  # it may be about to write it down
            return
        if conversation:
            self.is_conversation(conversation)
        kind = self._dialect.kind(event, {})
        self.note_hooks_run()
        self._courier.step()
        if kind == dialects.PROMPT:
            self._prompted(None)
        elif kind in (dialects.STEP, dialects.DONE):
            self._goes_on()
        elif kind == dialects.STOP:
            self._ended()

    def cancel(self, reply: Reply) -> None:
        """Nobody wants this answer any more."""
        for item in self._asked:
            if item.reply is reply:
                item.over = True
                self._asked.remove(item)
                if item.stopping:
                    self._ended()
                return

    def note_hooks_run(self) -> None:
        """Hooks are known to run."""
        self._courier.hooks_run()

    def suspect_end(self) -> None:
        """The harness cancelled a call: its user may have stopped the turn, which no hook tells."""
        if self.look is not None and self._state in RUNNING:
            self._look_at = monotonic() + LOOK_SOON_S

    def link_is_up(self) -> None:
        """The broker has a session that it knows nothing of, or may have missed what happened meanwhile."""
        conversation, known = self._identity.conversation, self._link.session
        if conversation is not None and known is not None and known.get("harness_session_id") != conversation:
            self._link.tell("update", {"harness_session_id": conversation})
        if self._identity.told_class is not None:
            self._link.tell("update", {"class": self._identity.told_class})
        if self._state == "unknown" and self._courier.hooked:
            state = self.look()[1] if self.look is not None else None
            self._set(state or "idle")  # before its first prompt a session waits for one
        if self._state in RUNNING:
            self._tell_turn("started", self._owed or "other")
        elif self._state == "idle":
            self._tell_turn("ended", None)
        if self._state == "waiting":
            self._link.tell("update", {"state": "waiting"})

    def is_told(self, state: str, by: str) -> None:
        """The harness says by its door what the session does now. by: what begins the turn, if one begins."""
        if state == "idle":
            self._ended()
        elif self._state in RUNNING:
            self._becomes(state)
        else:
            self._set("busy")
            self._tell_turn("started", by)
            self._courier.turn_is("busy")
            self._becomes(state)

    def is_conversation(self, conversation: str) -> None:
        """The harness names the conversation that it runs."""
        known = self._identity.harness_session_id
        if conversation == known:
            return
        self._identity.conversation = conversation
        if known is None or self._identity.granted:
            self._link.tell("update", {"harness_session_id": conversation})
            self.on_named()
            return
        self._courier.forget_conversation()
        self._set("idle")
        self._link.renew()

    # -- the turn ------------------------------------------------------------------------------------------------------

    def _prompted(self, prompt: str | None) -> None:
        """prompt: None if it is not known; then a person wrote it, since nothing else can wake this harness."""
        marks = dialects.marks_in(prompt) if prompt else []
        human = prompt is None or self._dialect.is_human(prompt)
        ours = self._courier.ringing or any(mark.startswith("m-") for mark in marks)
        by = "mail" if ours else "human" if human else "other"
        running = self._state in RUNNING
        self._set("busy")
        if not running or by == "human":
            self._tell_turn("started", by)
        self._courier.turn_is("busy")
        self._courier.saw(marks)

    def _goes_on(self) -> None:
        """Something happened that happens only in a running turn."""
        if self._state == "waiting":
            self._becomes("busy")
        elif self._state != "busy":
            self._set("busy")
            self._tell_turn("started", "other")
            self._courier.turn_is("busy")
        else:
            self._set("busy")

    def _becomes(self, state: str) -> None:
        if self._state != state:
            self._set(state)
            self._link.tell("update", {"state": state})
            self._courier.turn_is(state)

    def _ended(self) -> None:
        self._courier.step()
        if self._state != "idle":
            self._set("idle")
            self._tell_turn("ended", None)
            self._courier.turn_is("idle")

    def _set(self, state: str) -> None:
        self._state = state
        running = state in RUNNING and self.look is not None
        self._look_at = monotonic() + LOOK_EVERY_S if running else None

    def _tell_turn(self, phase: str, by: str | None) -> None:
        heard = self._link.state == "up" and not self._link.renewing
        self._owed = None if heard else by
        if not heard:
            return
        state = "busy" if phase == "started" else "idle"
        if not self._by_turn:
            self._link.tell("update", {"state": state})
            return

        def done(result: dict[str, object] | None, error: dict[str, object] | None) -> None:
            if error is not None and error.get("code") == "version_mismatch":
                self._by_turn = False
                self._link.tell("update", {"state": self._state})

        self._link.ask("turn", {"phase": phase, "by": by}, monotonic() + limits.SHIM_ANSWER_S, done)

    def _look(self) -> None:
        assert self.look is not None
        conversation, state = self.look()
        self._look_at = monotonic() + LOOK_EVERY_S if self._state in RUNNING else None
        if conversation is not None:
            self.is_conversation(conversation)
        if state == "idle":
            self._ended()
        elif state in RUNNING and self._state == "waiting":
            self._becomes(state)

    def note_policy(self, mode: str | None, unsandboxed: bool | None) -> None:  # noqa: FBT001 - both are findings
        """What the harness says of its permissions now: its mode, and whether what the model runs is bound by nothing;
        each None where nothing is said of it."""
        if mode is not None:
            self._mode = mode
            self._saw_bypass = self._saw_bypass or mode == dialects.BYPASS
        if unsandboxed is not None:
            self._unsandboxed = unsandboxed
        if self._unsandboxed:
            told = "bypass"
        elif self._mode is None:
            return
        else:
            available = self._saw_bypass or self._identity.may_bypass
            told = dialects.class_of(self._mode, bypass_available=available)
        if told != self._identity.told_class:
            self._identity.told_class = told
            self._link.tell("update", {"class": told})

    # -- answers -------------------------------------------------------------------------------------------------------

    def _answer(self, item: _Asked, batch: Batch | None) -> None:
        """batch: None if the broker took too long."""
        if item.over:
            if batch is not None:
                self._courier.put_away(batch)
            return
        item.over = True
        self._asked.remove(item)
        if batch is None or not (batch.ids or batch.news):
            if item.stopping:
                self._ended()
            item.reply(SILENT, _nothing, _nothing)
            return
        if item.stopping and not batch.ids:
            # No turn goes on for news alone.
            self._courier.put_away(batch)
            self._ended()
            item.reply(SILENT, _nothing, _nothing)
            return
        answer = encode(self._dialect.say(item.event, batch.text))
        item.reply(answer, lambda: self._courier.show(batch), lambda: self._courier.put_away(batch))


def _nothing() -> None:
    pass

"""Starting a conversation again for a message: one attempt for all who wait for it.

    begun ──▶ command runs ──▶ ended well ──▶ the conversation is there: who waits goes on
                 │                │  └──────── nobody came in time ─┐
                 └── failed ──────┴──── no time left ───────────────┴▶ who waits is refused; nothing was stored

Laws: an attempt ends once, in one of these ways, or with the broker. What is run is the user's command for that
harness; of what a session says of itself only a harmless id and folder go into it (`resume_command`), each as a part of
an argument. After a failure it is not tried again at once. Refuses to know: processes, and what is to be sent.
"""

from __future__ import annotations

from math import ceil
from typing import Protocol

from msgspec import Struct

from xsessiond.core import limits
from xsessiond.core.effects import ConversationStarted, EndAttempt, StartConversation
from xsessiond.core.errors import Refusal
from xsessiond.core.inert import inert
from xsessiond.core.resume_command import fill, find_obstacle
from xsessiond.core.roster import Session
from xsessiond.core.state import Core, Wire
from xsessiond.core.times import Now
from xsessiond.core.wire import RequestId

LONGEST_WORD = 200
"""Characters of what a command said that a refusal repeats."""
REMEMBERED_FAILURES = 64


class GoOn(Protocol):
    """What a request goes on with."""

    def __call__(self, wire: Wire, *, target: Session, now: Now) -> None:
        """target: the session that is there now. May raise Refusal."""


class Waiting(Struct, frozen=True):
    """A request that goes on with `then` when the conversation is there."""

    link: int
    request_id: RequestId
    then: GoOn


class Attempt(Struct):
    """One start of a command. target: the session as it was; its conversation is what is waited for."""

    ticket: int
    target: Session
    waiting: list[Waiting]


class Resuming:
    """The part of the broker that has conversations started."""

    __slots__ = ("_attempts", "_core", "_failures", "_tickets")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._attempts: dict[str, Attempt] = {}
        self._failures: dict[str, tuple[float, str]] = {}
        self._tickets = 0

    def check(self, target: Session) -> None:
        """Whether this conversation, which does not run, can be started at all. Raises Refusal: unsupported_mode."""
        obstacle = find_obstacle(target, self._core.settings.resume)
        if obstacle is not None:
            raise Refusal(
                "unsupported_mode",
                f"{target.name} cannot be resumed: {obstacle}. Nothing was sent.",
                "Use when_offline = queue, or start it. The user can set harness.NAME.resume.",
            )

    def begin(self, wire: Wire, request_id: RequestId, target: Session, then: GoOn, now: Now) -> None:
        """Starts the conversation, if it is not being started, and goes on when it is there. Raises Refusal."""
        attempt = self._attempts.get(target.id)
        if attempt is None:
            attempt = self._start(target, now)
        if len(attempt.waiting) >= self._core.settings.pacing.queue_per_session:
            raise Refusal(
                "queue_full",
                f"{len(attempt.waiting)} messages wait for {target.name} to be resumed. Nothing was sent.",
                "Wait until it runs.",
            )
        attempt.waiting.append(Waiting(wire.link, request_id, then))

    def _start(self, target: Session, now: Now) -> Attempt:
        again_at, why = self._failures.get(target.id, (now.mono, ""))
        if again_at > now.mono:
            raise self._refusal(target, why, now, retry_after_s=float(ceil(again_at - now.mono)))
        if len(self._attempts) >= limits.RESUMES_AT_ONCE:
            raise Refusal(
                "rate_limited",
                f"{len(self._attempts)} conversations are being resumed already. Nothing was sent.",
                "Wait until they run.",
                retry_after_s=limits.RESUME_PAUSE_S,
            )
        self._tickets += 1
        attempt = self._attempts[target.id] = Attempt(self._tickets, target, [])
        argv = fill(self._core.settings.resume[target.harness], target)
        self._core.out.append(StartConversation(attempt.ticket, argv, target.cwd))
        self._core.agenda.schedule(("resume", target.id), now.mono + limits.RESUME_WITHIN_S)
        self._core.log("info", "a conversation is resumed", session=target.id, harness=target.harness)
        return attempt

    # -- how it ends ---------------------------------------------------------------------------------

    @property
    def trying(self) -> bool:
        """Whether any conversation is being started."""
        return bool(self._attempts)

    def arrived(self) -> list[tuple[Waiting, Session]]:
        """Who waited for conversations that are there now, with the sessions that they are."""
        ready: list[tuple[Waiting, Session]] = []
        for attempt in list(self._attempts.values()):
            target = attempt.target
            found = self._core.roster.conversation(target.harness, target.harness_session_id or "")
            if found is not None and found.running and found.links:
                self._end(attempt, arrived=True)
                self._failures.pop(target.id, None)
                ready += [(waiting, found) for waiting in attempt.waiting]
        return ready

    def ended(self, event: ConversationStarted, now: Now) -> None:
        """The command ended. If it did so well, the conversation may come yet: it started it and left it alone."""
        for attempt in list(self._attempts.values()):
            if attempt.ticket == event.ticket and event.problem is not None:
                said = last_line(event.said)
                self._fail(attempt, f"{event.problem}{f': {said}' if said else ''}", now)

    def due(self, target_id: str, now: Now) -> None:
        """Nobody came. (An attempt that is over has no such deadline.)"""
        within = f"the conversation did not come within {limits.RESUME_WITHIN_S:g} s"
        self._fail(self._attempts[target_id], within, now)

    def drop(self, link: int) -> None:
        """The link is gone: nobody waits there any more. The attempt goes on."""
        for attempt in self._attempts.values():
            attempt.waiting = [waiting for waiting in attempt.waiting if waiting.link != link]

    def cancel(self, wire: Wire, request_id: RequestId) -> None:
        """The client gives up a request; what it wanted to send is not sent."""
        for attempt in self._attempts.values():
            for waiting in attempt.waiting:
                if (waiting.link, waiting.request_id) == (wire.link, request_id):
                    text = f"You gave up before {attempt.target.name} was running. Nothing was sent."
                    self._core.refuse(wire, request_id, Refusal("timeout", text, "Send it again if you still want to."))
            attempt.waiting = [
                waiting for waiting in attempt.waiting if (waiting.link, waiting.request_id) != (wire.link, request_id)
            ]

    def stop(self, refusal: Refusal) -> None:
        """The broker ends."""
        for attempt in list(self._attempts.values()):
            self._end(attempt, arrived=False)
            self._refuse(attempt, refusal)

    def _fail(self, attempt: Attempt, why: str, now: Now) -> None:
        self._end(attempt, arrived=False)
        target = attempt.target
        self._failures.pop(target.id, None)
        self._failures[target.id] = now.mono + limits.RESUME_PAUSE_S, why
        if len(self._failures) > REMEMBERED_FAILURES:
            del self._failures[next(iter(self._failures))]
        self._core.log("warning", "a conversation could not be resumed", session=target.id, why=why)
        self._core.warn(f"Resuming {target.name} with harness.{target.harness}.resume failed: {why}.")
        self._refuse(attempt, self._refusal(target, why, now))

    def _refusal(self, target: Session, why: str, now: Now, retry_after_s: float | None = None) -> Refusal:
        return Refusal(
            "not_running",
            f"{target.name} is not running, and resuming it failed: {why}. Nothing was sent.",
            "Use when_offline = queue to keep the message until it runs.",
            candidates=[self._core.resolver.candidate(target, now)],
            retry_after_s=retry_after_s,
            detail={"resume": why},
        )

    def _end(self, attempt: Attempt, *, arrived: bool) -> None:
        del self._attempts[attempt.target.id]
        self._core.agenda.cancel(("resume", attempt.target.id))
        self._core.out.append(EndAttempt(attempt.ticket, arrived))

    def _refuse(self, attempt: Attempt, refusal: Refusal) -> None:
        for waiting in attempt.waiting:
            if (wire := self._core.wires.get(waiting.link)) is not None:
                self._core.refuse(wire, waiting.request_id, refusal)


def last_line(said: str) -> str:
    """The last line of what a program wrote that has anything in it, short and inert."""
    lines = [line for line in map(str.strip, said.splitlines()) if line]
    shown = inert(lines[-1], multiline=False) if lines else ""
    return shown if len(shown) <= LONGEST_WORD else shown[: LONGEST_WORD - 1] + "…"

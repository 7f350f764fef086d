"""One text on its way into a thread of Codex, and word of what became of it.

    subscribe ──▶ a turn runs: wait for the gap ──▶ turn/start, or turn/steer ──▶ accepted: WRITTEN
       │               └── it ended: turn/start, or REFUSED    └── not taken: REFUSED    │
       └── not there: GONE                                                               │
                              our text begins as an item of the turn: DELIVERED ◀────────┤
                          its user stops the turn before that: REFUSED ◀─────────────────┤
                                            the turn ends without it: GONE ◀─────────────┘

`turn/start` begins a turn in an idle thread and joins the running one in a busy one, where it waits for a moment at
which it disturbs neither a tool nor what the model is writing (`Step`). What is read is told by Codex itself, as an
item with the id that was sent along: then the text is in the history, whatever becomes of the turn. What an
interruption throws away before is told by the end of the turn. A thread that had no turn yet cannot be subscribed to;
then this is done with the turn that the text begins, and what was missed is looked up.

Laws: nothing is sent along that changes what the session may do; this client is subscribed only while the text is under
way. Refuses to know: what the text says, how the thread was found.
"""

from __future__ import annotations

import os
from time import monotonic

from xsessionctl.shim.door import DELIVERED, GONE, REFUSED, WRITTEN
from xsessionctl.shim.doors.app_server import LATE, LOST
from xsessionctl.shim.doors.codex_step import Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from xsessionctl.shim.door import Done
    from xsessionctl.shim.doors.app_server import AppServer

    Result: TypeAlias = dict[str, object] | None

INTO_A_TURN = ("inject", "steer")
NO_TURN_YET = "no rollout found"
LOOKED_THROUGH = 100
"""Items of a turn that are looked through for one that began before it was listened for: it is among the first."""


class Passage:
    """See the module. on_joined: called with what Codex tells of the thread to who subscribes to it. done: with each
    outcome; after any but WRITTEN this is over."""

    __slots__ = (
        "_done", "_key", "_mode", "_on_joined", "_running", "_sent", "_server", "_step", "_text", "_thread", "_turn",
        "_turns", "over",
    )  # fmt: skip

    def __init__(
        self,
        server: AppServer,
        thread: str,
        text: str,
        mode: str,
        on_joined: Callable[[dict[str, object]], None],
        done: Done,
    ) -> None:
        self._server, self._thread, self._text, self._mode = server, thread, text, mode
        self._on_joined, self._done = on_joined, done
        self._key = f"xsession-{os.urandom(12).hex()}"
        self._sent = False
        self._step: Step | None = None  # while it waits for the gap in the turn `_running`
        self._running = ""
        self._turn: str | None = None
        self._turns: dict[str, str] = {}  # that ended meanwhile, with how they did
        self.over = False

    def begin(self) -> None:
        """Starts on its way."""

        def joined(result: Result, problem: str | None) -> None:
            if self.over:
                return
            if result is not None:
                self._on_joined(result)
                self._look_what_runs()
            elif not str(problem).startswith(NO_TURN_YET):
                self._end(GONE)
            elif self._mode in INTO_A_TURN:
                self._end(REFUSED)
            else:
                self._send("turn/start", {}, missed=True)

        self._server.call("thread/resume", join(self._thread), joined)

    @property
    def due(self) -> float | None:
        """When `tick` has something to do."""
        return None if self._step is None else self._step.due

    def tick(self, now: float) -> None:
        """The gap may be there."""
        if self.due is not None and self.due <= now:
            self._enter(runs=True)

    def hear(self, method: str, params: Mapping[str, object]) -> None:
        """What Codex tells of the thread meanwhile."""
        if self.over:
            return
        if method == "turn/completed":
            turn = as_object(params.get("turn"))
            self._turns[str(turn.get("id"))] = str(turn.get("status"))
            if self._step is not None and self._running in self._turns:
                self._enter(runs=False)
            self._look_at_turn()
        elif self._step is not None:
            now = monotonic()
            self._step.hear(method, params, now)
            self.tick(now)
        elif self._sent and method == "item/started" and as_object(params.get("item")).get("clientId") == self._key:
            self._end(DELIVERED)

    def lose(self) -> None:
        """The thread is gone, or the way to it. What became of a text that was accepted nobody knows."""
        if not self.over:
            self.over = True
            if self._turn is None:
                self._done(WRITTEN if self._sent else GONE)

    def _look_what_runs(self) -> None:
        def listed(result: Result, problem: str | None) -> None:
            turns = (result or {}).get("data")
            last = as_object(turns[0]) if isinstance(turns, list) and turns else {}
            if self.over or problem == LOST:
                return
            self._running = str(last.get("id"))
            if last.get("status") == "inProgress" and self._running not in self._turns:
                self._step = Step()
            else:
                self._enter(runs=False)

        self._server.call("thread/turns/list", {"threadId": self._thread, "limit": 1}, listed)

    def _enter(self, *, runs: bool) -> None:
        """Goes into the turn that runs; if none does, begins one, unless it must not."""
        self._step = None
        if self._mode not in INTO_A_TURN:
            self._send("turn/start", {}, missed=False)
        elif runs:
            self._send("turn/steer", {"expectedTurnId": self._running}, missed=False)
        else:
            self._end(REFUSED)

    def _send(self, method: str, more: Mapping[str, object], *, missed: bool) -> None:
        def accepted(result: Result, problem: str | None) -> None:
            if self.over:
                return  # it was in the turn before this answer came
            if result is None:
                # Not taken, for what reason ever, is as good as not now; no answer is neither.
                self._end(WRITTEN if problem in (LATE, LOST) else REFUSED)
                return
            self._turn = str(as_object(result.get("turn")).get("id") or result.get("turnId"))
            self._done(WRITTEN)
            if missed:
                self._catch_up()
            self._look_at_turn()

        self._sent = True
        content = [{"type": "text", "text": self._text, "text_elements": []}]
        params = {"threadId": self._thread, "input": content, "clientUserMessageId": self._key, **more}
        self._server.call(method, params, accepted)

    def _catch_up(self) -> None:
        """Subscribes now, and looks whether the item is there already."""

        def listed(result: Result, problem: str | None) -> None:
            entries = (result or {}).get("data")
            for entry in entries if isinstance(entries, list) else ():
                if as_object(as_object(entry).get("item")).get("clientId") == self._key and not self.over:
                    self._end(DELIVERED)

        def joined(result: Result, problem: str | None) -> None:
            if result is not None and not self.over:
                self._on_joined(result)
                params = {"threadId": self._thread, "turnId": self._turn, "limit": LOOKED_THROUGH}
                self._server.call("thread/items/list", params, listed)

        self._server.call("thread/resume", join(self._thread), joined)

    def _look_at_turn(self) -> None:
        status = self._turns.get(self._turn) if self._turn is not None else None
        if self.over or status is None:
            return
        if status == "interrupted":
            self._end(REFUSED)  # Codex has forgotten it
        else:
            self._end(GONE)  # a hook of the user's lets no such prompt through, or Codex has changed

    def _end(self, outcome: str) -> None:
        self.over = True
        leave(self._server, self._thread, lambda: self._done(outcome))


def join(thread: str) -> dict[str, object]:
    """Params of `thread/resume`: the thread runs there, so this subscribes to it and changes nothing."""
    return {"threadId": thread, "excludeTurns": True}


def leave(server: AppServer, thread: str, then: Callable[[], None]) -> None:
    """Unsubscribes. Only then what follows: a subscription that comes after this must not be undone by it."""
    if server.closed:
        then()
    else:
        server.call("thread/unsubscribe", {"threadId": thread}, lambda result, problem: then())


def as_object(value: object) -> dict[str, object]:
    """It, if it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}

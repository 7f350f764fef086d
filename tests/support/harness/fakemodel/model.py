"""The fake model: what reached it, the plays it acts, the gates it waits at, and how a test waits for any of these.

All state is behind one condition. A test never polls: each ``wait_…`` is woken by what it waits for, and is cut short
by what makes it hopeless, a script that cannot be followed or a CLI that ended.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from .script import Conversation, Decision, Event, Say, Step, ToolUse, decide, names_tool
from .server import serve

T = TypeVar("T")

KEEPALIVE_SECONDS = 1.0
"""How often a request that waits at a gate sends a keep-alive, so that no client gives up on it."""


class ModelTimeout(AssertionError):
    """What a test waited for did not reach the model in time, or can no longer; the text shows what did."""


class ScriptFailed(AssertionError):
    """A play could not be followed, as when a tool is not on offer: the test or the tool list is wrong."""


@dataclass(slots=True)
class Request:
    """One request as the model saw it: ``new`` is the input since its last answer.

    ``answer`` is None until it is given, and stays so when the client hangs up while it waits.
    """

    number: int
    path: str
    system: str
    new: tuple[Event, ...]
    tools: tuple[str, ...]
    answer: Say | ToolUse | None = None

    def offers(self, tool: str) -> bool:
        """Whether ``tool`` (its full name, or what follows a ``_`` in it) was on offer."""
        return any(names_tool(tool, full) for full in self.tools)

    def matches(self, pattern: str) -> bool:
        """Whether a new text or tool result matches the regular expression ``pattern``."""
        return any(re.search(pattern, event.text) for event in self.new)

    def result_of(self, tool: str) -> str | None:
        """The new result of ``tool`` (its full name, or what follows a ``_`` in it), or None."""
        for event in self.new:
            if event.kind == "result" and names_tool(tool, event.tool):
                return event.text
        return None


class FakeModel(AbstractContextManager["FakeModel"]):
    """A model behind every wire format, serving one CLI session on a free loopback port while it is entered."""

    def __init__(self) -> None:
        self.url = ""
        """Base URL without a path, such as ``http://127.0.0.1:40000``; set while entered."""
        self._condition = threading.Condition()
        self._plays: dict[str, tuple[Step, ...]] = {}
        self._requests: list[Request] = []
        self._refused: list[str] = []
        self._errors: list[str] = []
        self._open: set[str] = set()
        self._waiting: list[str] = []
        self._client_end = ""
        self._closing = False
        self._server: AbstractContextManager[str] | None = None

    def __enter__(self) -> FakeModel:
        self._server = serve(self)
        self.url = self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        if self._server is not None:
            self._server.__exit__(kind, error, trace)

    # What a test sets up and looks at

    def play(self, name: str, *steps: Step) -> None:
        """Register ``steps`` under ``name``, for a text with ``[[play NAME]]``; replaces an earlier one."""
        with self._condition:
            self._plays[name] = steps

    def open_gate(self, gate: str) -> None:
        """Let pass, now and from now on, the requests that wait at ``gate``."""
        with self._condition:
            self._open.add(gate)
            self._condition.notify_all()

    @property
    def requests(self) -> tuple[Request, ...]:
        """All requests so far, oldest first."""
        with self._condition:
            return tuple(self._requests)

    @property
    def last(self) -> int:
        """The number of the latest request, for ``after``: 0 before the first."""
        with self._condition:
            return len(self._requests)

    def wait_for(self, pattern: str, timeout: float, after: int = 0) -> Request:
        """The first request numbered above ``after`` whose new input matches the regular expression ``pattern``.

        It may be there already. Raises ModelTimeout after ``timeout`` seconds, ScriptFailed.
        """
        return self._wait(lambda: self._first(pattern, after), timeout, f"no request with {pattern!r}")

    def wait_for_gate(self, gate: str, timeout: float) -> None:
        """Return when a request waits at ``gate``: the session is in the middle of a turn. Raises as ``wait_for``."""
        self._wait(lambda: gate in self._waiting or None, timeout, f"no request waits at gate {gate!r}")

    def wait_for_end(self, timeout: float, after: int = 0) -> Request:
        """The first request numbered above ``after`` whose answer ended a turn. Raises as ``wait_for``."""
        return self._wait(lambda: self._first_end(after), timeout, "no turn ended")

    def describe(self) -> str:
        """What reached the model and what it answered, for a failure's text."""
        with self._condition:
            lines = [f"fake model: {len(self._requests)} requests, waiting at {self._waiting}, refused {self._refused}"]
            for request in self._requests:
                lines.append(f"  #{request.number} {request.path} ({len(request.tools)} tools) -> {request.answer}")
                lines += [f"      {event.kind} {event.tool}: {event.text[-600:]!r}" for event in request.new]
            return "\n".join(lines)

    # What the runner of the CLI tells

    def client_started(self) -> None:
        """A CLI is about to use this model."""
        with self._condition:
            self._client_end = ""

    def client_ended(self, how: str) -> None:
        """The CLI ended, as ``how`` says: nothing more will arrive."""
        with self._condition:
            self._client_end = how
            self._condition.notify_all()

    # What the server calls

    def receive(self, path: str, conversation: Conversation) -> tuple[Request, Decision]:
        """Record a request and decide on it."""
        with self._condition:
            decision = decide(conversation, self._plays)
            request = Request(
                len(self._requests) + 1, path, conversation.system, conversation.new_events(), conversation.tools
            )
            self._requests.append(request)
            if decision.error:
                self._errors.append(decision.error)
            self._condition.notify_all()
            return request, decision

    def pass_gates(self, gates: tuple[str, ...]) -> Iterator[None]:
        """Wait for ``gates`` in order, yielding every ``KEEPALIVE_SECONDS``; returns at once when the model closes."""
        for gate in gates:
            with self._at_gate(gate):
                while not self._is_open(gate):
                    yield

    def answered(self, request: Request, answer: Say | ToolUse) -> None:
        """Record that ``request`` is now given its answer."""
        with self._condition:
            request.answer = answer
            self._condition.notify_all()

    def refused(self, call: str) -> None:
        """Record an HTTP call that no wire format knows."""
        with self._condition:
            self._refused.append(call)

    # Inside

    @contextmanager
    def _at_gate(self, gate: str) -> Iterator[None]:
        with self._condition:
            self._waiting.append(gate)
            self._condition.notify_all()
        try:
            yield
        finally:  # also when the client hung up
            with self._condition:
                self._waiting.remove(gate)

    def _is_open(self, gate: str) -> bool:
        with self._condition:
            return self._condition.wait_for(lambda: gate in self._open or self._closing, KEEPALIVE_SECONDS)

    def _first(self, pattern: str, after: int) -> Request | None:
        return next((r for r in self._requests if r.number > after and r.matches(pattern)), None)

    def _first_end(self, after: int) -> Request | None:
        # A request without tools is the harness's own side request, not a turn.
        ended = (r for r in self._requests if r.number > after and r.tools and isinstance(r.answer, Say))
        return next(ended, None)

    def _wait(self, look: Callable[[], T | None], timeout: float, complaint: str) -> T:
        with self._condition:
            self._condition.wait_for(lambda: look() is not None or self._errors or self._client_end, timeout)
            found = look()
            if found is not None:
                return found
            if self._errors:
                raise ScriptFailed(f"{self._errors[0]}\n{self.describe()}")
            end = self._client_end or f"in {timeout} s"
            raise ModelTimeout(f"{complaint} ({end})\n{self.describe()}")

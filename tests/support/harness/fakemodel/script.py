"""The script language of the fake model: from a conversation and the known plays to the next answer. Pure.

A vendor's request is first reduced to events, of which a turn is made:
  user    text that is not the model's: the prompt, hook output, a reminder, a message delivered into the session
  call    a tool call that the model made        result  what that call returned
  say     a text that the model gave: it ends a turn

Directives, looked for in the *user* events of the running turn, carried out in the order in which they appear:
  [[play NAME]]                    the steps registered under NAME (``FakeModel.play``)
  [[call TOOL {"json": "args"}]]   one tool call; TOOL is a tool's name or what follows a "_" in it, so "send_message"
                                   finds mcp__xsession__send_message, xsession_send_message and send_message
  [[wait GATE]]                    keep the request open, the session busy, until the test opens GATE
A tool result is data, never a directive. When no step is left the model ends its turn with a text.

Laws: the same conversation gives the same answer, so a client that asks again gets the same; how far a turn has come is
read off the calls already in it and kept nowhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

DIRECTIVE = re.compile(r"\[\[(play|call|wait) ([\w.:-]+)(?: (\{.*?\}))?\]\]", re.DOTALL)
INTERRUPTED = re.compile(r"\[Request interrupted|<turn_aborted>")
"""What Claude Code and Codex write where their user stopped a turn: directives before it are void."""


@dataclass(frozen=True, slots=True)
class Event:
    """One piece of a conversation; ``tool`` is the full tool name of a call or a result."""

    kind: Literal["user", "say", "call", "result"]
    text: str = ""
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one request holds: the system prompt, all events so far, and the names of the tools on offer."""

    system: str
    events: tuple[Event, ...]
    tools: tuple[str, ...]

    def new_events(self) -> tuple[Event, ...]:
        """The events since the model's last answer: the new input of this request."""
        return _after_last(self.events, lambda event: event.kind in ("say", "call"))

    def turn(self) -> tuple[Event, ...]:
        """The events of the running turn."""
        return _after_last(self.events, _ends_turn)


@dataclass(frozen=True, slots=True)
class Found:
    """An argument that is taken from the latest result of ``tool``: group 1 of ``pattern``, or the whole match."""

    tool: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Call:
    """Step: call a tool. ``args`` is JSON data in which ``Found`` may stand for a string anywhere."""

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """Step: wait in the middle of the turn until the test opens ``gate``."""

    gate: str


Step = Call | Wait


@dataclass(frozen=True, slots=True)
class Say:
    """Answer: a text; ends the turn."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Answer: a call of the tool ``name`` (a full name) with ``args``."""

    name: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a request: wait for ``gates`` one after the other, then give ``answer``.

    ``error``, when not empty, says why the script could not be followed; the answer then is a text that says so.
    """

    gates: tuple[str, ...]
    answer: Say | ToolUse
    error: str = ""


class BadScript(Exception):
    """A directive that cannot be carried out; the text is for the test's author."""


def decide(conversation: Conversation, plays: Mapping[str, Sequence[Step]]) -> Decision:
    """The next answer in ``conversation``."""
    if not conversation.tools:  # a side request of the harness, for a title or a summary: no part of the script
        return Decision((), Say("untitled"))
    turn = conversation.turn()
    try:
        steps = read_steps((event.text for event in turn if event.kind == "user"), plays)
        gates, call = _next_step(steps, sum(event.kind == "call" for event in turn))
        if call is not None:
            tool = find_tool(call.tool, conversation.tools)
            return Decision(gates, ToolUse(tool, fill_args(call.args, conversation.events)))
    except BadScript as problem:
        return Decision((), Say(f"BAD-SCRIPT {problem}"), error=str(problem))
    number = sum(event.kind == "say" for event in conversation.events) + 1
    last = next((event.text for event in reversed(turn) if event.kind == "result"), "")
    return Decision(gates, Say(f"DONE turn={number} last_result={last[:200]!r}"))


def read_steps(texts: Iterable[str], plays: Mapping[str, Sequence[Step]]) -> list[Step]:
    """The steps that the directives in ``texts`` stand for, in order; raises ``BadScript``."""
    steps: list[Step] = []
    for directive in (found for text in texts for found in DIRECTIVE.finditer(text)):
        verb, name, args = directive.groups()
        if verb == "wait":
            steps.append(Wait(name))
        elif verb == "call":
            steps.append(Call(name, _read_args(args or "{}")))
        elif name in plays:
            steps.extend(plays[name])
        else:
            raise BadScript(f"no play {name!r} among {sorted(plays)}")
    return steps


def names_tool(short: str, full: str) -> bool:
    """Whether ``short`` names the tool ``full``, to which a harness may have put its server's name in front."""
    return full == short or full.endswith("_" + short)


def find_tool(wanted: str, tools: Sequence[str]) -> str:
    """The full name of the one tool on offer that ``wanted`` names; raises ``BadScript``."""
    if wanted in tools:
        return wanted
    matches = [tool for tool in tools if names_tool(wanted, tool)]
    if len(matches) != 1:
        raise BadScript(f"{len(matches)} tools {matches} are called {wanted!r} among {sorted(tools)}")
    return matches[0]


def fill_args(args: Mapping[str, Any], events: Sequence[Event]) -> dict[str, Any]:
    """``args`` with every ``Found`` replaced by what it finds in ``events``; raises ``BadScript``."""
    return {key: _fill(value, events) for key, value in args.items()}


def _fill(value: Any, events: Sequence[Event]) -> Any:
    if isinstance(value, Found):
        return _find(value, events)
    if isinstance(value, Mapping):
        return fill_args(value, events)
    if isinstance(value, (list, tuple)):
        return [_fill(item, events) for item in value]
    return value


def _find(wanted: Found, events: Sequence[Event]) -> str:
    results = [event for event in events if event.kind == "result"]
    for event in reversed(results):
        if names_tool(wanted.tool, event.tool):
            match = re.search(wanted.pattern, event.text)
            if match is None:
                raise BadScript(f"no {wanted.pattern!r} in the latest result of {wanted.tool}: {event.text[:500]!r}")
            return match.group(1 if match.re.groups else 0)
    raise BadScript(f"no result of {wanted.tool} among those of {[event.tool for event in results]}")


def _next_step(steps: Sequence[Step], calls_made: int) -> tuple[tuple[str, ...], Call | None]:
    """The gates between the last call made and the next one to make, and that one (None: the turn ends)."""
    gates: list[str] = []
    for step in steps:
        if isinstance(step, Wait):
            gates.append(step.gate)
        elif calls_made == 0:
            return tuple(gates), step
        else:
            calls_made -= 1
            gates.clear()
    return tuple(gates), None


def _read_args(text: str) -> dict[str, Any]:
    try:
        args = json.loads(text)
    except ValueError as error:
        raise BadScript(f"not JSON: {text!r} ({error})") from None
    if not isinstance(args, dict):
        raise BadScript(f"not a JSON object: {text!r}")
    return args


def _ends_turn(event: Event) -> bool:
    return event.kind == "say" or (event.kind == "user" and bool(INTERRUPTED.search(event.text)))


def _after_last(events: tuple[Event, ...], test: Callable[[Event], bool]) -> tuple[Event, ...]:
    for index in range(len(events) - 1, -1, -1):
        if test(events[index]):
            return events[index + 1 :]
    return events

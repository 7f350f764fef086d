"""The demonstration on paper: for a person as it happens, for a program as one document at the end.

Refuses to know: the play.
"""

from __future__ import annotations

import textwrap

from xsessionctl.output import Sink, line_width
from xsessiond.core.inert import inert

INDENT = "     "
MOST_LINES = 14
"""Lines of one answer that are shown."""


class Transcript:
    """What an audience is. as_json: say nothing yet, keep everything for `document`."""

    def __init__(self, sink: Sink, *, as_json: bool) -> None:
        self._sink, self._as_json = sink, as_json
        self.steps: list[dict[str, object]] = []
        self._acts: list[dict[str, object]] = []

    def open(self, lines: list[str]) -> None:
        """What stands above the play."""
        self._tell(lines)

    def step(self, title: str) -> None:
        """A new step begins."""
        self._acts = []
        self.steps.append({"title": title, "acts": self._acts, "ok": False})
        self._tell(["", self._sink.paint(f"{len(self.steps)}. {title}", "bold")])

    def call(self, who: str, tool: str, arguments: dict[str, object]) -> None:
        """Somebody does something."""
        self._acts.append({"who": who, "does": tool, "arguments": arguments, "result": None})
        shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        what = tool if tool.startswith("xsessionctl ") else f"{tool}({shown})"
        self._tell(["", *self._wrap(f"{who}: {what}", first="   ", paint="cyan")])

    def answer(self, lines: list[str], document: object) -> None:
        """What they get for it."""
        self._acts[-1]["result"] = document
        shown = [inert(line, multiline=False) for line in lines]
        if len(shown) > MOST_LINES:
            shown = [*shown[: MOST_LINES - 1], f"… {len(shown) - MOST_LINES + 1} more lines"]
        for line in shown:
            self._tell(self._wrap(line, first=INDENT, paint=None))

    def conclude(self, text: str) -> None:
        """What that shows: the step came out as it should."""
        self.steps[-1]["ok"] = True
        lines = self._wrap(text, first=INDENT, paint=None, rest=INDENT)
        self._tell(["", f"   {self._sink.paint('✓', 'green')} {lines[0].lstrip()}", *lines[1:]])

    def close(self, lines: list[str]) -> None:
        """What stands below the play."""
        self._tell(["", *lines])

    def _tell(self, lines: list[str]) -> None:
        if not self._as_json:
            self._sink.lines(lines)

    def _wrap(self, line: str, *, first: str, paint: str | None, rest: str = INDENT + "  ") -> list[str]:
        width = line_width() or 100
        wrapped = textwrap.wrap(
            line,
            max(40, width),
            initial_indent=first,
            subsequent_indent=rest,
            break_on_hyphens=False,
            break_long_words=False,
        )
        return [self._sink.paint(part, paint) if paint else part for part in wrapped or [""]]

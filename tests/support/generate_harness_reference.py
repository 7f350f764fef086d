"""Writes the tables of docs/harnesses.md: `python -m tests.support.generate_harness_reference`.

They are made from what the program says of each harness, and from where that is shown (`harness.shown`); a test
compares, so that the document cannot drift from it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from tests.support.harness.install import PACKAGES
from tests.support.harness.shown import E2E, OLDER, SHOWN
from tests.support.marked_table import MarkedTable
from xsessionctl.harness.base import Harness
from xsessionctl.harness.finding import describe
from xsessionctl.harness.known import HARNESSES

DOCUMENT = MarkedTable(
    "harnesses.md", "<!-- every harness: made by `python -m tests.support.generate_harness_reference` -->"
)
DOORS = {
    "wake": "wakes an idle session",
    "mid_turn": "reaches a busy one",
    "own_turn": "at its own next step",
    "evidence": "evidence that it was read",
}
"""The fields of `Doors`, as the document calls them."""
SUBAGENTS = "evidence that a subagent sent it"
Row = tuple[str, Callable[[Harness], str]]


def make_lines() -> list[str]:
    """The tables."""
    can: list[Row] = [
        ("tested versions", _versions),
        *((title, lambda one, door=door: getattr(one.doors, door)) for door, title in DOORS.items()),
        ("permission class", lambda one: one.class_source),
        (SUBAGENTS, lambda one: one.subagents or "it does not tell"),
        ("goes on with a conversation", lambda one: f"`{shlex.join(one.resume)}`".replace("'", "")),
    ]
    shown: list[Row] = [
        ("version", _pinned),
        *((title, lambda one, door=door: _tests(one, door)) for door, title in DOORS.items()),
        (SUBAGENTS, lambda one: _tests(one, "subagents")),
    ]
    between = "Each of the ways in, and what proves it, was seen with the real program, by these tests:"
    return [*_lines(can), "", between, "", *_lines(shown)]


def _lines(rows: Sequence[Row]) -> list[str]:
    harnesses = list(HARNESSES.values())
    lines = ["| | " + " | ".join(one.title for one in harnesses) + " |", "| --- " * (len(harnesses) + 1) + "|"]
    return lines + [f"| {title} | " + " | ".join(say(one) for one in harnesses) + " |" for title, say in rows]


def _pinned(harness: Harness) -> str:
    return ", ".join(package.version for package in PACKAGES.values() if package.command == harness.program)


def _tests(harness: Harness, door: str) -> str:
    """Links, each with the version that it ran with where there is more than one."""
    versions = [package for package in PACKAGES.values() if package.command == harness.program]
    links = []
    for path, test in SHOWN.get((harness.name, door), ()):
        words = test.removeprefix("test_").replace("_", " ")
        package = PACKAGES[f"{harness.name}-older" if (path, test) in OLDER else harness.name]
        links.append(f"[{words}](../{E2E}/{path})" + (f" ({package.version})" if len(versions) > 1 else ""))
    return ", ".join(links)


def _versions(harness: Harness) -> str:
    oldest, newest = map(describe, harness.tested)
    return oldest if oldest == newest else f"{oldest} to {newest}"


if __name__ == "__main__":
    DOCUMENT.write(make_lines())

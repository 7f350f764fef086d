"""Writes the table of docs/harnesses.md: `python -m tests.support.generate_harness_reference`.

It is made from what the program says of each harness; a test compares, so that the document cannot drift from it.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from xsessionctl.harness.base import Harness
from xsessionctl.harness.finding import describe
from xsessionctl.harness.known import HARNESSES

TARGET = Path(__file__).parents[2] / "docs" / "harnesses.md"
BEGIN, END = "<!-- every harness: made by `python -m tests.support.generate_harness_reference` -->", "<!-- end -->"
TABLE = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)


def make_table() -> str:
    """The table with its marks."""
    harnesses = list(HARNESSES.values())
    rows = [
        ("tested versions", _versions),
        ("wakes an idle session", lambda one: one.doors.wake),
        ("reaches a busy one", lambda one: one.doors.mid_turn),
        ("at its own next step", lambda one: one.doors.own_turn),
        ("evidence that it was read", lambda one: one.doors.evidence),
        ("permission class", lambda one: one.class_source),
        ("goes on with a conversation", lambda one: f"`{shlex.join(one.resume)}`".replace("'", "")),
    ]
    lines = ["| | " + " | ".join(one.title for one in harnesses) + " |", "| --- " * (len(harnesses) + 1) + "|"]
    lines += [f"| {title} | " + " | ".join(say(one) for one in harnesses) + " |" for title, say in rows]
    return "\n".join([BEGIN, "", *lines, "", END])


def _versions(harness: Harness) -> str:
    oldest, newest = map(describe, harness.tested)
    return oldest if oldest == newest else f"{oldest} to {newest}"


def put_table(text: str) -> str:
    """The document with the table as it must be."""
    return TABLE.sub(lambda _: make_table(), text)


if __name__ == "__main__":
    TARGET.write_text(put_table(TARGET.read_text(encoding="utf-8")), encoding="utf-8")

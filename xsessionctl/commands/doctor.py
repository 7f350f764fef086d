"""`xsessionctl doctor`: what is wrong on this machine, and what mends it."""

from __future__ import annotations

import sys
import textwrap

from xsessionctl.doctor.examination import examine_all
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.output import Sink, line_width
from xsessionctl.render import one_line, rows_of
from xsessionctl.table import pad

STYLES = {"ok": "green", "note": "yellow", "problem": "red"}
PLAIN_WIDTH, LEAST_WIDTH = 100, 40
"""Columns of a text where nobody looks, and where the screen is too narrow for anything."""


@verb(
    "doctor",
    examples={
        "xsessionctl doctor": "what was looked at, what is wrong, what mends it",
        "xsessionctl doctor --json | jq -r '.findings[] | select(.level == \"problem\") | .mend'": "the commands alone",
    },
    exits=(9,),
    timeout=120.0,
)
def command(setup: Setup) -> int:
    """Look for what is wrong, and say what mends it.

    Paths and who may enter them, the lock and the socket, versions, the service, the store, room on the disk,
    descriptors, the clock, the settings, and mail that got stuck. Nothing is changed, and no broker is started. With a
    problem the exit code is 1; without one, and without a broker, 9.
    """
    return conclude(
        lambda: examine_all(setup.deadline), show_findings, setup.sink, as_json=setup.as_json, code=doctor_code
    )


def doctor_code(document: Document) -> int:
    """The exit code for what was found."""
    if not document.get("ok"):
        return 1
    return 0 if document.get("broker") else 9


def show_findings(document: Document, sink: Sink) -> list[str]:
    """Every finding with its reason and the way out, by area, and how many problems there are."""
    findings = rows_of(document, "findings")
    column = max((len(one_line(finding.get("area"))) for finding in findings), default=0)
    width = max(LEAST_WIDTH, line_width() or PLAIN_WIDTH)
    lines = []
    for finding in findings:
        level = one_line(finding.get("level"))
        head = f"{sink.paint(pad(level, 7), STYLES.get(level, 'dim'), sys.stdout)}  "
        head += pad(one_line(finding.get("area")), column) + "  "
        indent = 7 + 2 + column + 2
        text = _wrap(one_line(finding.get("what")), width - indent)
        lines += [head + text[0], *(" " * indent + line for line in text[1:])]
        if finding.get("why"):
            lines += [
                " " * indent + sink.paint(line, "dim") for line in _wrap(one_line(finding["why"]), width - indent)
            ]
        if finding.get("mend"):
            lines.append(" " * indent + "→ " + sink.paint(one_line(finding["mend"]), "bold"))
    count = sum(1 for finding in findings if finding.get("level") == "problem")
    summary = {0: "No problem was found.", 1: "1 problem was found."}.get(count, f"{count} problems were found.")
    return [*lines, "", sink.paint(summary, "red" if count else "green")]


def _wrap(text: str, width: int) -> list[str]:
    """Lines at spaces; a path that is longer than a line stays whole, so that it can be copied."""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]

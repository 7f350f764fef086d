"""`xsessionctl doctor`: what is wrong on this machine, and what mends it."""

from __future__ import annotations

import sys
import textwrap

import click

from xsessionctl.doctor.doors import try_door
from xsessionctl.doctor.examination import examine_all
from xsessionctl.options import Setup, complete_session, verb
from xsessionctl.outcome import Document, conclude, send_code
from xsessionctl.output import Sink, line_width
from xsessionctl.render import called, one_line, part_of, rows_of
from xsessionctl.table import pad

STYLES = {"ok": "green", "note": "yellow", "problem": "red"}
PLAIN_WIDTH, LEAST_WIDTH = 100, 40
"""Columns of a text where nobody looks, and where the screen is too narrow for anything."""


@verb(
    "doctor",
    examples={
        "xsessionctl doctor": "what was looked at, what is wrong, what mends it; is each coding agent really reached",
        "xsessionctl doctor --no-doors": "the same, and no session is sent anything",
        "xsessionctl doctor --door api": "only try the way into that session, and with what became of the message",
        "xsessionctl doctor --json | jq -r '.findings[] | select(.level == \"problem\") | .mend'": "the commands alone",
    },
    exits=(3, 4, 5, 6, 7, 8, 9),
    timeout=120.0,
)
@click.option("--no-doors", is_flag=True, help="Try no way in: no session is sent anything.")
@click.option("--door", metavar="NAME", shell_complete=complete_session, help="Only try the way into this session.")
def command(setup: Setup, *, no_doors: bool, door: str | None) -> int:
    """Look for what is wrong, and say what mends it.

    Paths and who may enter them, the lock and the socket, versions, the service, the store, room on the disk,
    descriptors, the clock, the settings, mail that got stuck, and the coding agents. Nothing is changed, and no broker
    is started. With a problem the exit code is 1; without one, and without a broker, 9.

    It also sends a message that asks for nothing to one session of each coding agent, an idle one if there is one, and
    waits until there is evidence that its model saw it. That costs the session a turn; --no-doors leaves it out. With
    --door only the session that you name is tried.
    """
    if no_doors and door is not None:
        raise click.UsageError("--no-doors tries no way in, --door the one into the session that you name.")
    if door is not None:
        return conclude(
            lambda: try_door(door, setup.deadline), _show_door, setup.sink, as_json=setup.as_json, code=_door_code
        )
    return conclude(
        lambda: examine_all(setup.deadline, try_doors=not no_doors, tell=_tell),
        show_findings,
        setup.sink,
        as_json=setup.as_json,
        code=doctor_code,
    )


def _tell(what: str) -> None:
    """To who looks on, and is waiting."""
    if sys.stderr.isatty():
        click.echo(what, err=True)


def _door_code(document: Document) -> int:
    return 0 if document.get("arrived") else send_code(document) or 1


def _show_door(document: Document, sink: Sink) -> list[str]:
    to, state = part_of(document, "to"), one_line(document.get("state"))
    if not document.get("arrived"):
        return [f"The test for {called(to)} is {state}: `xsessionctl check {one_line(document.get('id'))}` tells why."]
    steps = " → ".join(one_line(step.get("state")) for step in rows_of(document, "history"))
    how = one_line(document.get("delivery"))
    return [f"{called(to)} has read it, by its door ({how}), after {document.get('took_s')} s: {steps}."]


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

"""`xsessionctl uninstall`: takes the product out of the user's coding agents again."""

from __future__ import annotations

import click

from xsessionctl.commands.install import change, complete_harness, problem_code, told_problem
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.output import Sink
from xsessionctl.render import one_line, rows_of


@verb(
    "uninstall",
    examples={
        "xsessionctl uninstall": "out of every coding agent",
        "xsessionctl uninstall claude --dry-run": "only show what would be written",
    },
    exits=(3, 11),
    timed=False,
)
@click.argument("harnesses", metavar="[HARNESS]...", nargs=-1, shell_complete=complete_harness)
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def command(setup: Setup, *, harnesses: tuple[str, ...], dry_run: bool, yes: bool) -> int:
    """Take it out of your coding agents again.

    Each file becomes what it was, to the last character, if nothing else was changed in it since; else entries of ours
    go and the rest stays. Messages, settings and the broker are not touched.
    """
    return conclude(
        lambda: change(setup, harnesses, remove=True, dry_run=dry_run, yes=yes),
        _told,
        setup.sink,
        as_json=setup.as_json,
        code=problem_code,
    )


def _told(document: Document, sink: Sink) -> list[str]:
    lines: list[str] = []
    for row in rows_of(document, "harnesses"):
        lines += told_problem(row)
        if rows_of(row, "changes"):
            what = "taken out" if document.get("written") else "nothing was written"
            lines.append(f"{one_line(row.get('title'))}: {what}.")
    return lines or ["There is nothing of ours in any of them."]

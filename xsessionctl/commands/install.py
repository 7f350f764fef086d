"""`xsessionctl install`: puts the product into the user's coding agents, and says how it is there."""

from __future__ import annotations

import sys

import click
from click.shell_completion import CompletionItem

from xsessionctl.client import ClientError
from xsessionctl.installing import Job, carry_out, look, open_receipts, plan, warn_of_place
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.output import Sink
from xsessionctl.render import one_line, rows_of
from xsessiond.core.inert import inert

DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def complete_harness(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of harnesses."""
    from xsessionctl.harness.known import HARNESSES

    return [CompletionItem(name, help=one.title) for name, one in HARNESSES.items() if name.startswith(incomplete)]


@verb(
    "install",
    examples={
        "xsessionctl install": "into every coding agent that is here",
        "xsessionctl install claude --dry-run": "only show what would be written",
        "xsessionctl install --status": "whether all of it is there, and fits",
    },
    exits=(3, 11),
    timed=False,
)
@click.argument("harnesses", metavar="[HARNESS]...", nargs=-1, shell_complete=complete_harness)
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--status", is_flag=True, help="Say what is there, and write nothing.")
def command(setup: Setup, *, harnesses: tuple[str, ...], dry_run: bool, yes: bool, status: bool) -> int:
    """Put this into your coding agents.

    HARNESS: claude, codex, opencode or gemini. Without one, all that are here. What is to be written is shown first,
    and you are asked. Only entries of ours are added to their own files, and all else in them stays as it is;
    `xsessionctl uninstall` takes them out again.
    """
    if status:
        return conclude(lambda: _status(harnesses), _shown_status, setup.sink, as_json=setup.as_json, code=_status_code)
    return conclude(
        lambda: change(setup, harnesses, remove=False, dry_run=dry_run, yes=yes),
        _told,
        setup.sink,
        as_json=setup.as_json,
    )


def change(setup: Setup, names: tuple[str, ...], *, remove: bool, dry_run: bool, yes: bool) -> Document:
    """Plans, shows, asks and writes. Raises ClientError."""
    receipts = open_receipts()
    jobs = plan(names, receipts, remove=remove)
    warnings = [] if remove else warn_of_place(jobs)
    document = {"harnesses": [job.to_document() for job in jobs], "warnings": warnings, "written": False}
    if not any(job.steps for job in jobs):
        return document
    if not setup.as_json:
        setup.sink.lines(show_plan(jobs, warnings, setup.sink))
    if dry_run:
        return document
    if not yes and not _agreed(setup):
        return document
    carry_out(jobs, receipts)
    return {**document, "written": True}


def _agreed(setup: Setup) -> bool:
    if setup.as_json or not sys.stdin.isatty():
        raise ClientError("usage", "Nobody is here to be asked. Nothing was written.", "Say --yes, or --dry-run.")
    return click.confirm("Write this?", default=False)


def show_plan(jobs: list[Job], warnings: list[str], sink: Sink) -> list[str]:
    """The changes, file by file."""
    lines = []
    for job in jobs:
        for step in job.steps:
            for line in step.diff():
                text = inert(line, multiline=False)
                lines.append(sink.paint(text, DIFF_STYLES.get(line[:1], "")) if line[:1] in DIFF_STYLES else text)
            lines.append("")
    return lines + [f"! {one_line(warning)}" for warning in warnings]


def _told(document: Document, sink: Sink) -> list[str]:
    lines = []
    for row in rows_of(document, "harnesses"):
        count = len(rows_of(row, "changes"))
        title = one_line(row.get("title"))
        if not count:
            lines.append(f"{title}: all is there; nothing was to be written.")
        elif document.get("written"):
            lines.append(f"{title}: written. Sessions that are started from now on have it.")
        else:
            lines.append(f"{title}: nothing was written.")
        lines += [f"  {one_line(note)}" for note in _notes(row)]
    return lines


def _notes(row: Document) -> list[object]:
    notes = row.get("notes")
    return notes if isinstance(notes, list) else []


# -- status ------------------------------------------------------------------------------------------------------------


def _status(names: tuple[str, ...]) -> Document:
    return {"harnesses": [job.to_document() for job in look(names)]}


def _status_code(document: Document) -> int:
    """3 if one that is here lacks something, 11 if one has a file that cannot be read."""
    states = [row.get("state") for row in rows_of(document, "harnesses") if row.get("program") is not None]
    return 11 if "broken" in states else 0 if all(state == "installed" for state in states) else 3


def _shown_status(document: Document, sink: Sink) -> list[str]:
    lines = []
    for row in rows_of(document, "harnesses"):
        state, here = one_line(row.get("state")), row.get("program") is not None
        version = one_line(row.get("version")) or ("unknown version" if here else "not here")
        style = "green" if state == "installed" else "dim" if not here else "yellow"
        lines.append(f"{one_line(row.get('title'))} ({version}): {sink.paint(state, style)}")
        faults = row.get("faults")
        if state != "missing" and isinstance(faults, dict):
            lines += [f"  {one_line(what)}: {one_line(fault)}" for what, fault in faults.items()]
        error = row.get("error")
        if isinstance(error, dict):
            lines.append(f"  {one_line(error.get('text'))}")
        lines += [f"  {one_line(note)}" for note in _notes(row) if here]
        if here and state != "installed":
            lines.append(f"  `xsessionctl install {one_line(row.get('name'))}` mends it.")
    return lines

"""`xsessionctl install`: puts the product into the user's coding agents, and says how it is there."""

from __future__ import annotations

import sys

import click
from click.shell_completion import CompletionItem

from xsessionctl.client import ClientError
from xsessionctl.installing import (
    Job,
    carry_out,
    class_path,
    lacks_class,
    look,
    make_folders,
    open_receipts,
    plan,
    warn_of_place,
)
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.output import Sink
from xsessionctl.render import one_line, rows_of
from xsessionctl.settings import change_value
from xsessiond.core.errors import EXIT_CODES
from xsessiond.core.inert import inert
from xsessiond.core.setting_keys import CLASSES

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
        code=problem_code,
    )


def change(setup: Setup, names: tuple[str, ...], *, remove: bool, dry_run: bool, yes: bool) -> Document:
    """Plans, shows, asks and writes. Raises ClientError."""
    receipts = open_receipts()
    jobs = plan(names, receipts, remove=remove)
    warnings = [] if remove else warn_of_place(jobs)
    unknown = [] if remove else [job for job in jobs if lacks_class(job)]
    written = False
    if any(job.steps for job in jobs):
        if not setup.as_json:
            setup.sink.lines(_show_plan(jobs, warnings, setup.sink))
        if not dry_run and (yes or _agrees(setup)):
            warnings += [] if remove else make_folders()
            carry_out(jobs, receipts)
            written = True
            for job in unknown:
                _settle_class(job, setup, ask=not yes)
    return {"harnesses": [job.to_changes() for job in jobs], "warnings": warnings, "written": written}


def _agrees(setup: Setup) -> bool:
    if setup.as_json or not sys.stdin.isatty():
        raise ClientError("usage", "Nobody is here to be asked. Nothing was written.", "Say --yes, or --dry-run.")
    return click.confirm("Write this?", default=False)


def _settle_class(job: Job, setup: Setup, *, ask: bool) -> None:
    """Asks whether the harness asks its user before it acts, and puts the answer into the settings."""
    title, key = job.harness.title, ".".join(class_path(job))
    later = f"`xsessionctl config set {key} prompting` (or bypass) says it; until then its mail is held for you."
    answer = "skip"
    if ask:
        setup.sink.lines(
            [
                "",
                f"{title} does not tell whether it asks you before it acts. What holds for the way you use it?",
                "  prompting  it asks before it runs or changes anything",
                "  bypass     it acts without asking",
                "  skip       say nothing; what comes for it is held until you decide",
            ]
        )
        answer = click.prompt(title, type=click.Choice([*CLASSES, "skip"]), default="skip")
    if answer == "skip":
        job.notes.append(f"It does not tell whether it asks you before it acts. {later}")
        return
    try:
        change_value(key, [answer], setup.timeout)
    except ClientError as problem:
        job.notes.append(f"That could not be set: {problem.text} {later}")


def problem_code(document: Document) -> int:
    """11 if the files of one harness could not be changed."""
    return EXIT_CODES["bad_config"] if any(row.get("error") for row in rows_of(document, "harnesses")) else 0


def _show_plan(jobs: list[Job], warnings: list[str], sink: Sink) -> list[str]:
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
    lines: list[str] = []
    for row in rows_of(document, "harnesses"):
        count = len(rows_of(row, "changes"))
        title = one_line(row.get("title"))
        if row.get("error"):
            lines += [f"{title}: nothing was written.", *told_problem(row)]
            continue
        if not count:
            lines.append(f"{title}: all is there; nothing was to be written.")
        elif document.get("written"):
            lines.append(f"{title}: written. Sessions that are started from now on have it.")
        else:
            lines.append(f"{title}: nothing was written.")
        lines += [f"  {one_line(note)}" for note in _notes(row)]
    return lines


def told_problem(row: Document) -> list[str]:
    """Why nothing could be done for a harness."""
    error = row.get("error")
    texts = [error.get("text"), error.get("hint")] if isinstance(error, dict) else []
    return [f"  {one_line(text)}" for text in texts if text]


def _notes(row: Document) -> list[object]:
    notes = row.get("notes")
    return notes if isinstance(notes, list) else []


# -- status ------------------------------------------------------------------------------------------------------------


def _status(names: tuple[str, ...]) -> Document:
    return {"harnesses": [job.to_status() for job in look(names)]}


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
        entries = row.get("entries")
        if state in ("partly", "outdated") and isinstance(entries, dict):
            wrong = {what: how for what, how in entries.items() if how != "installed"}
            lines += [f"  {one_line(what)}: {one_line(how)}" for what, how in wrong.items()]
        lines += told_problem(row)
        lines += [f"  {one_line(note)}" for note in _notes(row) if here]
        if here and state != "installed":
            lines.append(f"  `xsessionctl install {one_line(row.get('name'))}` mends it.")
    return lines

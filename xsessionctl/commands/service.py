"""`xsessionctl service`: the broker as a service of your login."""

from __future__ import annotations

import click

from xsessionctl.lifecycle import find_paths
from xsessionctl.options import Setup, family, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.output import Sink
from xsessionctl.render import fact_lines, folder, one_line, part_of, rows_of
from xsessionctl.service.logs import follow_log, read_log
from xsessionctl.service.manager import find_manager, install, uninstall

TIMEOUT_S = 60.0
"""A broker that makes room and one that comes may each take some seconds, on a machine that is busy."""


@verb(
    "install",
    examples={
        "xsessionctl service install": "systemd or launchd starts the broker from now on",
        "xsessionctl service install --dry-run": "what would be written and run",
    },
    exits=(3, 5, 7, 9, 10),
    timeout=TIMEOUT_S,
)
@click.option("--dry-run", is_flag=True, help="Show the files and commands, and do nothing.")
@click.option(
    "--hardened/--not-hardened",
    default=None,
    help="A stricter sandbox (systemd); deciding then needs the passphrase. Left as it is without either.",
)
def install_service(setup: Setup, *, dry_run: bool, hardened: bool | None) -> int:
    """Have your service manager run the broker.

    systemd: its user manager listens on the broker's socket, starts the broker for whoever connects first, again after
    a crash, and ends one that hangs. macOS: launchd starts it at your login. The files are yours, in your home; nothing
    needs root. A broker that runs already makes room, and nothing that waits is lost. At the end the broker is asked
    once, so that what is installed is known to work. Doing it again changes nothing.
    """
    return conclude(
        lambda: install(find_manager(find_paths()), setup.timeout, dry_run=dry_run, hardened=hardened),
        _installed,
        setup.sink,
        as_json=setup.as_json,
    )


def _installed(document: Document, sink: Sink) -> list[str]:
    lines = []
    for file in rows_of(document, "files"):
        lines.append(f"{one_line(file.get('change'))}: {folder(file.get('path'))}")
        if isinstance(text := file.get("text"), str) and file.get("change") != "unchanged":
            lines += [sink.paint(f"    {one_line(line)}", "dim") for line in text.rstrip("\n").split("\n")]
    commands = document.get("commands")
    word = "would run" if document.get("dry_run") else "ran"
    lines += [f"{word}: {one_line(command)}" for command in commands] if isinstance(commands, list) else []
    broker = part_of(document, "broker")
    if document.get("dry_run"):
        lines.append("Nothing was done.")
    elif document.get("started"):
        lines.append(
            f"{one_line(document.get('manager'))} runs xsessiond {one_line(broker.get('version'))} "
            f"(pid {one_line(broker.get('pid'))}); it answered in {one_line(document.get('round_trip_ms'))} ms."
        )
    if document.get("why_not"):
        lines.append(f"Not started now: {one_line(document['why_not'])}.")
        lines.append(
            "It is in place for your next login; until then the first client starts the broker. Or run this again in a "
            "login of yours."
        )
    return [*lines, *_notes(document)]


def _notes(document: Document) -> list[str]:
    notes = document.get("notes")
    return [one_line(note) for note in notes] if isinstance(notes, list) else []


@verb(
    "uninstall",
    examples={"xsessionctl service uninstall": "stops the broker and removes what install wrote"},
    exits=(3, 5, 7, 9, 10),
    timeout=TIMEOUT_S,
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed and run, and do nothing.")
def uninstall_service(setup: Setup, *, dry_run: bool) -> int:
    """Take the service away again.

    The broker ends, what it accepted first. Only what `service install` wrote is removed; drop-ins of yours, messages
    and settings stay. The first client that needs the broker starts it from then on.
    """
    return conclude(
        lambda: uninstall(find_manager(find_paths()), setup.timeout, dry_run=dry_run),
        _uninstalled,
        setup.sink,
        as_json=setup.as_json,
    )


def _uninstalled(document: Document, sink: Sink) -> list[str]:
    files = rows_of(document, "files")
    lines = [f"{one_line(file.get('change'))}: {folder(file.get('path'))}" for file in files]
    if not any(file.get("change") == "removed" for file in files):
        return [*lines, "No service of ours is installed."]
    if document.get("dry_run"):
        return [*lines, "Nothing was done."]
    if document.get("why_not"):
        lines.append(f"The manager was not told: {one_line(document['why_not'])}. A broker that runs goes on.")
    return [*lines, f"Messages and the log stay in {folder(document.get('state_dir'))}."]


@verb(
    "status",
    examples={"xsessionctl service status": "is it installed, does it run, since when"},
    exits=(3, 7, 9, 10),
)
def service_status(setup: Setup) -> int:
    """Whether the service is installed, and how it is.

    Looking starts nothing. Exit code 3: it is not installed, or neither listens nor runs.
    """
    return conclude(lambda: _survey(), _surveyed, setup.sink, as_json=setup.as_json, code=_survey_code)


def _survey() -> dict[str, object]:
    manager = find_manager(find_paths())
    return {"manager": manager.name, **manager.survey()}


def _survey_code(document: Document) -> int:
    active = any(part_of(document, unit).get("state") == "active" for unit in ("socket", "service"))
    return 0 if document.get("installed") and active else 3


def _surveyed(document: Document, sink: Sink) -> list[str]:
    lines = [f"{one_line(document.get('manager'))}: {'installed' if document.get('installed') else 'not installed'}"]
    service = part_of(document, "service")
    facts: list[tuple[str, object]] = [
        *((file_state(file), folder(file.get("path"))) for file in rows_of(document, "files")),
        ("at login", "enabled" if document.get("enabled") else "not enabled"),
        ("socket", _state(part_of(document, "socket"))),
        ("service", _state(service)),
        ("pid", service.get("pid")),
        ("restarts", service.get("restarts")),
        ("last end", service.get("result") if service.get("result") not in ("success", None) else None),
        ("sandbox", "hardening.conf" if document.get("hardened") else None),
        ("linger", _lingers(document.get("linger"))),
    ]
    lines += fact_lines(facts)
    if document.get("problem"):
        lines.append(f"  ! {one_line(document['problem'])}")
    if document.get("why_not"):
        lines.append(f"  ! How it runs is not known: {one_line(document['why_not'])}.")
    return lines


def file_state(file: Document) -> str:
    """A file's state in a word or two."""
    state = one_line(file.get("state"))
    return {"current": "file", "differs": "file (of another version)", "foreign": "not ours"}.get(state, state)


def _lingers(linger: object) -> str | None:
    if linger is None:
        return None
    return "yes: it runs without a login too" if linger else "no: it ends after your last logout"


def _state(unit: Document) -> str | None:
    return f"{one_line(unit.get('state'))} ({one_line(unit.get('detail'))})" if unit else None


@verb(
    "logs",
    examples={
        "xsessionctl service logs": "the last 50 lines, from the journal or the log file",
        "xsessionctl service logs --follow": "and what comes",
    },
    exits=(3, 7, 9, 10),
)
@click.option("--lines", type=click.IntRange(1, 100_000), default=50, metavar="N", help="How many (50).")
@click.option("--follow", is_flag=True, help="Stay, and show what comes. With --json: one document a line.")
def service_logs(setup: Setup, *, lines: int, follow: bool) -> int:
    """What the broker had to say.

    In the journal where systemd started it, else in its log file. It is quiet when all is well; it never holds a
    message's text or a token.
    """
    paths = find_paths()
    if follow:
        return follow_log(paths, lines, setup.sink, as_json=setup.as_json)
    return conclude(lambda: read_log(paths, lines, setup.deadline), _logged, setup.sink, as_json=setup.as_json)


def _logged(document: Document, sink: Sink) -> list[str]:
    lines = document.get("lines")
    if not isinstance(lines, list) or not lines:
        return [f"Nothing was logged ({one_line(document.get('source'))})."]
    return [one_line(line) for line in lines]


command = family(
    "service",
    "The broker as a service of your login.",
    [install_service, uninstall_service, service_status, service_logs],
)

"""`xsessionctl status`: how the broker is. Works with a broker of any version."""

from __future__ import annotations

import sys

import click

from xsessionctl.lifecycle import find_paths
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.output import Sink
from xsessionctl.render import broker_state, part_of
from xsessionctl.requests import ask, ask_running, none_runs


@verb(
    "status",
    examples={
        "xsessionctl status": "is it running, is it well",
        "xsessionctl status --charges": "who holds what: connections, messages, bytes",
    },
    exits=(7, 9, 11),
)
@click.option("--charges", is_flag=True, help="Also who holds what, and the limits.")
def command(setup: Setup, *, charges: bool) -> int:
    """How the broker is.

    It is not started for this: without one the exit code is 9. A store that failed its check gives 1, settings that
    cannot be used give 11.
    """
    return conclude(
        lambda: _read(setup.deadline, charges=charges), _show, setup.sink, as_json=setup.as_json, code=status_code
    )


def _read(deadline: float, *, charges: bool) -> dict[str, object]:
    document = read_status(deadline)
    if charges:
        document["charges"] = {**ask("charges", {}, deadline), **_look_into(part_of(document, "broker"))}
    return document


def _look_into(broker: Document) -> dict[str, object]:
    """What the broker's process holds: descriptors, of how many, and memory; None where it cannot be looked into."""
    import psutil

    pid = broker.get("pid")
    used = limit = resident = None
    try:
        process = psutil.Process(pid if isinstance(pid, int) else 0)
        if sys.platform == "linux":
            limit = process.rlimit(psutil.RLIMIT_NOFILE)[0]
        used, resident = process.num_fds(), process.memory_info().rss
    except (psutil.Error, OSError):
        pass
    return {"files": {"used": used, "limit": limit}, "memory": {"rss_bytes": resident}}


def _show(document: Document, sink: Sink) -> list[str]:
    lines = broker_state(document, sink)
    if "charges" in document:
        from xsessionctl.render_charges import charge_lines

        lines += charge_lines(document, sink)
    return lines


def read_status(deadline: float) -> dict[str, object]:
    """The broker's own account of itself. Raises ClientError."""
    status = ask_running(find_paths(), "status", {}, deadline)
    if status is None:
        raise none_runs()
    return status


def status_code(document: Document) -> int:
    """The exit code for what the broker said of itself."""
    if part_of(document, "store").get("ok") is False:
        return 1
    return 11 if part_of(document, "config").get("ok") is False else 0

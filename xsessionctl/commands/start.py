"""`xsessionctl start`: the broker, if it does not run."""

from __future__ import annotations

from xsessionctl.lifecycle import connect_if_running, ensure_broker, find_paths
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.output import Sink
from xsessionctl.render import one_line, part_of
from xsessionctl.requests import repeat
from xsessionctl.service.manager import start_installed


@verb("start", examples={"xsessionctl start": "says who runs, started now or not"}, exits=(7, 9, 10, 11))
def command(setup: Setup) -> int:
    """Start the broker, if it does not run.

    Seldom needed: any verb that needs it, and any session, starts it too. It is detached from this terminal and goes on
    until `xsessionctl stop` or the end of the machine's uptime. Where `xsessionctl service install` was run, the
    service manager starts it.
    """
    return conclude(
        lambda: repeat(lambda: _start(setup.deadline), setup.deadline), _started, setup.sink, as_json=setup.as_json
    )


def _start(deadline: float) -> dict[str, object]:
    paths = find_paths()
    link, started = connect_if_running(paths, deadline), False
    if link is None:
        managed = start_installed(paths, deadline)
        link, started = ensure_broker(paths, deadline)
        started = started or managed
    with link:
        return {"started": started, "broker": part_of(link.call("status"), "broker")}


def _started(document: Document, sink: Sink) -> list[str]:
    broker = part_of(document, "broker")
    who = f"xsessiond {one_line(broker.get('version'))} (pid {one_line(broker.get('pid'))})"
    return [f"Started {who}." if document["started"] else f"Already running: {who}."]

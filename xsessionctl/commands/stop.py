"""`xsessionctl stop`: the end of the broker. Works with a broker of any version."""

from __future__ import annotations

from xsessionctl.ending import stop_broker
from xsessionctl.lifecycle import find_paths
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.output import Sink
from xsessionctl.render import one_line


@verb("stop", examples={"xsessionctl stop": "returns when it is really gone"}, exits=(7, 9, 10))
def command(setup: Setup) -> int:
    """Stop the broker.

    It finishes what it accepted and is gone when this returns. Nothing that waits is lost. A running session starts it
    again when it next needs it. Where it is a systemd service, its socket stays, so that any client does. Without a
    broker there is nothing to do, and the exit code is 0.
    """
    return conclude(lambda: _stop(setup.deadline), _stopped, setup.sink, as_json=setup.as_json)


def _stop(deadline: float) -> dict[str, object]:
    stopped = stop_broker(find_paths(), deadline)
    return {
        "stopped": stopped.pid is not None,
        "pid": stopped.pid,
        "version": stopped.version,
        "sessions": stopped.sessions,
        "service": stopped.service,
    }


def _stopped(document: Document, sink: Sink) -> list[str]:
    if not document["stopped"]:
        return ["No broker was running."]
    sessions = document["sessions"]
    were = {0: "no session was connected", 1: "1 session was connected"}.get(
        sessions if isinstance(sessions, int) else 0, f"{sessions} sessions were connected"
    )
    told = [f"Stopped xsessiond {one_line(document['version'])} (pid {document['pid']}); {were}."]
    if document.get("service") == "systemd":
        told.append(
            "Its socket stays, and the next client has systemd start it again. "
            "To keep it off until your next login: systemctl --user stop xsessiond.socket"
        )
    return told

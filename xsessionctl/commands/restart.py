"""`xsessionctl restart`: the broker of this installation goes on where the running one is."""

from __future__ import annotations

from xsessionctl.ending import restart_broker
from xsessionctl.lifecycle import find_paths
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.output import Sink
from xsessionctl.render import one_line, part_of


@verb(
    "restart",
    examples={"xsessionctl restart": "after an upgrade: the new version goes on where the old one was"},
    exits=(5, 7, 9, 10),
    timeout=60.0,
)
def command(setup: Setup) -> int:
    """Have the broker of this installation go on where the running one is.

    Nothing is lost and nobody is refused: who connects meanwhile waits a moment, and sessions come back by themselves.
    The new one is tried first. If it cannot go on, for instance since the store is of a newer version, the running
    broker stays, and the exit code is 5. A broker too old to hand over is stopped and started; without one, one is
    started.
    """
    return conclude(lambda: _restart(setup.deadline), _restarted, setup.sink, as_json=setup.as_json)


def _restart(deadline: float) -> dict[str, object]:
    done = restart_broker(find_paths(), deadline)
    return {"how": done.how, "before": done.before or None, "broker": done.after}


def _restarted(document: Document, sink: Sink) -> list[str]:
    before, after = part_of(document, "before"), part_of(document, "broker")
    who = f"xsessiond {one_line(after.get('version'))} (pid {one_line(after.get('pid'))})"
    if document.get("how") == "started" and before:
        return [f"xsessiond {one_line(before.get('version'))} ended before another took its place. Started {who}."]
    if document.get("how") == "started":
        return [f"No broker was running. Started {who}."]
    if document.get("how") == "replaced":
        return [f"xsessiond {one_line(before.get('version'))} could not hand over, so it was stopped. Started {who}."]
    if before.get("version") == after.get("version"):
        return [f"Restarted {who}."]
    return [f"Handed over from xsessiond {one_line(before.get('version'))} to {who}."]

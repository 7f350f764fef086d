"""The coding agents that are here: whether we are installed into them, and whether their sessions are reached as they
could be.

Laws: nothing is started in anybody's session; that is `doors`, and can be declined. Refuses to know: single
harnesses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xsessionctl.doctor.doors import AREA, try_doors
from xsessionctl.doctor.findings import Finding, Look
from xsessionctl.installing import Job
from xsessionctl.installing import look as look_at
from xsessionctl.render import called, one_line, rows_of


def examine(look: Look) -> Iterator[Finding]:
    """Yields what is found."""
    jobs, listed = look_at(()), look.ask("list") or {}
    assumed = {row.get("key") for row in rows_of(look.ask("config") or {}, "values") if row.get("value")}
    yield from judge(jobs, rows_of(listed, "sessions"), assumed, asked=look.status() is not None)
    if look.try_doors and listed:
        yield from try_doors(jobs, listed, look.deadline, look.tell)


def judge(
    jobs: Sequence[Job], sessions: Sequence[Mapping[str, object]], assumed: set[object], *, asked: bool
) -> Iterator[Finding]:
    """What the harnesses' files and the roster say. assumed: keys of settings that have a value; asked: whether a
    broker could be asked for them."""
    here = [job for job in jobs if job.found.path is not None or job.state not in ("missing", "broken")]
    if not here:
        yield Finding(AREA, "ok", "None of the coding agents that we know is here; any MCP client will do.")
    for job in here:
        running = [row for row in sessions if row.get("harness") == job.harness.name]
        yield from _judge_job(job, assumed, asked=asked)
        yield from (finding for row in running for finding in _judge_session(job, row))


def _judge_job(job: Job, assumed: set[object], *, asked: bool) -> Iterator[Finding]:
    title, name = job.harness.title, job.harness.name
    install = f"xsessionctl install {name}"
    if job.problem is not None:
        yield Finding(AREA, "problem", f"{title}: {one_line(job.problem.text)}", None, job.problem.hint)
        return
    if job.state == "missing":
        yield Finding(AREA, "note", f"{title} is here, and we are not installed into it.", None, install)
        return
    version = f" {row}" if (row := job.to_document()["version"]) else ""
    if job.state != "installed":
        gone = ", ".join(f"{entry} ({state})" for entry, state in job.states.items() if state != "installed")
        yield Finding(AREA, "problem", f"{title}{version}: what we need there is not whole.", gone, install)
    else:
        yield Finding(AREA, "ok", f"{title}{version}: installed.")
    for note in job.notes:
        yield Finding(AREA, "note", f"{title}: {one_line(note)}")
    key = f"harness.{name}.assume_class"
    if asked and not job.harness.class_told and key not in assumed:
        why = "It does not tell whether it asks before it acts, so what comes for its sessions waits for you."
        mend = f"xsessionctl config set {key} prompting"
        yield Finding(AREA, "note", f"{title}: its permission class is not known.", why, mend)


def _judge_session(job: Job, row: Mapping[str, object]) -> Iterator[Finding]:
    """W16, W17: a session that is reached less well than its harness allows."""
    if job.state == "installed" and row.get("delivery") in ("pull", "none"):
        yield Finding(
            AREA,
            "problem",
            f"{called(row)} reads its mail only when its model asks for it.",
            f"{job.harness.title} can do better. It began before we were installed, or no hook of ours runs in it.",
            "Start that session again.",
        )

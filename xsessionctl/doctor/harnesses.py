"""The coding agents that are here: whether we are installed into them, and whether their sessions are reached as they
could be. And on request a round trip through a session's own door, with the evidence that a model saw it.

Laws: nothing is started in anybody's session unless that was asked for. Refuses to know: single harnesses.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from xsessionctl.client import ClientError
from xsessionctl.doctor.findings import Finding, Look
from xsessionctl.installing import Job
from xsessionctl.installing import look as look_at
from xsessionctl.render import called, one_line, part_of, rows_of
from xsessionctl.requests import ask

AREA = "harnesses"
TEST_TEXT = "xsessionctl doctor tries the way into this session, for its user. There is nothing to do or to answer."
LOOK_AGAIN_S = 0.1
"""Between two looks at what became of the test."""
ARRIVED = ("delivered", "replied")
OVER = (*ARRIVED, "expired", "denied", "refused", "discarded")


def examine(look: Look) -> Iterator[Finding]:
    """Yields what is found."""
    sessions = rows_of(look.ask("list") or {}, "sessions")
    assumed = {row.get("key") for row in rows_of(look.ask("config") or {}, "values") if row.get("value")}
    yield from judge(look_at(()), sessions, assumed, asked=look.status() is not None)


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


def try_door(name: str, deadline: float) -> dict[str, object]:
    """Sends a session a test and waits until its model has seen it. deadline: on the monotonic clock. Raises
    ClientError: also `timeout`, with what is known by then."""
    sent = ask("send", {"to": name, "message": TEST_TEXT, "summary": "a test of the way in"}, deadline)
    begun = time.monotonic()
    while True:
        found = ask("check", {"message_id": sent.get("id")}, deadline)
        state = found.get("state")
        if state in OVER or state == "held":
            break
        if time.monotonic() + LOOK_AGAIN_S >= deadline:
            text = f"The test is {one_line(state)}, and nothing shows yet that {name}'s model has seen it."
            hint = "An idle session that nothing wakes reads with its next turn; `xsessionctl check` tells more."
            raise ClientError("timeout", text, hint, detail=found)
        time.sleep(LOOK_AGAIN_S)
    took = round(time.monotonic() - begun, 1)
    listed = rows_of(ask("list", {}, deadline), "sessions")
    session = next((row for row in listed if row.get("id") == part_of(found, "to").get("id")), {})
    return {
        "arrived": state in ARRIVED,
        "state": state,
        "id": sent.get("id"),
        "to": session or found.get("to"),
        "delivery": session.get("delivery"),
        "took_s": took,
        "history": found.get("history"),
    }

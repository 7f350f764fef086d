"""A round trip through a session's own door, with the evidence that a model saw it: for one session, or for one of each
coding agent that is here.

Laws: it costs a session a turn, so one of each is enough, an idle one if there is one. Nothing counts as arrived but
what the broker calls delivered. Refuses to know: single harnesses.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from xsessionctl.client import ClientError
from xsessionctl.doctor.findings import Finding
from xsessionctl.installing import Job
from xsessionctl.lifecycle import find_paths
from xsessionctl.render import called, one_line, part_of, rows_of
from xsessionctl.requests import ask_running, none_runs

AREA = "harnesses"
TEST_TEXT = "xsessionctl doctor tries the way into this session, for its user. There is nothing to do or to answer."
LOOK_AGAIN_S = 0.1
"""Between two looks at what became of the test."""
TRIAL_S = 30.0
"""What one of several sessions may take: an idle one begins a turn and shows the text to its model long before."""
LEAST_S = 3.0
"""Less says nothing of a session."""
ARRIVED = ("delivered", "replied")
OVER = (*ARRIVED, "expired", "denied", "refused", "discarded")
Row = Mapping[str, object]


def try_door(to: str, deadline: float) -> dict[str, object]:
    """Sends a session a test and waits until its model has seen it. deadline: on the monotonic clock. Raises
    ClientError: also `timeout`, with what is known by then."""
    # The same text twice within half a minute would be a repeat, and who mends something tries again at once.
    test = os.urandom(4).hex()
    message = {"to": to, "message": f"{TEST_TEXT} (test {test})", "summary": "a test of the way in"}
    sent = _ask("send", {**message, "key": f"doctor-{test}"}, deadline)
    begun = time.monotonic()
    while True:
        found = _ask("check", {"message_id": sent.get("id")}, deadline)
        state = found.get("state")
        if state in OVER or state == "held":
            break
        if time.monotonic() + LOOK_AGAIN_S >= deadline:
            problem = f"The test is {one_line(state)}, and nothing shows yet that {to}'s model has seen it."
            hint = "An idle session that nothing wakes reads with its next turn; `xsessionctl check` tells more."
            raise ClientError("timeout", problem, hint, detail=found)
        time.sleep(LOOK_AGAIN_S)
    took = round(time.monotonic() - begun, 1)
    listed = rows_of(_ask("list", {}, deadline), "sessions")
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


def _ask(method: str, params: Mapping[str, object], deadline: float) -> dict[str, object]:
    answer = ask_running(find_paths(), method, params, deadline)
    if answer is None:
        raise none_runs()
    return answer


def try_doors(
    jobs: Sequence[Job], listed: Mapping[str, object], deadline: float, tell: Callable[[str], None]
) -> Iterator[Finding]:
    """What a test of one session of each harness shows that has ours. listed: the answer to `list`; who asks is not
    tried. deadline: on the monotonic clock, for all of them. tell: called before each."""
    own = part_of(listed, "self").get("id")
    others = [row for row in rows_of(listed, "sessions") if row.get("id") != own]
    ours = {job.harness.title: job.harness.name for job in jobs if job.state not in ("missing", "broken")}
    running = {title: [row for row in others if row.get("harness") == name] for title, name in ours.items()}
    tried = {title: min(rows, key=_ease) for title, rows in running.items() if rows}
    for number, (title, row) in enumerate(tried.items()):
        now = time.monotonic()
        share = min(TRIAL_S, (deadline - now) / (len(tried) - number))
        if share >= LEAST_S:
            yield _try_one(title, row, now + share, tell)
        else:
            what = f"{title}: there was no time left to try the way into {called(row)}."
            yield Finding(AREA, "note", what, None, _one_command(row))
    if idle := ", ".join(title for title in ours if title not in tried):
        other = "no other session" if own is not None else "no session"
        what = f"The way in was not tried, since {other} of it runs: {idle}."
        yield Finding(AREA, "note", what, None, "Start one, then `xsessionctl doctor`.")


def _ease(row: Row) -> tuple[bool, bool]:
    """Those first that a message wakes at once."""
    return row.get("delivery") != "push", row.get("state") != "idle"


def _try_one(title: str, row: Row, deadline: float, tell: Callable[[str], None]) -> Finding:
    to = called(row)
    if row.get("delivery") != "push":
        what = f"{title}: nothing wakes {to}, so its way in was not tried."
        return Finding(
            AREA, "note", what, "It reads what came with its next turn.", f"{_one_command(row)}, and prompt it."
        )
    tell(f"{title}: sending {to} a test ...")
    try:
        found = try_door(to, deadline)
    except ClientError as problem:
        return _tell_failure(f"{title}: {one_line(problem.text)}", problem, row)
    if not found["arrived"]:
        what = f"{title}: the test for {to} is {one_line(found['state'])}."
        return Finding(AREA, "note", what, None, f"xsessionctl check {one_line(found['id'])}")
    return Finding(AREA, "ok", f"{title}: the model of {to} has seen a test, {found['took_s']} s after it was sent.")


def _tell_failure(what: str, problem: ClientError, row: Row) -> Finding:
    again = _one_command(row)
    if problem.code != "timeout":  # it was not sent: what that session's user has set, or a limit
        return Finding(AREA, "note", what, None, problem.hint or again)
    seen = problem.detail if isinstance(problem.detail, dict) else {}
    state = seen.get("target_state")
    if state is None:  # it was the broker that took too long, at one of the questions before or after
        return Finding(AREA, "note", what, None, again)
    if state != "idle":
        return Finding(AREA, "note", what, f"It was {one_line(state)} when it was tried.", again)
    return Finding(AREA, "problem", what, None, f"Start that session again, then {again}")


def _one_command(row: Row) -> str:
    return f"xsessionctl doctor --door {one_line(row.get('ref'))}"

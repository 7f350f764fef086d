"""What went wrong, as a person reads it.

Laws: the sentence and the hint are the broker's own; every word passes through `inert`. Refuses to know: exit codes.
"""

from __future__ import annotations

import sys

from xsessionctl.output import Sink
from xsessionctl.render import age, called, folder, one_line, part_of
from xsessiond.core.inert import inert

TYPE_CHECKING = False
if TYPE_CHECKING:
    from xsessionctl.client import ClientError


def failure(problem: ClientError, sink: Sink) -> list[str]:
    """A refusal or a fault: what happened, what it could have meant, what to do next."""
    lines = [f"{sink.paint('xsessionctl:', 'red', sys.stderr)} {inert(problem.text, multiline=False)}"]
    for candidate in problem.candidates:
        if isinstance(candidate, dict) and isinstance(candidate.get("from"), dict):
            route = f"{called(part_of(candidate, 'from'))} → {called(part_of(candidate, 'to'))}"
            lines.append(f"  {one_line(candidate.get('id'))}  {route}")
        elif isinstance(candidate, dict):
            since = candidate.get("age_s")
            facts = [
                folder(candidate.get("cwd")),
                one_line(candidate.get("state")),
                age(since if isinstance(since, int) else None),
            ]
            lines.append("  ".join(["", called(candidate), *(fact for fact in facts if fact)]))
    if problem.retry_after_s is not None and "second" not in problem.text:
        lines.append(f"  Again in {problem.retry_after_s:.0f} s.")
    if problem.hint:
        lines.append(f"  {inert(problem.hint, multiline=False)}")
    return lines

"""Whether the containers that were granted a session can reach it: the directory, and who listens in it.

Laws: nothing is said where nothing is granted; a token is not read. Refuses to know: what is in a container.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from xsessionctl.client import ClientError, deadline_in
from xsessionctl.doctor.findings import Finding, Look, quote
from xsessionctl.grants import SOCKET
from xsessionctl.render import called, part_of, rows_of
from xsessionctl.sockets import connect_unix
from xsessiond.paths import dir_fault

OUTSIDE = "Its container is without messages."


def examine(look: Look) -> Iterator[Finding]:
    """Yields what is found."""
    rows = rows_of(look.ask("grants") or {}, "grants")
    wrong = [found for row in rows if (found := _examine(row)) is not None]
    if rows and not wrong:
        yield Finding("grants", "ok", f"All that is granted to containers ({len(rows)}) can be reached there.")
    yield from wrong


def _examine(row: dict[str, object]) -> Finding | None:
    session, directory = part_of(row, "session"), str(row.get("directory"))
    who, name = called(session), quote(str(session.get("name")))
    try:
        fault = dir_fault(os.lstat(directory), os.geteuid(), private=True)
    except OSError as problem:
        what = f"{who} is granted in {directory}: {problem.strerror}."
        return Finding("grants", "problem", what, OUTSIDE, f"xsessionctl grant {name} --revoke  # or without --revoke")
    if fault is not None:
        what = f"{who} is granted in {directory}: {fault}."
        mend = f"chmod 700 {quote(directory)}; xsessionctl restart"
        if "mode" not in fault:
            mend = f"xsessionctl grant {name} --revoke"
        return Finding("grants", "problem", what, "The broker opens no socket where others can come in.", mend)
    path = f"{directory}/{SOCKET}"
    try:
        connect_unix(path, deadline_in(1.0)).close()
    except (OSError, ClientError):
        what = f"Nobody listens at {path}, which {who} is granted."
        return Finding("grants", "problem", what, OUTSIDE, f"rm -f {quote(path)}; xsessionctl restart")
    return None

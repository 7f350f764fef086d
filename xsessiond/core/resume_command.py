"""The command of the user's that resumes a conversation: for which it may be used, and what is filled into it.

Laws: a session says itself what its conversation is called and where it is, so of that only what is harmless as a part
of an argument goes into a command. Refuses to know: when it is run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from xsessiond.core.roster import Session
from xsessiond.core.setting_keys import RESUME_PLACES

HARMLESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
"""An id that no program takes for an option, a path, or more than one word."""


def can_resume(session: Session, commands: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether there is a command for its harness, and the conversation is one that it may be given."""
    talk = session.harness_session_id
    return (
        session.harness in commands
        and talk is not None
        and HARMLESS.fullmatch(talk) is not None
        and session.cwd.startswith("/")
        and "\0" not in session.cwd
    )


def fill(command: tuple[str, ...], session: Session) -> tuple[str, ...]:
    """The command with the places in its arguments filled in. What is filled in is not filled in again."""
    values = {"harness_session_id": session.harness_session_id or "", "cwd": session.cwd}
    program, *arguments = command
    return (program, *(RESUME_PLACES.sub(lambda found: values[found[1]], word) for word in arguments))

"""The command of the user's that resumes a conversation: for which it may be used, and what is filled into it.

Laws: a session says itself what its conversation is called and where it is, so of that only what is harmless as a part
of an argument goes into a command. What the command's program makes of its arguments is not known: some hand them to a
shell, or have a format language of their own. Refuses to know: when it is run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from xsessiond.core.roster import Session
from xsessiond.core.setting_keys import RESUME_PLACES

HARMLESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
"""An id that no program takes for an option, a path, or more than one word."""

ACTED_ON = re.compile(r"""[\x00-\x1f\x7f-\x9f"'`\\$;&|<>(){}\[\]]""")
"""In a folder's name: what ends a word or a line for a shell or begins something that runs, and what does so in formats
such as tmux's `#(…)`. No lone `#` or space, which are common in names and run nothing."""
CWD = "cwd"


def can_resume(session: Session, commands: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether there is a command for its harness, and the conversation is one that it may be given."""
    return find_obstacle(session, commands) is None


def find_obstacle(session: Session, commands: Mapping[str, tuple[str, ...]]) -> str | None:
    """Why this conversation cannot be resumed, as the end of a sentence; None where it can."""
    command, talk = commands.get(session.harness), session.harness_session_id
    if command is None:
        return f"no command is set for its harness ({session.harness})"
    if talk is None or HARMLESS.fullmatch(talk) is None:
        return "it has no conversation's id that a command could be given"
    if not session.cwd.startswith("/") or "\0" in session.cwd:
        return "its folder is not known by an absolute path"
    names_folder = any(CWD in RESUME_PLACES.findall(word) for word in command[1:])
    if names_folder and ACTED_ON.search(session.cwd):
        return (
            f"its folder's name has characters that programs act on, and harness.{session.harness}.resume has {{cwd}} "
            "in it"
        )
    return None


def fill(command: tuple[str, ...], session: Session) -> tuple[str, ...]:
    """The command with the places in its arguments filled in. What is filled in is not filled in again."""
    values = {"harness_session_id": session.harness_session_id or "", CWD: session.cwd}
    program, *arguments = command
    return (program, *(RESUME_PLACES.sub(lambda found: values[found[1]], word) for word in arguments))

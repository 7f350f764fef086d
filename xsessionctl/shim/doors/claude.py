"""Claude Code: the inbox of its own session, and what it writes down about the session.

The inbox is a Unix socket that Claude Code 2.1.224 and later opens for each session and names in the environment of
its children. A text that arrives there begins a turn in an idle session, and stands between two tool calls in a busy
one; the model sees it below a sentence of Claude Code's own that another session sent it. From a live child of the
session, as this process is, it is taken whatever the permission mode, so it is the broker that holds messages. Laws:
one connection a text; written is not read, and never reported as more. Refuses to know: hooks, what the text holds.
"""

from __future__ import annotations

from _socket import SHUT_WR

from xsessionctl.codec import decode, encode
from xsessionctl.shim.door import REFUSED, WRITTEN, Door
from xsessionctl.shim.doors.knock import Knock
from xsessionctl.sockets import peer_pid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket as Socket  # noqa: N812 - it is a class
    from collections.abc import Callable

    from xsessionctl.shim.hook_dir import HookDirectory
    from xsessionctl.shim.identity import Identity

TAKEN_WITHIN_S = 10.0
"""A peer that has not read what was written by then is stopped or hangs; it is tried again later."""


class Inbox(Knock):
    """The inbox at a path. token: what it may ask for, or None. owner: the process that must be behind it; None where
    that is not known."""

    delivery = "push"
    modes = ("auto", "followup")
    within_s = TAKEN_WITHIN_S

    def __init__(self, path: str, token: str | None, owner: int | None = None) -> None:
        super().__init__(path)
        self._token, self._owner = token, owner

    def make_frame(self, text: str) -> bytes:
        """The text as a message, behind the token if there is one."""
        lines = [{"type": "auth", "token": self._token}] if self._token else []
        frames = [*lines, {"type": "user", "message": {"role": "user", "content": text}}]
        return b"".join(encode(frame).encode("utf-8", "replace") + b"\n" for frame in frames)

    def is_ours(self, link: Socket) -> bool:
        """A session that was started inside another may have that one's variable, and must not write to it."""
        behind = peer_pid(link) if self._owner is not None else None
        return behind is None or behind == self._owner

    def written(self, link: Socket) -> None:
        """There is no more."""
        link.shutdown(SHUT_WR)

    def judge(self, answer: bytes, *, whole: bool) -> str | None:
        """The peer says nothing, and closes when it has read the text. What was written whole is in its socket, and it
        may read it yet."""
        if answer:
            return None
        return WRITTEN if whole else REFUSED


def open_door(identity: Identity, directory: HookDirectory | None) -> Door:
    """The way into the session: its inbox, where it has one; else a hook that waits, where command hooks run."""
    path = identity.variable("CLAUDE_CODE_MESSAGING_SOCKET")
    if path is not None:
        return Inbox(path, identity.variable("CLAUDE_CODE_MESSAGING_TOKEN"), identity.pid)
    if directory is None:
        return Door()
    from xsessionctl.shim.doors.claude_waiter import Waiter

    return Waiter(directory)


def find_look(identity: Identity) -> Callable[[], tuple[str | None, str | None]] | None:
    """How to ask Claude Code itself which conversation it runs and in which state: a file that it keeps for each of its
    processes. None where that process is not known."""
    folder, pid = identity.variable("CLAUDE_CONFIG_DIR"), identity.pid
    if pid is None:
        return None
    if folder is None:
        home = identity.variable("HOME")
        if home is None:
            return None
        folder = f"{home}/.claude"
    path = f"{folder}/sessions/{pid}.json"

    def look() -> tuple[str | None, str | None]:
        try:
            with open(path, encoding="utf-8") as file:
                found = decode(file.read())
        except (OSError, ValueError):
            return None, None
        if not isinstance(found, dict) or found.get("pid") != pid:
            return None, None
        conversation, state = found.get("sessionId"), found.get("status")
        return (
            conversation if isinstance(conversation, str) and conversation else None,
            state if state in ("idle", "busy", "waiting") else None,
        )

    return look

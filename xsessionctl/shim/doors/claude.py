"""Claude Code: the inbox of its own session, and what it writes down about the session.

The inbox is a Unix socket that Claude Code 2.1.224 and later opens for each session and names in the environment of
its children. A text that arrives there begins a turn in an idle session, and stands between two tool calls in a busy
one; the model sees it below a sentence of Claude Code's own that another session sent it. From a live child of the
session, as this process is, it is taken whatever the permission mode, so it is the broker that holds messages. Laws:
one connection a text; written is not read, and never reported as more. Refuses to know: hooks, what the text holds.
"""

from __future__ import annotations

import os
from _socket import AF_UNIX, SHUT_WR, SOCK_STREAM
from _socket import socket as Socket  # noqa: N812 - it is a class
from time import monotonic

from xsessionctl.codec import decode, encode
from xsessionctl.shim.door import GONE, REFUSED, WRITTEN, Door
from xsessionctl.sockets import peer_pid, peer_uid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from xsessionctl.shim.door import Done
    from xsessionctl.shim.hook_dir import HookDirectory
    from xsessionctl.shim.identity import Identity

TAKEN_WITHIN_S = 10.0
"""A peer that has not read what was written by then is stopped or hangs; it is tried again later."""


class Inbox(Door):
    """The inbox at a path. token: what it may ask for, or None. owner: the process that must be behind it; None where
    that is not known."""

    delivery = "push"
    modes = ("auto", "followup")

    def __init__(self, path: str, token: str | None, owner: int | None = None) -> None:
        super().__init__()
        self._path, self._token, self._owner = path, token, owner
        self._socket: Socket | None = None
        self._outgoing = b""
        self._done: Done | None = None
        self._shut = False
        self.due: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has not turned out to be of no use."""
        return not self._shut

    def post(self, text: str, *, busy: bool, mode: str, done: Done) -> None:
        """Connects and writes; see `Door.post`."""
        if self._socket is not None:
            done(REFUSED)
            return
        lines = [{"type": "auth", "token": self._token}] if self._token else []
        frames = [*lines, {"type": "user", "message": {"role": "user", "content": text}}]
        self._socket = Socket(AF_UNIX, SOCK_STREAM)
        self._socket.setblocking(False)
        self._done = done
        try:
            self._socket.connect(self._path)
            if not self._is_ours(self._socket):
                raise PermissionError(self._path)
        except BlockingIOError:
            self._finish(REFUSED)  # too many are knocking at once
            return
        except OSError:
            self.shut()
            self._finish(GONE)
            return
        self._outgoing = b"".join(encode(frame).encode("utf-8", "replace") + b"\n" for frame in frames)
        self.due = monotonic() + TAKEN_WITHIN_S
        self.write()

    def _is_ours(self, link: Socket) -> bool:
        """A session that was started inside another may have that one's variable, and must not write to it."""
        behind = peer_pid(link) if self._owner is not None else None
        return peer_uid(link) in (None, 0, os.geteuid()) and (behind is None or behind == self._owner)

    def shut(self) -> None:
        """See `Door.shut`."""
        self._shut = True

    def reopen(self) -> None:
        """See `Door.reopen`: it is worth a try if there is still something at its place."""
        if self._shut and os.path.exists(self._path):
            self._shut = False
            self.on_change()

    def close(self) -> None:
        """See `Door.close`."""
        self._done = None
        self._finish(REFUSED)

    @property
    def wants_write(self) -> bool:  # type: ignore[override]
        """Whether something is left to write."""
        return bool(self._outgoing)

    def fileno(self) -> int | None:
        """The connection, if there is one."""
        return None if self._socket is None else self._socket.fileno()

    def write(self) -> None:
        """Writes what the peer takes."""
        assert self._socket is not None
        try:
            while self._outgoing:
                self._outgoing = self._outgoing[self._socket.send(self._outgoing) :]
            self._socket.shutdown(SHUT_WR)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._finish(REFUSED)

    def read(self) -> None:
        """The peer says nothing, and closes when it has read the text."""
        assert self._socket is not None
        try:
            if self._socket.recv(4096):
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        self._finish(REFUSED if self._outgoing else WRITTEN)

    def tick(self, now: float) -> None:
        """Gives up a peer that does not read."""
        if self.due is not None and self.due <= now:
            # What was written whole is in its socket, and it may read it yet.
            self._finish(REFUSED if self._outgoing else WRITTEN)

    def _finish(self, outcome: str) -> None:
        self.due = None
        self._outgoing = b""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        done, self._done = self._done, None
        if done is not None:
            done(outcome)


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

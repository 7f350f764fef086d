"""What a session of Codex knows of itself, and from where: Codex runs one MCP server for each thread, and tells it
nothing when it starts.

Which thread it is stands in the `_meta` of every tool call, by a model or by a hook. A thread of a subagent has a
server too, and shares its session's id; it is no session of its own. Codex also starts servers that belong to no
thread, only to look at their tools. So nobody is introduced before the thread is known, except where the process above
has no other server of ours: the one conversation of a `codex exec`, or of a terminal without the daemon.

Laws: `_meta` is Codex's own word, arguments are not. Refuses to know: hooks, the broker.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

IDENTIFY = "Identify"
"""The event of a call of our `hook` tool that says nothing but in which thread it was made."""
UNSANDBOXED = "danger-full-access"
_TURN = "x-codex-turn-metadata"
_NO_TERMINAL = ("app-server", "e", "exec", "exec-server", "mcp-server", "review")


def control_socket(variable: Callable[[str], str | None]) -> str:
    """Where the daemon listens. variable: of the environment. Codex gives its MCP servers no environment of its own:
    CODEX_HOME is there because our installer wrote it into their configuration."""
    home = variable("CODEX_HOME") or os.path.expanduser("~/.codex")
    path = os.path.join(home, "app-server-control", "app-server-control.sock")
    try:
        return os.readlink(path)  # the path itself may be longer than the address of a socket can be
    except OSError:
        return path


class Origin:
    """Where a call came from. thread: where it was made, session: the conversation that this is part of, each None if
    the call does not say. subagent: it is not the session's own. unsandboxed: whether what its model runs may do
    everything; None if the call does not say."""

    __slots__ = ("session", "subagent", "thread", "unsandboxed")

    def __init__(self, meta: Mapping[str, object], session_id: object = None) -> None:
        """meta: of the call. session_id: what a hook says of itself, which is the session's also in a subagent."""
        thread = meta.get("threadId")
        self.thread = thread if isinstance(thread, str) and thread else None
        turn = meta.get(_TURN)
        turn = turn if isinstance(turn, dict) else {}
        session = session_id or meta.get("sessionId")
        self.session = session if isinstance(session, str) and session else self.thread
        self.subagent = bool(turn.get("parent_thread_id")) or turn.get("thread_source") == "subagent"
        if session_id and self.thread is not None:
            self.subagent = self.subagent or session_id != self.thread
        mode = turn.get("sandbox_mode")
        self.unsandboxed = mode == UNSANDBOXED if isinstance(mode, str) else None


def is_app_server(argv: Sequence[str]) -> bool:
    """Whether a process runs conversations for others: the daemon, or an editor's own server."""
    return "app-server" in argv[1:]


def terminal_program(argv: Sequence[str]) -> str | None:
    """The harness's program, if the process runs one conversation in a terminal and nothing else."""
    words = [word for word in argv[1:] if not word.startswith("-")]
    if not argv or not argv[0].startswith("/") or any(word in _NO_TERMINAL for word in words):
        return None
    return argv[0] if argv[0].rpartition("/")[2] == "codex" else None


def has_elder(parent: int, own: int, list_processes: Callable[[], list[int]], read: Callable[[int], object]) -> bool:
    """Whether the process `parent` had started another server of ours before this one (`own`).

    list_processes: pids of the machine. read: as for `identity.find_harness`.
    """
    for pid in list_processes():
        found = read(pid) if pid < own else None
        if isinstance(found, tuple) and found[0] == parent and is_ours(found[1]):
            return True
    return False


def list_processes() -> list[int]:
    """Their pids on Linux; none elsewhere."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def is_ours(argv: Sequence[str]) -> bool:
    """Whether a process is an MCP server of ours."""
    return "mcp" in argv and any(word.rpartition("/")[2].startswith("xsessionctl") for word in argv)

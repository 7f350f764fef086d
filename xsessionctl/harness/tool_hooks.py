"""Hooks that are calls of our tool `hook` by the harness itself, as Claude Code and Codex have them: no process starts.

Laws: a hook is told the harness's own fields by their own names, and only those that its event has. Refuses to know:
files.
"""

from __future__ import annotations

from xsessionctl.harness.entries import SERVER
from xsessionctl.shim.tools import HOOK

ALWAYS = ("hook_event_name", "session_id")
"""Fields that each event has."""


def tool_hook(fields: tuple[str, ...], *, matcher: str = "", timeout: int) -> dict[str, object]:
    """A group of one hook that passes these fields on. timeout: in the harness's unit."""
    handler = {
        "type": "mcp_tool",
        "server": SERVER,
        "tool": HOOK,
        "input": {name: f"${{{name}}}" for name in (*ALWAYS, *fields)},
        "timeout": timeout,
    }
    return {"matcher": matcher, "hooks": [handler]}


def command_hook(command: str, *, matcher: str = "", timeout: int, **more: object) -> dict[str, object]:
    """A group of one hook that runs a command of the shell. timeout: in the harness's unit. more: of the handler."""
    return {"matcher": matcher, "hooks": [{"type": "command", "command": command, **more, "timeout": timeout}]}

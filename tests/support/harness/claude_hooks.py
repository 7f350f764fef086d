"""The hooks of Claude Code as our tests set them up by hand: each event a call of our MCP server's own `hook` tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xsessionctl.shim.dialects import CLAUDE

TIMEOUT_S = 5


def add_hooks(home: Path, *, server: str = "xsession", mode: str | None = None) -> None:
    """Adds them to the settings in `home`, and the permission mode in which sessions begin."""
    path = home / ".claude" / "settings.json"
    settings = json.loads(path.read_text())
    settings["hooks"] = {event: [_entry(event, server)] for event in CLAUDE.inputs}
    if mode is not None:
        settings["permissions"]["defaultMode"] = mode
    path.write_text(json.dumps(settings))


def _entry(event: str, server: str) -> dict[str, Any]:
    fields = ("hook_event_name", "session_id", *CLAUDE.inputs[event])
    hook = {
        "type": "mcp_tool",
        "server": server,
        "tool": "hook",
        "timeout": TIMEOUT_S,
        "input": {field: f"${{{field}}}" for field in fields},
    }
    entry: dict[str, Any] = {"hooks": [hook]}
    if event == "SessionStart":
        entry["matcher"] = "clear|compact"
    return entry

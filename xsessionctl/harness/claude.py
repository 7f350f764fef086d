"""Claude Code: an MCP server for all projects, and hooks that call it.

From version 2.1.118 a hook may be a tool call to a running MCP server, which starts no process. A session's start and
end are no such calls: the server is not there yet, or not any more.

Sources: https://code.claude.com/docs/en/hooks, /settings, /mcp; where the user's servers are kept, and the lock beside
that file, were seen in 2.1.332. Timeouts are in seconds.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from xsessionctl.harness import json_edit
from xsessionctl.harness.base import Doors, Harness, Part, Site, is_on
from xsessionctl.harness.entries import SERVER, Hooks, Server

TOOL_HOOKS_FROM = (2, 1, 118)
"""The first version with hooks that are tool calls."""
INBOX_FROM = (2, 1, 224)
"""The first version whose sessions have an inbox."""
HOOK_S = 5
"""A hook answers in 0.2 s or not at all; this ends one that hangs."""

_TOLD = {"event": "${hook_event_name}", "session": "${session_id}", "mode": "${permission_mode}"}
TOOL_HOOKS: Mapping[str, Mapping[str, str]] = {
    "UserPromptSubmit": {**_TOLD, "prompt": "${prompt}"},
    "PostToolUse": {**_TOLD, "agent": "${agent_id}"},
    "Stop": {**_TOLD, "active": "${stop_hook_active}"},
    "Notification": {**_TOLD, "kind": "${notification_type}"},
}
"""Events that the running server is told by a tool call, with what it is told."""
COMMAND_HOOKS = ("SessionStart", "SessionEnd")
"""Events at which there is no server to call."""


def _parts(site: Site) -> list[Part]:
    folder = site.folder("CLAUDE_CONFIG_DIR", ".claude")
    state = f"{folder}/.config.json"  # where it was before; used for as long as it is there
    if not os.path.exists(state):
        state = f"{folder}/.claude.json" if site.environ.get("CLAUDE_CONFIG_DIR") else f"{site.home}/.claude.json"
    server = {"type": "stdio", "command": site.command, "args": ["mcp"], "env": dict(site.settings), "alwaysLoad": True}
    return [
        Part(state, json_edit, [Server(("mcpServers", SERVER), server)], strict=True, lock=f"{state}.lock"),
        Part(f"{folder}/settings.json", json_edit, [Hooks(_hooks(site))], strict=True),
    ]


def _hooks(site: Site) -> dict[str, dict[str, object]]:
    by_tool = site.version is None or site.version >= TOOL_HOOKS_FROM
    groups: dict[str, dict[str, object]] = {}
    for event, told in TOOL_HOOKS.items():
        handler: dict[str, object] = {"type": "mcp_tool", "server": SERVER, "tool": "hook", "input": dict(told)}
        if not by_tool:
            handler = {"type": "command", "command": hook_command(site, "claude", event)}
        groups[event] = {"matcher": "", "hooks": [{**handler, "timeout": HOOK_S}]}
    for event in COMMAND_HOOKS:
        command = hook_command(site, "claude", event)
        groups[event] = {"matcher": "", "hooks": [{"type": "command", "command": command, "timeout": HOOK_S}]}
    return groups


def hook_command(site: Site, harness: str, event: str) -> str:
    """The shell's words for our hook program."""
    variables = "".join(f"{name}={shlex.quote(value)} " for name, value in site.settings.items())
    return f"{variables}/bin/sh {shlex.quote(site.hook)} {harness} {event}"


def _switched_off(trees: Mapping[str, object]) -> list[str]:
    return [f"{path} has `disableAllHooks`." for path, tree in trees.items() if is_on(tree, "disableAllHooks")]


HARNESS = Harness(
    name="claude",
    title="Claude Code",
    program="claude",
    programs=(".claude/local",),
    tested=((2, 1, 332), (2, 1, 332)),
    doors=Doors(
        wake="the session's own inbox (from 2.1.224); before, a waiting hook that Claude Code starts a turn for",
        mid_turn="the inbox, between two tool calls; before, what is added to a tool's result (PostToolUse)",
        own_turn="UserPromptSubmit, Stop",
        evidence="UserPromptSubmit shows a prompt with the message's id; the next hook of the session",
    ),
    class_source="`permission_mode` of each hook, from the first prompt on",
    class_told=True,
    resume=("claude", "--resume", "{session}"),
    parts=_parts,
    switched_off=_switched_off,
)

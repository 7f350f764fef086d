"""Claude Code: an MCP server for all projects, and hooks that call it.

From version 2.1.118 a hook may be a tool call to a running MCP server, which starts no process. The start of a session
is no such call: the server is not there yet. Which events, and what is told of each, is the shim's business
(`shim.dialects`).

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
from xsessionctl.shim.dialects import CLAUDE

TOOL_HOOKS_FROM = (2, 1, 118)
"""The first version with hooks that are tool calls."""
ALL_EVENTS_FROM = (2, 1, 197)
"""The oldest version that was seen to know all of the events."""
BASIC_EVENTS = ("UserPromptSubmit", "PostToolUse", "Stop", "Notification")
"""Those that the versions before are given: one that they do not know would cost them all of their settings."""
INBOX_FROM = (2, 1, 224)
"""The first version whose sessions have an inbox."""
HOOK_S = 5
"""A hook answers in 0.2 s or not at all; this ends one that hangs."""
WAIT_S = 24 * 3600
"""How long a hook waits in the background for something to wake its session with."""
WAITING = ("SessionStart", "Stop")
"""Events at which one begins to wait, where there is no inbox."""


def _parts(site: Site) -> list[Part]:
    folder = site.folder("CLAUDE_CONFIG_DIR", ".claude")
    state = f"{folder}/.config.json"  # where it was before; used for as long as it is there
    if not os.path.exists(state):
        state = f"{folder}/.claude.json" if site.environ.get("CLAUDE_CONFIG_DIR") else f"{site.home}/.claude.json"
    env = {**site.settings, "XSESSIOND_HOOKS": "1"}
    server = {"type": "stdio", "command": site.command, "args": ["mcp"], "env": env, "alwaysLoad": True}
    return [
        Part(state, json_edit, [Server(("mcpServers", SERVER), server)], strict=True, lock=f"{state}.lock"),
        Part(f"{folder}/settings.json", json_edit, [Hooks(_hooks(site))], strict=True),
    ]


def _hooks(site: Site) -> dict[str, dict[str, object]]:
    def covers(version: tuple[int, ...]) -> bool:
        return site.version is None or site.version >= version

    groups: dict[str, dict[str, object]] = {}
    for event, fields in CLAUDE.inputs.items():
        if not covers(ALL_EVENTS_FROM) and event not in BASIC_EVENTS:
            continue
        told = {field: f"${{{field}}}" for field in ("hook_event_name", "session_id", *fields)}
        handler: dict[str, object] = {"type": "mcp_tool", "server": SERVER, "tool": "hook", "input": told}
        if not covers(TOOL_HOOKS_FROM):
            handler = {"type": "command", "command": hook_command(site, "claude", event)}
        groups[event] = _group({**handler, "timeout": HOOK_S})
    command = hook_command(site, "claude", "SessionStart")
    groups["SessionStart"] = _group({"type": "command", "command": command, "timeout": HOOK_S})
    if not covers(INBOX_FROM):
        for event in WAITING:
            command = f"{hook_command(site, 'claude', event)} wait"
            groups[event] = _group({"type": "command", "command": command, "asyncRewake": True, "timeout": WAIT_S})
    return groups


def _group(handler: Mapping[str, object]) -> dict[str, object]:
    return {"matcher": "", "hooks": [dict(handler)]}


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

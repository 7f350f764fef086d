"""Claude Code: an MCP server for all projects, and hooks that call it.

From version 2.1.118 a hook may be a tool call to a running MCP server, which starts no process. The start of a session
is no such call: the server is not there yet. Which events, and what is told of each, is the shim's business
(`shim.dialects`).

Sources: https://code.claude.com/docs/en/hooks, /settings, /mcp; where the user's servers are kept, the lock beside that
file, and that no comment is read in either were seen in 2.1.332. Timeouts are in seconds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from xsessionctl.harness.base import Doors, Harness, Part, Site, Version, is_on
from xsessionctl.harness.entries import SERVER, Hooks, Server
from xsessionctl.harness.json_edit import Json
from xsessionctl.harness.tool_hooks import command_hook, tool_hook
from xsessionctl.shim.claude import BEFORE_CALL, CALL_FIELDS
from xsessionctl.shim.dialects import CLAUDE

TOOL_HOOKS_FROM = (2, 1, 118)
"""The first version with hooks that are tool calls."""
ALL_EVENTS_FROM = (2, 1, 197)
"""The oldest version that was seen to know all of the events."""
BASIC_EVENTS = ("UserPromptSubmit", "PostToolUse", "Stop", "Notification")
"""Those that the versions before are given: one that they do not know would cost them all of their settings."""
OUR_TOOLS = f"mcp__{SERVER}__.*"
"""Matches the tools of our server and no others: only of their calls it matters whether they are a subagent's."""
INBOX_FROM = (2, 1, 224)
"""The first version whose sessions have an inbox."""
HOOK_S = 5
"""A hook answers in 0.2 s or not at all; this ends one that hangs."""
WAIT_S = 24 * 3600
"""How long a hook waits in the background for something to wake its session with."""
WAITING = ("SessionStart", "Stop")
"""Events at which one begins to wait, where there is no inbox; it tells of the event too."""


def _parts(site: Site) -> list[Part]:
    folder = site.folder("CLAUDE_CONFIG_DIR", ".claude")
    state = f"{folder}/.config.json"  # where it was before; used for as long as it is there
    if not os.path.exists(state):
        state = f"{folder}/.claude.json" if site.environ.get("CLAUDE_CONFIG_DIR") else f"{site.home}/.claude.json"
    env = {**site.settings, "XSESSIOND_HOOKS": "1"}
    server = {"type": "stdio", "command": site.command, "args": ["mcp"], "env": env, "alwaysLoad": True}
    return [
        Part(state, Json(), [Server(("mcpServers", SERVER), server)], lock=f"{state}.lock"),
        Part(f"{folder}/settings.json", Json(), [Hooks(_hooks(site))]),
    ]


def _hooks(site: Site) -> dict[str, list[dict[str, object]]]:
    def has(version: Version) -> bool:
        return site.version is None or site.version >= version

    def command(event: str) -> str:
        return site.hook("claude", event)

    groups = {"SessionStart": [command_hook(command("SessionStart"), timeout=HOOK_S)]}
    for event, fields in CLAUDE.inputs.items():
        if has(ALL_EVENTS_FROM) or event in BASIC_EVENTS:
            by_tool = has(TOOL_HOOKS_FROM)
            hook = tool_hook(fields, timeout=HOOK_S) if by_tool else command_hook(command(event), timeout=HOOK_S)
            groups[event] = [hook]
    if has(TOOL_HOOKS_FROM):  # a command could not prove what it says
        groups[BEFORE_CALL] = [tool_hook(CALL_FIELDS, matcher=OUR_TOOLS, timeout=HOOK_S)]
    if not has(INBOX_FROM):
        for event in WAITING:
            groups[event] = [command_hook(f"{command(event)} wait", timeout=WAIT_S, asyncRewake=True)]
    return groups


def _switched_off(trees: Mapping[str, object]) -> list[str]:
    return [f"{path} has `disableAllHooks`." for path, tree in trees.items() if is_on(tree, "disableAllHooks")]


HARNESS = Harness(
    name="claude",
    title="Claude Code",
    program="claude",
    programs=(".claude/local",),
    tested=((2, 1, 197), (2, 1, 332)),
    doors=Doors(
        wake="the session's own inbox (from 2.1.224); before, a hook that waits in the background (`asyncRewake`)",
        mid_turn="the inbox, between two tool calls; without it, what is added to a tool's result (PostToolUse)",
        own_turn="UserPromptSubmit, Stop",
        evidence="UserPromptSubmit shows a prompt with the message's id; else the next hook of the session",
    ),
    class_source="`permission_mode` of each hook, from the first prompt on",
    class_told=True,
    subagents="PreToolUse, before each call of our tools (from 2.1.118)",
    resume=("claude", "--resume", "{harness_session_id}"),
    parts=_parts,
    switched_off=_switched_off,
)

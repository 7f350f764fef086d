"""Gemini CLI: an MCP server and hooks in its settings. All its hooks are commands, and none tells the permission mode.

Sources: https://geminicli.com/docs/hooks/reference, /tools/mcp-server; that comments are read and commas behind a last
value are not was seen in 0.61.0. Timeouts are in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from xsessionctl.harness.base import Doors, Harness, Part, Site
from xsessionctl.harness.entries import SERVER, Entry, Hooks, Server
from xsessionctl.harness.json_edit import Json
from xsessionctl.harness.tool_hooks import command_hook
from xsessionctl.harness.trees import value_at

HOOK_MS = 5000
"""A hook answers in 0.2 s or not at all; this ends one that hangs."""
EVENTS = ("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd")


def _parts(site: Site) -> list[Part]:
    home = site.folder("GEMINI_CLI_HOME", "")
    env = {**site.settings, "XSESSIOND_HOOKS": "1"}
    server = {"command": site.command, "args": ["mcp"], "env": env}
    groups = {event: [command_hook(site.hook("gemini", event), matcher="*", timeout=HOOK_MS)] for event in EVENTS}
    entries: list[Entry] = [Server(("mcpServers", SERVER), server), Hooks(groups)]
    return [Part(f"{home.rstrip('/')}/.gemini/settings.json", Json(comments=True), entries)]


def _switched_off(trees: Mapping[str, object]) -> list[str]:
    found = []
    for path, tree in trees.items():
        if value_at(tree, ("hooksConfig", "enabled")) is False:
            found.append(f"{path} has `hooksConfig.enabled` false: no hook runs.")
        excluded = value_at(tree, ("mcp", "excluded"))
        allowed = value_at(tree, ("mcp", "allowed"))
        if isinstance(excluded, list) and SERVER in excluded:
            found.append(f"{path} has {SERVER} in `mcp.excluded`.")
        if isinstance(allowed, list) and SERVER not in allowed:
            found.append(f"{path} has `mcp.allowed` without {SERVER}.")
    return found


HARNESS = Harness(
    name="gemini",
    title="Gemini CLI",
    program="gemini",
    programs=(),
    tested=((0, 61, 0), (0, 61, 0)),
    doors=Doors(
        wake="none; started as `xsessionctl run -- gemini`: a line that is typed into its empty composer",
        mid_turn="what a hook adds to a tool's result (AfterTool)",
        own_turn="BeforeAgent, AfterAgent",
        evidence="the next hook of the session",
    ),
    class_source="what you say when you install; it does not tell",
    class_told=False,
    subagents=None,  # its hooks and calls are the same in a subagent
    resume=("gemini", "--resume", "{harness_session_id}"),
    parts=_parts,
    switched_off=_switched_off,
)

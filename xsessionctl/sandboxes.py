"""What a harness's own sandbox needs so that `xsessionctl` works in what an agent runs inside of it.

Laws: the narrowest rule that the harness has on this system, and what it costs if that is more than our socket; nothing
is written. The MCP server is started outside these sandboxes and needs none of it. Refuses to know: whether there is
one.
"""

from __future__ import annotations

import json

from xsessiond.paths import Paths

OUTSIDE = (
    "Both harnesses start the MCP server outside of their sandboxes, so that the tools work without any of this. "
    "It is for `xsessionctl` in commands that an agent runs."
)


def tell_sandboxes(paths: Paths) -> dict[str, object]:
    """What must be reachable, and the rules of each harness for it."""
    mac = paths.platform == "darwin"
    return {
        "connect": [paths.broker_socket],
        "read": [paths.runtime_dir, paths.recorded_link],
        "note": OUTSIDE,
        "rules": [_claude(paths, mac=mac), _codex(paths, mac=mac)],
    }


def _claude(paths: Paths, *, mac: bool) -> dict[str, object]:
    """Claude Code: settings of its Bash sandbox. On Linux that is a filter of system calls, which knows no paths."""
    network = {"allowUnixSockets": [paths.broker_socket]} if mac else {"allowAllUnixSockets": True}
    note = None
    if not mac:
        note = (
            "On Linux it cannot tell sockets apart: this allows every Unix socket that is in reach, also those of "
            'Docker or D-Bus. Narrower: {"sandbox": {"excludedCommands": ["xsessionctl"]}} runs that command outside.'
        )
    text = json.dumps({"sandbox": {"network": network}}, indent=2)
    return {"harness": "claude", "file": "~/.claude/settings.json", "text": text, "note": note}


def _codex(paths: Paths, *, mac: bool) -> dict[str, object]:
    """Codex: a permission profile names the socket on macOS; on Linux commands without network have no sockets."""
    socket = json.dumps(paths.broker_socket)
    if mac:
        lines = [
            'default_permissions = "xsession"',
            "[permissions.xsession]",
            'extends = ":workspace"',
            "[permissions.xsession.network.unix_sockets]",
            f'{socket} = "allow"',
        ]
        note = "Leave sandbox_mode unset: it would replace the profile."
    else:
        lines = ['sandbox_mode = "workspace-write"', "[sandbox_workspace_write]", "network_access = true"]
        note = (
            "On Linux its sandbox has no sockets at all without network access, and no rule for one: this allows all."
        )
    return {"harness": "codex", "file": "~/.codex/config.toml", "text": "\n".join(lines), "note": note}

"""opencode: a plugin, which has the tools and knows each of the sessions that one opencode process runs.

An MCP server would be one for all of them, and be told by none which it is called from. So there is none; where its
user has added ours by hand, the plugin leaves it switched off.

Sources: https://opencode.ai/docs/plugins, /config; that a plugin may have options, as the second of a pair, and which
file is taken where there are several was seen in 1.18.33.
"""

from __future__ import annotations

import os
from pathlib import Path

from xsessionctl.harness.base import Doors, Harness, Part, Site
from xsessionctl.harness.entries import PROGRAM, Element
from xsessionctl.harness.json_edit import Json

PLUGIN = "opencode_plugin.js"
FILES = ("opencode.jsonc", "opencode.json", "config.json")
"""The user's configuration, in the order in which opencode itself takes the first that is there to write to."""


def _parts(site: Site) -> list[Part]:
    folder = f"{site.folder('XDG_CONFIG_HOME', '.config')}/opencode"
    name = next((name for name in FILES if os.path.lexists(f"{folder}/{name}")), FILES[0])
    command = [site.command]
    if site.settings:
        command = ["/usr/bin/env", *(f"{key}={value}" for key, value in site.settings.items()), site.command]
    plugin = [Path(site.data, PLUGIN).as_uri(), {"command": command}]
    entry = Element(("plugin",), plugin, "plugin", _is_ours)
    return [Part(f"{folder}/{name}", Json(comments=True, commas=True), [entry])]


def _is_ours(value: object) -> bool:
    where = value[0] if isinstance(value, list) and value else value
    return isinstance(where, str) and where.endswith(f"/{PROGRAM}/harness/{PLUGIN}")


HARNESS = Harness(
    name="opencode",
    title="opencode",
    program="opencode",
    programs=(".opencode/bin",),
    tested=((1, 18, 33), (1, 18, 33)),
    doors=Doors(
        wake="the plugin posts a prompt (`promptAsync`)",
        mid_turn="the same; the model sees it with its next step",
        own_turn="the same",
        evidence="the plugin sees the prompt in the session, and the step that was given it",
    ),
    class_source="what you say when you install; it does not tell",
    class_told=False,
    subagents="the plugin: the session that calls has a parent",
    resume=("opencode", "--session", "{harness_session_id}"),
    parts=_parts,
)

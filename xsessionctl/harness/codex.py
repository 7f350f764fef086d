"""Codex: an MCP server in its configuration, and hooks that call it.

Codex starts its MCP servers with next to no environment, so what ours has to know is written down with it. Hooks stand
in `hooks.json` or in `config.toml`, and Codex complains where there are some in both: ours go to where the user's are.
A hook is run only once its user has looked at it and trusts it, which nobody does for them.

Sources: https://developers.openai.com/codex/config-reference, /hooks; the environment, the trust and its listing were
seen in 0.171.0. Timeouts are in seconds.
"""

from __future__ import annotations

import os

from xsessionctl.client import ClientError
from xsessionctl.harness import toml_edit
from xsessionctl.harness.asking import exchange
from xsessionctl.harness.base import Doors, Harness, Part, Site
from xsessionctl.harness.entries import SERVER, Hooks, Server
from xsessionctl.harness.finding import VERSION_S, environ_for
from xsessionctl.harness.json_edit import Json
from xsessionctl.harness.json_spans import BadText
from xsessionctl.harness.plans import MOST_BYTES
from xsessionctl.harness.tool_hooks import tool_hook
from xsessionctl.harness.trees import value_at
from xsessionctl.shim.dialects import CODEX
from xsessionctl.user_file import UserFile

HOOK_S = 5
"""A hook answers in 0.2 s or not at all; this ends one that hangs."""
HANDED_ON = ("XDG_CONFIG_HOME", "XDG_STATE_HOME")
"""Variables that say where our own files are and do not reach the server by themselves."""
TRUSTED = "trusted"


def _parts(site: Site) -> list[Part]:
    folder = site.folder("CODEX_HOME", ".codex")
    config, hooks_file = f"{folder}/config.toml", f"{folder}/hooks.json"
    handed_on = {name: site.environ[name] for name in HANDED_ON if site.environ.get(name)}
    env = {"CODEX_HOME": folder, **handed_on, **site.settings}
    server = Server(("mcp_servers", SERVER), {"command": site.command, "args": ["mcp"], "env": env})
    groups = {event: [tool_hook(fields, timeout=HOOK_S)] for event, fields in CODEX.inputs.items()}
    if os.path.exists(hooks_file) or not _has_hooks(config):
        # none of ours in the other place, where the user's may have been when ours were put there
        return [Part(config, toml_edit, [server, Hooks({})]), Part(hooks_file, Json(), [Hooks(groups)])]
    return [Part(config, toml_edit, [server, Hooks(groups)])]


def _has_hooks(config: str) -> bool:
    """Whether hooks stand in the configuration itself. `state` is what Codex remembers of them."""
    try:
        hooks = value_at(toml_edit.parse(UserFile(config, most=MOST_BYTES).text), ("hooks",))
    except (ClientError, BadText):
        return False  # whoever changes the file says what is wrong with it
    return isinstance(hooks, dict) and bool(hooks.keys() - {"state"})


def _advice(site: Site) -> list[str]:
    return [
        "Codex runs new hooks only once you trust them: type /hooks in it, look at those of xsession, and say yes.",
        "It asks before each tool call of xsession. If you do not want that, put "
        f'default_tools_approval_mode = "approve" below [mcp_servers.{SERVER}] in its config.toml yourself.',
    ]


def _inspect(site: Site, program: str) -> list[str]:
    """What Codex says about the trust in our hooks."""
    found = _list_hooks(site, program)
    if found is None:
        return ["Codex does not say whether our hooks are trusted; /hooks in it shows it."]
    ours = [hook for hook in found if hook.get("server") == SERVER]
    waiting = [hook for hook in ours if hook.get("trustStatus") not in (TRUSTED, "managed")]
    if not waiting:
        return []
    return [f"{len(waiting)} of our {len(ours)} hooks are not trusted and do nothing: type /hooks in Codex."]


def _list_hooks(site: Site, program: str) -> list[dict[str, object]] | None:
    """The hooks as Codex sees them; None if it does not answer."""
    requests = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "xsessionctl", "version": "0"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [site.home]}},
    ]
    found = exchange([program, "app-server"], environ_for(program, site), requests, 2, VERSION_S)
    folders = value_at(found, ("data",))
    hooks = value_at(folders, (0, "hooks"))
    return [hook for hook in hooks if isinstance(hook, dict)] if isinstance(hooks, list) else None


HARNESS = Harness(
    name="codex",
    title="Codex",
    program="codex",
    programs=(),
    tested=((0, 171, 0), (0, 171, 0)),
    doors=Doors(
        wake="the app-server that Codex's terminals share (`turn/start`); a terminal without it: Codex's own queue, if "
        "the hooks are trusted",
        mid_turn="the app-server, into the running turn; without it, what a hook adds after a tool (PostToolUse)",
        own_turn="SessionStart, UserPromptSubmit, PostToolUse, Stop",
        evidence="the app-server says that our text is in a turn; of what a hook added, the next hook",
    ),
    class_source="approval policy and sandbox, as the app-server has them, from the first turn on; without it, "
    "`permission_mode` of each hook, and the sandbox that each tool call tells",
    class_told=True,
    subagents="each call: its thread is a subagent's",
    resume=("codex", "resume", "{harness_session_id}"),
    parts=_parts,
    advice=_advice,
    inspect=_inspect,
)

"""Files as they are found in the wild, for each harness, and a HOME to put them in."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from xsessionctl.harness.base import Harness, Part, Site
from xsessionctl.harness.json_spans import BadText
from xsessionctl.harness.known import HARNESSES
from xsessionctl.harness.plans import do, find_states, plan_install, plan_uninstall
from xsessionctl.harness.receipts import Receipts

THEIR_HOOK = {"matcher": "Bash", "hooks": [{"type": "command", "command": "their-hook --fast", "timeout": 3}]}
THEIR_SERVER = {"command": "/opt/their server/bin", "args": ["--x", "{}", "// no comment"], "env": {"KEY": "a,]}"}}


@dataclass
class Home:
    """A user's home with one harness in it. receipts lie beside it."""

    path: Path
    harness: Harness
    environ: Mapping[str, str]
    version: tuple[int, ...] | None = None

    @property
    def site(self) -> Site:
        return Site(
            str(self.path),
            self.environ,
            "/opt/bin/xsessionctl",
            "/opt/lib/xsessionctl/harness",
            version=self.version,
        )

    @property
    def receipts(self) -> Receipts:
        return Receipts(str(self.path.parent / "state"))

    @property
    def files(self) -> list[Path]:
        """The harness's files, there or not."""
        return [Path(part.path) for part in self.harness.parts(self.site)]

    def install(self) -> list[str]:
        """Returns which files were written."""
        steps = plan_install(self.harness, self.site, self.receipts)
        for step in steps:
            do(step, self.receipts)
        return [step.path for step in steps]

    def uninstall(self) -> list[str]:
        """Returns which files were written."""
        steps = plan_uninstall(self.harness, self.site, self.receipts)
        for step in steps:
            do(step, self.receipts)
        return [step.path for step in steps]

    def faults(self) -> dict[str, str]:
        """What of ours is not there or not as it should be."""
        return {what: how for what, how in find_states(self.harness, self.site).items() if how != "installed"}

    def with_version(self, *version: int) -> Home:
        return replace(self, version=version)


def make_home(root: Path, name: str, **environ: str) -> Home:
    """An empty home for a harness."""
    path = root / "home"
    path.mkdir()
    return Home(path, HARNESSES[name], environ)


def tree_of(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that is below a folder: kind, mode and content or target of each."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("folder", mode)
        else:
            found[name] = ("file", mode, path.read_bytes())
    return found


def plain_json(*, indent: int | str | None = 2) -> str:
    """A file with servers and hooks of others in it, and more."""
    value = {
        "theme": "dark",
        "mcpServers": {"theirs": THEIR_SERVER},
        "mcp": {"theirs": {"type": "local", "command": ["x"]}},
        "plugin": ["their-plugin@1.0", ["file:///their/plugin.js", {"x": 1}]],
        "hooks": {"PostToolUse": [THEIR_HOOK], "Stop": [THEIR_HOOK, THEIR_HOOK], "AfterTool": [THEIR_HOOK]},
        "numbers": [1, 2.50, 1e3, "\u00e9\U0001f600"],
    }
    return json.dumps(value, indent=indent, ensure_ascii=False)


COMMENTED = """// my settings
{
    /* first */
    "theme": "dark", // really
    "mcpServers": {
        "theirs": { "command": "/opt/x", "args": [], }, // keep
        // the end
    },
    "mcp": {
        // none yet
    },
    "hooks": {
        "PostToolUse": [
            // lint
            { "matcher": "Bash", "hooks": [ { "type": "command", "command": "a // b" }, ], },
        ],
        "AfterTool": [ /* none */ ],
    },
} // that was it
"""

TEXTS = {
    "plain": plain_json() + "\n",
    "one line": plain_json(indent=None),
    "tabs": plain_json(indent="\t"),
    "four": plain_json(indent=4),
    "deep": json.dumps({"a": [{"b": [[{"c": {"hooks": {"mcpServers": {}}}}]]}]}, indent=8),
    "crlf": plain_json().replace("\n", "\r\n") + "\r\n",
    "mark": "\ufeff" + plain_json(),
    "empty objects": '{\n  "mcpServers": {},\n  "mcp": {},\n  "plugin": [],\n  "hooks": {\n    "Stop": []\n  }\n}\n',
    "braces": "{}",
    "braces on lines": "{\n}\n",
    "nothing": "",
    "blank": "\n\n",
    "odd": '{"hooks"  :\n\n{ "PostToolUse":[]\n}   ,"mcpServers" :{\n\n\n},"plugin":[\n\n"x"] }',
    "comments": COMMENTED.replace(",\n    },", "\n    },").replace(", }", " }").replace(",\n        ]", "\n        ]"),
    "comments and commas": COMMENTED,
    "comments and crlf": COMMENTED.replace("\n", "\r\n"),
    "a comment": "// later\n",
}
PLAIN_TOML = """# my settings
model = "x"   # the good one

[mcp_servers.theirs] # a comment
command = '/opt/their server'
args = ["--x", "# no comment"]
env = { KEY = "a,]}" }

[[skills]]
name = "a"
[[skills]]
name = "b"

[projects."/src/a b"]
trust_level = "trusted"
"""
TOML_TEXTS = {
    "plain": PLAIN_TOML,
    "one line": 'mcp_servers = { theirs = { command = "x" } }\n',
    "tabs": '[mcp_servers.theirs]\n\tcommand\t=\t"x"\n\n\n',
    "four": '[mcp_servers]\n    [mcp_servers.theirs]\n    command = "x"\n',
    "deep": 'mcp_servers.theirs.command = "x"\nmodel = "y"\n',
    "crlf": PLAIN_TOML.replace("\n", "\r\n"),
    "mark": "\ufeff" + PLAIN_TOML,
    "empty objects": "[mcp_servers]\n\n[hooks]\n",
    "braces": "mcp_servers = {}\n",
    "braces on lines": PLAIN_TOML.rstrip(),
    "nothing": "",
    "blank": "\n\n",
    "odd": '[[hooks.Stop]]\nmatcher = ""\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "theirs"\n[z]\ny = 1\n',
    "comments": "# one\n\n# two\n[mcp_servers]\n# none yet\n",
    "comments and commas": 'a = [\n  1, # one\n]\n[mcp_servers.theirs]\ncommand = "x"\n# the end',
    "comments and crlf": "# one\r\n\r\n# two\r\n[mcp_servers]\r\n# none yet\r\n",
    "a comment": "# later\n",
}


def text_for(part: Part, name: str) -> str | None:
    """The text of this name for such a file; None if its own program could not read it."""
    text = (TOML_TEXTS if part.path.endswith(".toml") else TEXTS)[name]
    try:
        part.form.parse(text.removeprefix("\ufeff"))
    except BadText:
        return None
    return text

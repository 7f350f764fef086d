"""A harness of any kind in a terminal, with this product put into its HOME by `xsessionctl install`, as users do it.

Only what every harness has is here. What one of them alone has is in its own tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import poll

from .claude_code import ASKS
from .codex_daemon import start_daemon, trust_hooks
from .fakemodel import FakeModel
from .runner import START_SECONDS, HarnessSession, open_session
from .terminal import Terminal

PROGRAM = Path(sysconfig.get_path("scripts")) / "xsessionctl"
ARGUMENTS = {"claude": ASKS, "codex": ("-a", "on-request")}
"""With which a session asks before it acts, where it would not by itself."""


@dataclass(frozen=True)
class Agent:
    """An interactive session, idle after its first turn."""

    broker: PrivateBroker
    session: HarnessSession
    terminal: Terminal

    @property
    def model(self) -> FakeModel:
        """Its scripted model."""
        return self.session.model

    def row(self, **wanted: object) -> dict[str, Any]:
        """Its row in `list`, once that says what is wanted."""

        def look() -> dict[str, Any]:
            rows = json.loads(self.broker.ctl("list", "--json").stdout)["sessions"]
            row: dict[str, Any] = next((row for row in rows if row["harness"] == self.session.name), {})
            return row

        return poll(look, lambda row: row and wanted.items() <= row.items(), within_s=START_SECONDS)


def install(session: HarnessSession, variables: Mapping[str, str]) -> None:
    """As its user does it, who also lets the model call our tools without being asked."""
    path = os.pathsep.join([str(session.command.parent), session.environment["PATH"]])
    done = subprocess.run(
        [str(PROGRAM), "install", session.name, "--yes"],
        env={**session.environment, **variables, "PATH": path},
        cwd=session.work,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    allow = {"codex": _let_codex_call, "gemini": _let_gemini_call}.get(session.name)  # ASKS says it to Claude Code
    if allow is not None:
        allow(session.home)


def _let_codex_call(home: Path) -> None:
    path = home / ".codex" / "config.toml"
    table = "[mcp_servers.xsession]"
    path.write_text(path.read_text().replace(table, f'{table}\ndefault_tools_approval_mode = "approve"'))


def _let_gemini_call(home: Path) -> None:
    path = home / ".gemini" / "settings.json"
    settings = json.loads(path.read_text())
    settings["mcpServers"]["xsession"]["trust"] = True
    path.write_text(json.dumps(settings))


@contextmanager
def open_agent(harness: str, broker: PrivateBroker) -> Iterator[Agent]:
    """A session of this harness at this broker, of the prompting class if the broker's settings say so of those that
    do not tell."""
    with open_session(harness, variables=broker.directories()) as session:
        install(session, broker.directories())
        if harness == "codex":
            start_daemon(session.command, session.environment)
            assert set(trust_hooks(session.home, session.work)) == {"trusted"}
        terminal = session.open_terminal("send_message", *ARGUMENTS.get(harness, ()))
        yield Agent(broker, session, terminal)

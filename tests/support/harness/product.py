"""Our product in a harness, put there as its user does it."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from .runner import HarnessSession

PROGRAM = Path(sysconfig.get_path("scripts")) / "xsessionctl"


def install(session: HarnessSession, variables: Mapping[str, str] | None = None) -> None:
    """As its user does it, who also lets the model call our tools without being asked."""
    path = os.pathsep.join([str(session.command.parent), session.environment["PATH"]])
    done = subprocess.run(
        [str(PROGRAM), "install", session.name, "--yes"],
        env={**session.environment, **(variables or {}), "PATH": path},
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

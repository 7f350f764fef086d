"""`xsessionctl install` and the harnesses' own CLIs: what was written is what they read, and it goes again."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness.runner import HarnessSession, open_session

pytestmark = [pytest.mark.harness, pytest.mark.slow, pytest.mark.timeout(900)]  # the first run installs the CLIs

PROGRAM = Path(sysconfig.get_path("scripts")) / "xsessionctl"


@pytest.fixture
def claude() -> Iterator[HarnessSession]:
    with open_session("claude") as session:
        yield session


def ctl(session: HarnessSession, *words: str) -> dict[str, object]:
    """What our command says in the user's environment, with the CLI in PATH, as in a terminal of theirs."""
    path = os.pathsep.join([str(session.command.parent), session.environment["PATH"]])
    done = run([str(PROGRAM), *words, "--json"], session, {**session.environment, "PATH": path})
    found = json.loads(done)
    assert isinstance(found, dict)
    return found


def ask(session: HarnessSession, *words: str) -> str:
    """What the harness's own command says."""
    return run([str(session.command), *words], session, session.environment)


def run(argv: list[str], session: HarnessSession, environ: dict[str, str]) -> str:
    done = subprocess.run(argv, cwd=session.work, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_claude_code_reads_what_was_written(claude: HarnessSession) -> None:
    """I4: the absolute path of the installed command, and the server comes up."""
    done = ctl(claude, "install", "claude", "--yes")
    assert done["written"] is True
    listed = ask(claude, "mcp", "get", "xsession")
    assert f"Command: {PROGRAM}" in listed
    assert "Connected" in listed
    [row] = ctl(claude, "install", "--status", "claude")["harnesses"]  # type: ignore[misc]
    assert (row["state"], row["version"], row["tested"]) == ("installed", "2.1.332", True)
    # Claude Code has rewritten its own file since: ours goes all the same
    ctl(claude, "uninstall", "claude", "--yes")
    assert "xsession" not in (claude.home / ".claude.json").read_text()
    assert "hooks" not in json.loads((claude.home / ".claude" / "settings.json").read_text())

"""`xsessionctl install` and the harnesses' own CLIs: what was written is what they read, and it goes again."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness.install import PACKAGES
from tests.support.harness.runner import START_SECONDS, HarnessSession, open_session

pytestmark = [pytest.mark.harness, pytest.mark.slow, pytest.mark.timeout(900)]  # the first run installs the CLIs

PROGRAM = Path(sysconfig.get_path("scripts")) / "xsessionctl"
HARNESSES = ("claude", "codex", "opencode", "gemini")


@pytest.fixture(params=HARNESSES)
def session(request: pytest.FixtureRequest) -> Iterator[HarnessSession]:
    with open_session(request.param) as opened:
        yield opened


def ctl(session: HarnessSession, *words: str) -> dict[str, object]:
    """What our command says of the harness, in the user's environment, with the CLI in PATH."""
    path = os.pathsep.join([str(session.command.parent), session.environment["PATH"]])
    done = run([str(PROGRAM), *words, session.name, "--json"], session, {**session.environment, "PATH": path})
    document = json.loads(done.stdout)
    [row] = document.get("harnesses", [document])
    assert isinstance(row, dict)
    return row


def ask(session: HarnessSession, *words: str) -> str:
    """What the harness's own command says."""
    done = run([str(session.command), *words], session, session.environment)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def run(argv: list[str], session: HarnessSession, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=session.work, env=environ, capture_output=True, text=True, timeout=120, check=False)


def listing(session: HarnessSession) -> str:
    """What the CLI itself shows of our entries."""
    match session.name:
        case "claude" | "codex":
            return ask(session, "mcp", "get", "xsession")
        case "opencode":
            return ask(session, "debug", "config")
        case _:
            return ask(session, "mcp", "list")


def test_the_harness_reads_what_was_written_and_works_with_it(session: HarnessSession) -> None:
    """I4: the absolute path of the installed command, from which the server comes up; no hook fails."""
    before = settings_of(session)
    done = ctl(session, "install", "--yes")
    assert (done["version"], done["tested"]) == (PACKAGES[session.name].version, True)
    assert str(PROGRAM) in listing(session)
    if session.name in ("claude", "gemini"):  # these start the server to look
        assert "Connected" in listing(session)
    status = ctl(session, "install", "--status")
    assert status["state"] == "installed"
    notes = status["notes"]
    assert notes == (
        ["5 of our 5 hooks are not trusted and do nothing: type /hooks in Codex."] if session.name == "codex" else []
    )

    ended = session.start("hello")
    request = session.model.wait_for_end(START_SECONDS)
    finished = ended.wait(START_SECONDS)
    assert finished.returncode == 0
    assert "hook" not in finished.stderr.lower()
    if session.name == "gemini":  # without somebody to ask it offers no tools that it would ask about
        assert request.matches("Other agent sessions of the same user can be found with list_agents")
    else:
        assert request.offers("send_message")

    ctl(session, "uninstall", "--yes")
    after = settings_of(session)
    assert [name for name, text in after.items() if b"xsession" in text] == []
    own = session.home / ".claude.json"  # which Claude Code has written itself since
    assert [name for name in before if after[name] != before[name] and name != own] == []


def settings_of(session: HarnessSession) -> dict[Path, bytes]:
    """The harness's settings files, by what they say."""
    folders = (session.home, session.home / f".{session.name}", session.home / ".config" / session.name)
    found = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
    return {path: path.read_bytes() for path in found if path.suffix in (".json", ".jsonc", ".toml")}


@pytest.mark.parametrize("name", HARNESSES)
def test_the_harness_reads_its_own_file_with_comments_and_ours_in_it(name: str) -> None:
    """Where it knows comments at all: they stay, and it goes on reading the file."""
    with open_session(name) as session:
        path = {
            "codex": session.home / ".codex" / "config.toml",
            "opencode": session.home / ".config" / "opencode" / "opencode.json",
            "gemini": session.home / ".gemini" / "settings.json",
        }.get(name)
        if path is None:
            state = session.home / ".claude.json"
            state.write_text("// mine\n" + state.read_text())
            before = state.read_text()
            assert "error" in ctl(session, "install", "--yes")
            assert state.read_text() == before
            return
        mark = "#" if name == "codex" else "//"
        path.write_text(f"{mark} mine\n{path.read_text()}\n{mark} the end\n".replace("\n", "\r\n"))
        before_bytes = path.read_bytes()
        ctl(session, "install", "--yes")
        assert path.read_bytes() != before_bytes
        assert str(PROGRAM) in listing(session)
        ctl(session, "uninstall", "--yes")
        assert path.read_bytes() == before_bytes

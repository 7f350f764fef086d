"""xsessionctl.harness.finding and asking: other programs are asked, within bounds, and nothing of theirs stays."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from xsessionctl.client import ClientError
from xsessionctl.harness.asking import exchange, run_program
from xsessionctl.harness.base import Site
from xsessionctl.harness.finding import (
    ask_version,
    describe,
    find_command,
    find_data,
    find_ephemeral,
    find_program,
    settings_for,
)
from xsessionctl.harness.known import HARNESSES


def make(path: Path, script: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return str(path)


def site(home: Path, **environ: str) -> Site:
    return Site(str(home), {"PATH": os.defpath, **environ}, "/x/xsessionctl", "/x")


@pytest.mark.parametrize(
    "says, version",
    [
        ("2.1.332 (Claude Code)", (2, 1, 332)),
        ("codex-cli 0.171.0-alpha.2", (0, 171, 0)),
        ("node v1.2.3\n4.5.6", (1, 2, 3)),
        ("no number", None),
        ("1.2", None),
        ("", None),
    ],
)
def test_a_version_is_read_off_whatever_is_said(says: str, version: tuple[int, ...] | None, tmp_path: Path) -> None:
    program = make(tmp_path / "x", f"printf '%s' '{says}'")
    assert ask_version(program, site(tmp_path)) == version


def test_a_program_is_found_where_a_bare_path_has_it_not(tmp_path: Path) -> None:
    """I1: as from cron. PATH goes first."""
    harness = HARNESSES["opencode"]
    assert find_program(harness, site(tmp_path)).path is None
    elsewhere = make(tmp_path / ".opencode" / "bin" / "opencode", "echo 1.2.3")
    assert find_program(harness, site(tmp_path)) == (elsewhere, (1, 2, 3))
    assert find_program(harness, site(tmp_path), version=False) == (elsewhere, None)
    in_path = make(tmp_path / "bin2" / "opencode", "echo 3.2.1")
    assert find_program(harness, site(tmp_path, PATH=str(tmp_path / "bin2"))).path == in_path


def test_a_script_finds_its_interpreter_beside_it(tmp_path: Path) -> None:
    """As node's, which a version manager puts there alone."""
    make(tmp_path / "interpreter", "echo 7.7.7")
    program = tmp_path / "claude"
    program.write_text("#!/usr/bin/env interpreter\n")
    program.chmod(0o700)
    assert ask_version(str(program), site(tmp_path)) == (7, 7, 7)


@pytest.mark.slow
def test_a_program_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    program = make(tmp_path / "x", f"echo $$ >{tmp_path}/pid; sleep 600 & wait")
    began = time.monotonic()
    assert run_program([program], dict(os.environ), 1.0) is None
    assert time.monotonic() - began < 20
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_a_program_that_cannot_be_started_says_nothing(tmp_path: Path) -> None:
    assert run_program([str(tmp_path / "none")], {}, 5.0) is None
    assert exchange([str(tmp_path / "none")], {}, [], 1, 5.0) is None


ANSWERS = "import sys, json\nfor line in sys.stdin:\n    request = json.loads(line)\n"


@pytest.mark.parametrize(
    "body, answer",
    [
        ("    print(json.dumps({'id': request['id'], 'result': [request['id']]}), flush=True)", [2]),
        ("    print('not json\\n[1]', flush=True); print(json.dumps({'id': 2, 'result': 7}), flush=True)", 7),
        ("    print(json.dumps({'id': 2, 'error': {}}), flush=True)", None),
        ("    break", None),
        ("    pass", None),
    ],
    ids=["answers", "talks", "refuses", "ends", "is silent"],
)
def test_one_answer_is_waited_for(body: str, answer: object) -> None:
    argv = [sys.executable, "-c", ANSWERS + body]
    assert exchange(argv, {}, [{"id": 1}, {"id": 2}], 2, 3.0 if body != "    pass" else 0.5) == answer


def test_what_is_written_is_absolute_and_there() -> None:
    """I4: no cold start by a package runner; the installed program itself."""
    path = find_command({"PATH": "/nowhere"})
    assert os.path.isabs(path)
    assert os.access(path, os.X_OK)
    for name in ("hook.sh", "opencode_plugin.js", "opencode_bridge.js"):
        assert Path(find_data(), name).is_file()


def test_without_an_installed_command_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/bin/python")
    monkeypatch.setattr(sys, "argv", ["-c"])
    with pytest.raises(ClientError, match="is not installed: /nowhere/bin/xsessionctl is not there"):
        find_command({"PATH": "/nowhere"})


@pytest.mark.parametrize(
    "path, passing",
    [
        ("/home2/u/.cache/uv/archive-v0/Xy/bin/xsessionctl", True),
        ("/home2/u/.local/pipx/.cache/ab/bin/xsessionctl", True),
        ("/tmp/venv2/bin/xsessionctl", True),
        ("/home2/u/.local/share/uv/tools/xsessiond/bin/xsessionctl", False),
        ("/home2/u/.local/pipx/venvs/xsessiond/bin/xsessionctl", False),
        ("/tmpfs/bin/xsessionctl", False),
    ],
)
def test_a_place_that_will_be_gone_is_warned_of(path: str, *, passing: bool) -> None:
    found = find_ephemeral(path)
    assert (found is not None) is passing
    assert found is None or path in found


def test_only_our_own_places_are_handed_on() -> None:
    environ = {"XSESSIOND_STATE_DIR": "/s", "XSESSIOND_NAME": "api", "XSESSIOND_CONFIG_DIR": "", "PATH": "/bin"}
    assert settings_for(environ) == {"XSESSIOND_STATE_DIR": "/s"}
    assert (describe((1, 2, 3)), describe(None)) == ("1.2.3", "unknown version")

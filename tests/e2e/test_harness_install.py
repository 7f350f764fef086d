"""Installing the pinned CLIs: once, whole or not at all, with a reason where it cannot be done. npm is a stand-in."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.harness.install import PACKAGES, HarnessUnavailable, install_package, require_harness

COUNTING = 'echo "$@" >>"$NPM_CALLS"; mkdir node_modules'
FAILING = "echo no such version >&2; mkdir node_modules; exit 1"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a PATH on which only a test's own npm is found; the file in which it counts its calls."""
    calls = tmp_path / "calls"
    monkeypatch.setenv("XSESSIOND_TEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("NPM_CALLS", str(calls))
    return calls


def put_npm(tmp_path: Path, script: str) -> None:
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir(exist_ok=True)
    npm.write_text(f"#!/bin/sh\nPATH={os.defpath}\n{script}\n")
    npm.chmod(0o700)


def test_many_runs_at_once_install_once(tmp_path: Path, calls: Path) -> None:
    put_npm(tmp_path, COUNTING)
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(install_package, ["codex"] * 8))
    assert found == {tmp_path / "cache" / "harness" / f"codex-{PACKAGES['codex'].version}"}
    assert (found.pop() / "node_modules").is_dir()
    [call] = calls.read_text().splitlines()
    assert call.endswith(f"@openai/codex@{PACKAGES['codex'].version}")


def test_a_failed_install_leaves_nothing_and_may_be_tried_again(tmp_path: Path, calls: Path) -> None:
    put_npm(tmp_path, FAILING)
    with pytest.raises(HarnessUnavailable, match="no such version"):
        install_package("codex")
    put_npm(tmp_path, COUNTING)
    assert install_package("codex").is_dir()


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize("ci, outcome", [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_without_npm_a_test_is_skipped_but_fails_in_ci(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="npm was not found"):
        require_harness("claude")

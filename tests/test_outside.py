"""A test run that an agent started hands over to one that it did not, and nothing else about it changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.human import require_outside
from tests.support.outside import VARIABLE

pytestmark = pytest.mark.slow

PROBE = """
import os, sys
from tests.support.human import below_agent

def test_probe():
    print("below an agent:", below_agent(), "in", os.getcwd(), "mark:", os.environ.get("CLAUDECODE"))
    assert {holds}
"""


@pytest.mark.parametrize("holds, code", [(True, 0), (False, 1)])
def test_a_run_below_an_agent_is_handed_over(tmp_path: Path, holds: bool, code: int) -> None:  # noqa: FBT001
    """With its words, its folder, its output and its exit code."""
    require_outside()
    root = Path(__file__).parents[1]
    probe = tmp_path / "test_probe.py"
    probe.write_text(PROBE.format(holds=holds))
    environ = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "tests.conftest", "-p", "no:cacheprovider", str(probe)],
        cwd=tmp_path,
        env={**environ, "CLAUDECODE": "1", "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert f"below an agent: False in {tmp_path} mark: None" in done.stdout
    assert ("1 passed" if holds else "1 failed") in done.stdout

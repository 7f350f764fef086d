"""kill -9 at random points loses nothing that was committed and leaves nothing half."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent


def kill(directory: Path, rounds: int, durability: str, timeout: float) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.store.killed", str(directory), str(rounds), "7", durability],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= rounds


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_fifty_kills(tmp_path: Path, durability: str) -> None:
    """L13: whatever `commit` returned for is there, and the store is sound, after each of 25 kills."""
    kill(tmp_path / "state", 25, durability, 50)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("durability", ["full", "normal"])
def test_a_thousand_kills(tmp_path: Path, durability: str) -> None:
    """L13: the same, 500 times for each durability."""
    kill(tmp_path / "state", 500, durability, 580)

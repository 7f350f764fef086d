"""opencode's plugin in node, with a client and a bridge that do as they are told. With the real opencode: tests/e2e."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import xsessionctl

CASES = Path(__file__).with_name("opencode_cases.mjs")
NAMES = re.findall(r'^  async "(.+)"\(\) \{$', CASES.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str]:
    """The names of the cases that passed, and what was said of the one that did not."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    folder = tmp_path_factory.mktemp("plugin")
    for source in (Path(xsessionctl.__file__).parent / "harness").glob("*.js"):
        shutil.copy(source, folder)
    # opencode takes such a file for a module by itself.
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    argv = [node, str(CASES), str(folder / "opencode_plugin.js")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=50, check=False)
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_case_of_the_plugin(name: str, ran: tuple[list[str], str]) -> None:
    passed, problem = ran
    assert name in passed, problem


def test_no_case_was_overlooked(ran: tuple[list[str], str]) -> None:
    assert ran[0] == NAMES

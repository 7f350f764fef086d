"""Each case of the bench runs, in its smallest form. No figure is judged here."""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.bench.cases import CASES

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.timeout(180)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the bench reads /proc")
@pytest.mark.skipif(shutil.which("cc") is None, reason="the load generator is compiled")
@pytest.mark.parametrize("case", list(CASES))
def test_case_runs(case: str, tmp_path: pathlib.Path) -> None:
    figures = tmp_path / "figures.json"
    argv = [sys.executable, "-m", "tests.bench", "--smoke", "--json", str(figures), case]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = json.loads(figures.read_text())["lines"]
    assert lines
    assert all(line["case"] == case for line in lines)
    assert done.stdout.count(f"| {case} ") == len(lines)

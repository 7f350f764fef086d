"""Check that each module of the core is wholly covered, lines and branches, by its own test file alone.

Run as ``python -m tests.support.cover_core [MODULE...]`` in the repository's root. A module that is covered only
because some other test happens to pass through it has no test that says what it promises; so each gets a run of its
own, of ``tests/core/test_MODULE.py`` and ``tests/core/test_MODULE_*.py``, in the quick tier.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CORE = Path("xsessiond/core")
TESTS = Path("tests/core")


def own_tests(module: str) -> list[Path]:
    """Return the test files of the core module of that name."""
    return [path for path in (TESTS / f"test_{module}.py", *sorted(TESTS.glob(f"test_{module}_*.py"))) if path.exists()]


def cover(module: str) -> str:
    """Run the tests of one core module; return "" when they pass and cover it wholly, else what is wrong."""
    tests = own_tests(module)
    if not tests:
        return f"{module}: has no tests/core/test_{module}.py\n"
    with tempfile.TemporaryDirectory() as directory:
        coverage = [sys.executable, "-m", "coverage"]
        include = ["--data-file", f"{directory}/data", "--include", str(CORE / f"{module}.py")]
        quietly = ["-q", "-p", "no:cacheprovider"]
        tested = _run([*coverage, "run", "--branch", *include, "-m", "pytest", *quietly, *map(str, tests)])
        if tested.returncode:
            return f"{module}: its own tests fail\n{tested.stdout}{tested.stderr}"
        report = _run([*coverage, "report", *include, "--fail-under=100", "--show-missing"])
    return "" if report.returncode == 0 else f"{module}: is not wholly covered by its own tests\n{report.stdout}"


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    reproducible = {**os.environ, "CI": "true"}  # the same examples in every run: see tests/conftest.py
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=reproducible)


def main(arguments: list[str]) -> int:
    """Check the named modules, or all; print a line for each; return the exit code."""
    modules = arguments or sorted(path.stem for path in CORE.glob("*.py") if path.stem != "__init__")
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for a process of its own
        for module, problem in zip(modules, pool.map(cover, modules), strict=True):
            failed += bool(problem)
            print(problem or f"{module}: wholly covered", flush=True)
    print(f"{len(modules) - failed} of {len(modules)} modules of the core are wholly covered by their own tests")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

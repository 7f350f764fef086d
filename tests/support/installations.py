"""Installations of other versions: each a virtual environment with its own interpreter and its own packages.

`patched` has this tree with another version, protocol or store format; `of_commit` a wheel that was built from the
repository's history. Both share the libraries of the environment that the tests run in.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]


def patched(
    into: Path, *, version: str, protocol: int | None = None, newer_store: bool = False, without: tuple[str, ...] = ()
) -> str:
    """Install this tree as another version; return its interpreter. newer_store: it knows one format more. without:
    methods of the wire that it does not know."""
    packages = into / "packages"
    for name in ("xsessiond", "xsessionctl"):
        shutil.copytree(ROOT / name, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    _change(packages / "xsessiond/__init__.py", r'__version__ = "[^"]*"', f'__version__ = "{version}"')
    if protocol is not None:
        _change(packages / "xsessiond/core/limits.py", r"\nPROTOCOL = \d+\n", f"\nPROTOCOL = {protocol}\n")
        _change(packages / "xsessionctl/fast.py", r'"protocol":\d+', f'"protocol":{protocol}')
    if newer_store:
        path = packages / "xsessiond/store/schema.py"
        _change(path, r'\n\)\n"""Step n makes', '\n    ("CREATE TABLE future (x)",),\n)\n"""Step n makes')
    for method in without:
        _change(packages / "xsessiond/core/wire.py", f'tag="{method}"', f'tag="no-{method}"')
    return _environment(into, packages)


def of_commit(into: Path, revision: str) -> str:
    """Build the wheel of a commit, install it, and return its interpreter. Skips the test without git, that commit, or
    what building needs. The history is this tree's, or that in XSESSIOND_TEST_HISTORY, where this is a copy without."""
    history = os.environ.get("XSESSIOND_TEST_HISTORY", str(ROOT))
    source = into / "source"
    source.mkdir(parents=True)
    archive = into / "source.tar"
    git = ["git", "-c", f"safe.directory={history}", "-C", history]
    git += ["archive", "--format=tar", f"--output={archive}", revision]
    if not Path(history, ".git").exists() or shutil.which("git") is None or subprocess.run(git, check=False).returncode:
        pytest.skip("there is no history here to take an older version from")
    shutil.unpack_archive(archive, source, filter="data")
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(into), str(source)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if built.returncode:
        pytest.skip(f"no wheel can be built here: {built.stderr[-500:]}")
    (wheel,) = into.glob("*.whl")
    with ZipFile(wheel) as file:
        file.extractall(into / "packages")
    return _environment(into, into / "packages")


def _environment(into: Path, packages: Path) -> str:
    venv.create(into / "venv", symlinks=True, with_pip=False)
    (site,) = (into / "venv").glob("lib/python*/site-packages")
    # Lines are searched in order, and `.pth` files in the second are not read: this tree itself is not found there.
    (site / "other.pth").write_text(f"{packages}\n{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    return str(into / "venv/bin/python")


def _change(path: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement.replace("\\", r"\\"), path.read_text(encoding="utf-8"))
    assert count == 1, f"{path} has changed, and this hook must follow: {pattern}"
    path.write_text(text, encoding="utf-8")

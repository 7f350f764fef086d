"""The product as users have it: a wheel, built from this repository, in a virtual environment without the repository.

What it depends on is not installed again: it comes from the environment that runs the tests.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build_wheel(into: Path, source: Path = ROOT) -> Path:
    """Build the wheel of a source tree, offline, and return where it is."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [*command, "--wheel-dir", str(into), str(source)], check=True, timeout=120, capture_output=True, cwd=into
    )
    (wheel,) = into.glob("xsessiond-*.whl")
    return wheel


def dependencies() -> Path:
    """Return the directory that what is installed here takes its dependencies from."""
    return Path(sysconfig.get_path("purelib"))


def install_wheel(wheel: Path, place: Path, *, seen_as: str | None = None) -> Path:
    """Install a wheel into a new virtual environment at `place`; return its directory of programs. seen_as: where that
    will be when it is used, if not there; its dependencies are then at `seen_as`-dependencies."""
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python3"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, str(wheel)], check=True, timeout=120, capture_output=True)
    (packages,) = place.glob("lib/python*/site-packages")
    others = dependencies() if seen_as is None else f"{seen_as}-dependencies"
    (packages / "dependencies.pth").write_text(f"{others}\n")
    if seen_as is None:
        return place / "bin"
    for script in ("xsessiond", "xsessionctl"):
        text = (place / "bin" / script).read_text()
        (place / "bin" / script).write_text(text.replace(str(place), seen_as))
    return Path(seen_as, "bin")

"""The file that is the command `xsessionctl`, in every way that installers lay it out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import xsessionctl
from tests.support.private_broker import PrivateBroker

PACKAGES = Path(xsessionctl.__file__).parent.parent
COMMAND = PACKAGES / "xsessionctl" / "bin" / "xsessionctl"
PLACE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
BESIDE = {
    "plain": f"#!{sys.executable}\n",
    "with flags": f"#!{sys.executable} -s\n",
    "of the system": "#!/usr/bin/env python3\n",
    "through a shell": f"""#!/bin/sh\n'''exec' "{sys.executable}" "$0" "$@"\n' '''\n""",
    "missing": "",
}
"""What stands in `xsessiond`, beside the command: forms that pip, uv and distributions write."""


def lay_out(root: Path, beside: str) -> Path:
    """Make an installation in `root`; returns its command."""
    (root / "bin").mkdir(parents=True)
    command = root / "bin" / "xsessionctl"
    shutil.copy(COMMAND, command)
    command.chmod(0o755)
    if beside:
        (root / "bin" / "xsessiond").write_text(beside)
    (root / "bin" / "python3").symlink_to(sys.executable)
    return command


def copy_packages(root: Path) -> None:
    """Put our packages where a wheel's are."""
    for name in ("xsessionctl", "xsessiond"):
        (root / PLACE).mkdir(parents=True, exist_ok=True)
        (root / PLACE / name).symlink_to(PACKAGES / name)


def ask(command: Path | str, place: PrivateBroker, *words: str) -> object:
    done = subprocess.run(
        [str(command), *words, "--json"], capture_output=True, cwd="/", env=place.environ(), timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout)


@pytest.mark.parametrize("beside", BESIDE.values(), ids=BESIDE)
@pytest.mark.parametrize("name", ["plain", "with blanks in it"])
def test_it_finds_its_interpreter_and_its_packages(
    shared: PrivateBroker, tmp_path: Path, name: str, beside: str
) -> None:
    command = lay_out(tmp_path / name, beside)
    copy_packages(tmp_path / name)
    assert ask(command, shared, "list") == ask(sys.executable, shared, "-m", "xsessionctl", "list")


def test_it_is_found_through_links(shared: PrivateBroker, tmp_path: Path) -> None:
    """As `pipx` and `uv tool` put it on PATH."""
    command = lay_out(tmp_path / "real", BESIDE["plain"])
    copy_packages(tmp_path / "real")
    (tmp_path / "first").symlink_to(command)
    (tmp_path / "second").symlink_to("first")  # relative, as some write it
    assert ask(tmp_path / "second", shared, "list")


def test_it_follows_an_editable_installation(shared: PrivateBroker, tmp_path: Path) -> None:
    command = lay_out(tmp_path, BESIDE["plain"])
    (tmp_path / PLACE).mkdir(parents=True)
    (tmp_path / PLACE / "_editable_impl_xsessiond.pth").write_text(str(PACKAGES))
    assert ask(command, shared, "list")


def test_packages_that_lie_elsewhere_are_found_by_python_itself(shared: PrivateBroker, tmp_path: Path) -> None:
    """As in a distribution's own package: what `site` knows is asked last."""
    command = lay_out(tmp_path, BESIDE["plain"])
    assert ask(command, shared, "list")


def test_the_full_command_line_has_all_that_is_installed(broker: PrivateBroker) -> None:
    """click lies where `site` says, which the cheap forms leave out."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "xsessionctl"), "--version"],
        capture_output=True,
        text=True,
        env=broker.environ(),
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("xsessionctl ")


def test_modules_beside_it_and_where_one_stands_are_not_loaded(shared: PrivateBroker, tmp_path: Path) -> None:
    """A stray module in ~/.local/bin, or in the folder of a project, is nobody's."""
    command = lay_out(tmp_path, BESIDE["plain"])
    copy_packages(tmp_path)
    for folder in (tmp_path / "bin", tmp_path):
        for name in ("json.py", "_json.py", "xsessionctl.py", "xsessiond.py"):
            (folder / name).write_text("raise SystemExit('loaded by mistake')")
    done = subprocess.run(
        [str(command), "list", "--json"],
        capture_output=True,
        cwd=tmp_path,
        env=shared.environ(),
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")

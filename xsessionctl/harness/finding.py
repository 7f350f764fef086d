"""Which harnesses this machine has, and which of our own programs they are to start.

Laws: a harness's program is started for its version only, with a deadline and no terminal, and what it says is looked
at for a number and nothing else; what is written into other programs' files is absolute. Refuses to know: their
files.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

from xsessionctl.client import ClientError
from xsessionctl.harness.asking import run_program
from xsessionctl.harness.base import Harness, Site, Version
from xsessionctl.harness.entries import PROGRAM
from xsessiond.paths import PLACE_VARIABLES

VERSION_S = 15.0
"""How long a harness may take to say its version. Those that run on node take two seconds on a busy machine."""
ANYWHERE = (".local/bin", ".npm-global/bin", ".bun/bin", ".volta/bin", "bin", "/usr/local/bin", "/opt/homebrew/bin")
"""Where programs are that a bare PATH, as in cron, does not have. Relative ones are below the home directory."""
_VERSION = re.compile(r"(?<![\d.])(\d+)\.(\d+)\.(\d+)")
_EPHEMERAL = ("/uv/archive-v", "/uv/builds-v", "/uv/environments-v", "/pipx/.cache/")
"""What paths have in them when a tool runs a program once (uvx, pipx run) and throws it away later."""


class Found(NamedTuple):
    """A harness's program. path: None where there is none. version: None where it does not say."""

    path: str | None
    version: Version | None


def find_program(harness: Harness, site: Site, *, version: bool = True) -> Found:
    """The harness's program, and if asked for its version, by `--version`."""
    folders = [*harness.programs, *ANYWHERE]
    places = [os.path.join(site.home, folder) for folder in folders]
    path = shutil.which(harness.program, path=site.environ.get("PATH", os.defpath)) or shutil.which(
        harness.program, path=os.pathsep.join(places)
    )
    return Found(path, ask_version(path, site) if path is not None and version else None)


def ask_version(path: str, site: Site) -> Version | None:
    """What a program says its version is."""
    said = run_program([path, "--version"], environ_for(path, site), VERSION_S)
    found = _VERSION.search(said or "")
    return None if found is None else tuple(map(int, found.groups()))


def environ_for(path: str, site: Site) -> dict[str, str]:
    """The environment to start a harness's program in. One that is a script looks for its interpreter, which may lie
    beside it."""
    search = os.pathsep.join([site.environ.get("PATH", os.defpath), os.path.dirname(path)])
    return {**site.environ, "HOME": site.home, "PATH": search}


def describe(version: Version | None) -> str:
    """A version as people write it."""
    return "unknown version" if version is None else ".".join(map(str, version))


def find_command(environ: Mapping[str, str]) -> str:
    """The absolute path of this `xsessionctl`. Raises ClientError."""
    beside = os.path.join(os.path.dirname(sys.executable), PROGRAM)
    started = os.path.abspath(sys.argv[0])
    candidates = [beside, *([started] if os.path.basename(started) == PROGRAM else [])]
    elsewhere = shutil.which(PROGRAM, path=environ.get("PATH", os.defpath))
    for path in [*candidates, *([elsewhere] if elsewhere else [])]:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise ClientError(
        "not_found",
        f"The command {PROGRAM} is not installed: {beside} is not there.",
        "Install the package, for instance with `pipx install` or `uv tool install`, and do it again.",
    )


def find_data() -> str:
    """The absolute path of the folder with our hook program and plugin."""
    return os.path.dirname(os.path.abspath(__file__))


def find_ephemeral(path: str) -> str | None:
    """Why what lies at `path` may be gone tomorrow, as a sentence, or None."""
    if any(mark in path for mark in _EPHEMERAL):
        return f"{path} was made for one run and will be thrown away. Install the package to stay, and do this again."
    for folder in {tempfile.gettempdir(), "/tmp", "/var/tmp"}:  # noqa: S108 - nothing is made there
        if path.startswith(f"{folder}/"):
            return f"{path} lies in {folder}, where it will be gone one day. Install the package to stay."
    return None


def settings_for(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that say where our own files are, as far as they are set: a harness may be started without."""
    return {name: environ[name] for name in PLACE_VARIABLES if environ.get(name)}

"""A container as the kernel has it: its own user, pid and mount namespaces, with one directory of the outside mounted.

Everything else of a private broker's place is hidden from it. What runs inside has the test's interpreter and this
tree.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.private_broker import PrivateBroker

MOUNTED = "/run/xsession"
ENTER = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc")
SCRIPT = """
set -e
mount -t tmpfs tmpfs /run
mkdir /run/xsession
mount --bind "$1" /run/xsession
mount -t tmpfs tmpfs "$2"
cd /run
shift 2
exec "$@"
"""
"""$1: the directory to mount. $2: what is hidden. The rest is run."""


@cache
def why_not() -> str | None:
    """Say why there can be no containers here, or None."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return "namespaces are Linux's"
    done = subprocess.run([*ENTER, "true"], capture_output=True, text=True, timeout=20, check=False)
    return done.stderr.strip() or "unshare fails" if done.returncode else None


needs_containers = pytest.mark.skipif(why_not() is not None, reason=f"containers: {why_not()}")


def inside(place: PrivateBroker, directory: Path | str, *argv: str) -> list[str]:
    """Return the command that runs `argv` in a container which has `directory` and nothing else of `place`."""
    return [*ENTER, "/bin/sh", "-c", SCRIPT, "sh", str(directory), str(place.root), *argv]


def variables() -> dict[str, str]:
    """Return what `xsessionctl grant` says to set."""
    return {"XSESSIOND_SOCKET": f"{MOUNTED}/session.sock", "XSESSIOND_TOKEN_FILE": f"{MOUNTED}/token", "HOME": "/run"}


def ctl_inside(
    place: PrivateBroker, directory: Path | str, *words: str, **extra: str
) -> subprocess.CompletedProcess[str]:
    """Run `xsessionctl` in such a container. An empty value in `extra` takes a variable away."""
    environ = place.environ(**{**variables(), **extra})
    return subprocess.run(
        inside(place, directory, sys.executable, "-m", "xsessionctl", *words),
        env={name: value for name, value in environ.items() if value},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=40, check=False,
    )  # fmt: skip

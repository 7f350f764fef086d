"""Pinned harness CLIs from npm in a cache directory, installed at first use.

The only module that knows versions and package names. It goes through the ordinary npm client with the user's own npm
settings, writes below the cache only, and never touches a globally installed CLI. A cache entry is complete or absent:
it is installed beside its final place and renamed, under a lock that concurrent test runs share.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from .processes import end_tree

INSTALL_SECONDS = 540
"""Deadline of one ``npm install``: the largest CLI is some 200 MB."""


@dataclass(frozen=True)
class Package:
    """One npm package at one version, and the command it provides (``""``: a library)."""

    npm_name: str
    version: str
    command: str = ""


# Claude Code asks for node >= 22 in `engines` but is a native binary: it runs where only node 20 is installed.
# A version before 2.1.224 would lack the session inbox that the tests of the wake door need.
PACKAGES = {
    "claude": Package("@anthropic-ai/claude-code", "2.1.332", "claude"),
    # The newest that was tested without an inbox: what it was woken by is tested with it.
    "claude-older": Package("@anthropic-ai/claude-code", "2.1.197", "claude"),
    "codex": Package("@openai/codex", "0.171.0", "codex"),
    "gemini": Package("@google/gemini-cli", "0.61.0", "gemini"),
    "opencode": Package("opencode-ai", "1.18.33", "opencode"),
    # opencode npm-installs this into every fresh config directory; homes.py links this copy there instead.
    "opencode-plugin": Package("@opencode-ai/plugin", "1.18.33"),
    # The official MCP clients: the SDK's first generation, its second, and the Inspector.
    "mcp-sdk": Package("@modelcontextprotocol/sdk", "1.32.2"),
    "mcp-client": Package("@modelcontextprotocol/client", "2.4.0"),
    "mcp-inspector": Package("@modelcontextprotocol/inspector", "2.12.0", "mcp-inspector"),
}


class HarnessUnavailable(Exception):
    """The CLI cannot be had on this machine; the text says why."""


def cache_dir() -> Path:
    """Where installed CLIs are kept between runs: ``$XSESSIOND_TEST_CACHE``, else ``~/.cache/xsessiond-tests``."""
    return Path(os.environ.get("XSESSIOND_TEST_CACHE") or Path.home() / ".cache" / "xsessiond-tests")


def install_package(name: str) -> Path:
    """Return the directory of package ``name`` (a key of ``PACKAGES``), installing it when it is absent.

    Raises:
        HarnessUnavailable: npm is missing, or could not install the package before the deadline.
    """
    package = PACKAGES[name]
    root = cache_dir() / "harness"
    final = root / f"{name}-{package.version}"
    if final.is_dir():
        return final
    npm = shutil.which("npm")
    if npm is None:
        raise HarnessUnavailable(f"{name} {package.version} is not installed and npm was not found")
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / f"{name}-{package.version}.lock"):
        if not final.is_dir():  # else another run installed it while this one waited for the lock
            staging = root / f"{name}-{package.version}.new"
            shutil.rmtree(staging, ignore_errors=True)  # left by a run that was killed: the lock says it is nobody's
            staging.mkdir()
            _npm_install(npm, package, staging)
            staging.rename(final)
    return final


def harness_command(name: str) -> Path:
    """Return the executable of the harness ``name``, installed; raises ``HarnessUnavailable``."""
    directory = install_package(name)
    if name == "opencode":
        install_package("opencode-plugin")
    return directory / "node_modules" / ".bin" / PACKAGES[name].command


def require_harness(name: str) -> Path:
    """As ``harness_command``, for tests: skips when the CLI cannot be had, but fails where ``CI=true``."""
    try:
        return harness_command(name)
    except HarnessUnavailable as missing:
        skip_or_fail(str(missing))


def require_package(name: str) -> Path:
    """As ``install_package``, for tests: skips when the package cannot be had, but fails where ``CI=true``."""
    try:
        return install_package(name)
    except HarnessUnavailable as missing:
        skip_or_fail(str(missing))


def require_program(name: str) -> str:
    """Return the path of a program, for tests: skips when it is missing, but fails where ``CI=true``."""
    return shutil.which(name) or skip_or_fail(f"{name} was not found")


def require_tmux() -> str:
    """Return the path of tmux, for tests: skips when it is missing, but fails where ``CI=true``."""
    return shutil.which("tmux") or skip_or_fail("tmux was not found")


def skip_or_fail(reason: str) -> NoReturn:
    """Skip on a developer's machine; fail in CI, where a skipped main job must not look green."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} (and CI=true allows no skip)")
    pytest.skip(reason)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; the file stays, since removing it would let two holders in."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _npm_install(npm: str, package: Package, directory: Path) -> None:
    """Install ``package`` into ``directory``; its scripts run, since they fetch the platform's binary into place."""
    (directory / "package.json").write_text('{"private": true}\n')
    argv = [npm, "install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts=false", "--loglevel=error"]
    argv.append(f"{package.npm_name}@{package.version}")
    process = subprocess.Popen(
        argv,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise HarnessUnavailable(f"npm did not install {argv[-1]} in {INSTALL_SECONDS} s") from None
    finally:
        end_tree(process)
        if process.stdout is not None:
            process.stdout.close()
    if process.returncode != 0:
        raise HarnessUnavailable(f"npm could not install {argv[-1]}: {output.decode(errors='replace').strip()[-600:]}")

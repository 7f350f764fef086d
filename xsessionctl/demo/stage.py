"""Where the demonstration plays: a private broker in a temporary place, its sessions, and the end of all of it.

Laws: nothing of the user's own is read or touched, and nothing is left behind, however it ends. Refuses to know: the
play.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from xsessionctl.client import ClientError, deadline_in
from xsessionctl.demo.actor import Actor
from xsessionctl.ending import stop_broker
from xsessionctl.lifecycle import broker_environment, ensure_broker
from xsessiond.paths import Paths, resolve_paths

START_S, STOP_S, COMMAND_S = 30.0, 10.0, 30.0
XSESSIONCTL = [sys.executable, "-P", "-m", "xsessionctl"]


class Stage:
    """One private broker with its sessions. Made by `set_up`.

    root: the temporary directory. environ: of every process here. broker: what it says of itself. terminal: a person
    may be at it; without one, this broker takes decisions from what has none too.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.environ = {
            **broker_environment(os.environ),
            "HOME": root,
            "XSESSIOND_RUNTIME_DIR": f"{root}/run",
            "XSESSIOND_STATE_DIR": f"{root}/state",
            "XSESSIOND_CONFIG_DIR": f"{root}/config",
            "XSESSIOND_MANAGED_CONFIG": f"{root}/managed.toml",
        }
        self.paths: Paths = resolve_paths(self.environ)
        self.actors: list[Actor] = []
        self.broker: dict[str, object] = {}
        self.terminal = has_terminal()

    def start_broker(self) -> None:
        """Starts the private broker. Raises ClientError."""
        if not self.terminal:
            os.mkdir(f"{self.root}/config", 0o700)
            with open(f"{self.root}/config/config.toml", "w", encoding="utf-8") as file:
                file.write("[approvals]\nwithout_terminal = true\n")
        link, _ = ensure_broker(self.paths, deadline_in(START_S), self.environ)
        with link:
            broker = link.call("status").get("broker")
        self.broker = broker if isinstance(broker, dict) else {}

    def enter(self, name: str, perm_class: str = "prompting") -> Actor:
        """A new session in a folder of that name. perm_class: see `Actor`."""
        folder = f"{self.root}/{name}"
        os.mkdir(folder, 0o700)
        actor = Actor(name, folder, self.environ, perm_class)
        self.actors.append(actor)
        return actor

    def command(self, *words: str) -> tuple[int, str]:
        """Runs `xsessionctl` as a person would. Returns its exit code and all it wrote."""
        done = subprocess.run(
            [*XSESSIONCTL, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.root,
            env=self.environ,
            timeout=COMMAND_S,
            check=False,
        )
        return done.returncode, done.stdout.decode("utf-8", "replace")

    def tear_down(self) -> None:
        """Ends the sessions and the broker and removes the directory."""
        for actor in self.actors:
            actor.end()
        try:
            stop_broker(self.paths, deadline_in(STOP_S))
        except ClientError:
            self._kill_broker()
        shutil.rmtree(self.root, ignore_errors=True)

    def broker_log(self) -> list[str]:
        """The last lines that the broker wrote, for a failure."""
        lines: list[str] = []
        for name in ("start.err", "xsessiond.log"):
            try:
                with open(f"{self.paths.state_dir}/{name}", encoding="utf-8", errors="replace") as file:
                    lines += file.read().splitlines()[-20:]
            except OSError:
                pass
        return lines

    def _kill_broker(self) -> None:
        from signal import SIGKILL

        pid = self.broker.get("pid")
        if isinstance(pid, int) and pid > 1:
            try:
                os.kill(pid, SIGKILL)
            except OSError:
                pass


def has_terminal() -> bool:
    """Whether this process has a terminal that controls it."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


@contextmanager
def set_up() -> Iterator[Stage]:
    """A stage with nothing on it yet. Whatever happens inside, it is taken down afterwards."""
    # The system's temporary directory may have a long name, and the path of a socket must be short.
    base = "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else None  # noqa: S108 - mkdtemp makes a private one below
    stage = Stage(os.path.realpath(tempfile.mkdtemp(prefix="xs-demo-", dir=base)))
    try:
        yield stage
    finally:
        stage.tear_down()

"""The product in the world: installed for its user, looked at through systemd, and spoken to by its own programs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.systemd_rig.world import HOME, ROOT, RUNTIME, World, login_environ

SERVICE, SOCKET = "xsessiond.service", "xsessiond.socket"
UNITS = f"{HOME}/.config/systemd/user"
DROP_INS = f"{UNITS}/{SERVICE}.d"
BROKER_SOCKET = f"{RUNTIME}/xsessiond/broker.sock"
STATE = f"{HOME}/.local/state/xsessiond"


class Installed:
    """One user's installation. programs: the directory of its commands, as seen inside."""

    def __init__(self, world: World, programs: Path) -> None:
        self.world, self.programs = world, programs

    def ctl(
        self, *words: str, env: Mapping[str, str] | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run `xsessionctl` as the user."""
        return self.world.run(str(self.programs / "xsessionctl"), *words, env=env, check=check)

    def ask(self, *words: str, env: Mapping[str, str] | None = None) -> Any:
        """Run `xsessionctl … --json` and return its document."""
        return json.loads(self.ctl(*words, "--json", env=env, check=False).stdout)

    def act(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """Start an actor (`actors.py`)."""
        return self.world.spawn(
            sys.executable, "-m", "tests.support.systemd_rig.actors", name, *words, env=login_environ(), cwd=str(ROOT)
        )

    def send(self, *texts: str) -> list[dict[str, Any]]:
        """Send these to the session api, and return the answers."""
        process = self.act("send", *texts)
        return [hear(process) for _ in texts]

    def at_terminal(self, *words: str, replies: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Run `xsessionctl` as a person at a terminal: its `code`, and what was `shown`."""
        process = self.act("person", json.dumps(replies), str(self.programs / "xsessionctl"), *words)
        return hear(process)

    # -- systemd -----------------------------------------------------------------------------------------------------

    def systemctl(self, *words: str, check: bool = True) -> str:
        """Run `systemctl --user`."""
        return self.world.run("systemctl", "--user", *words, check=check).stdout.strip()

    def show(self, what: str, unit: str = SERVICE) -> str:
        """Return one property of a unit."""
        return self.systemctl("show", f"--property={what}", "--value", unit)

    def is_active(self, unit: str) -> bool:
        """Tell whether a unit is active."""
        return self.show("ActiveState", unit) == "active"

    def pid(self) -> int:
        """Return the broker's pid, 0 for none."""
        return int(self.show("MainPID"))

    def restarts(self) -> int:
        """Return how often systemd started it again by itself."""
        return int(self.show("NRestarts"))

    def until_restarted(self, before: int, *, within_s: float = 30.0) -> None:
        """Return once it was started again more than `before` times, and runs."""
        script = f'[ "$(systemctl --user show -p NRestarts --value {SERVICE})" -gt {before} ] && '
        script += f"systemctl --user is-active --quiet {SERVICE}"
        self.world.until(f"restarted more than {before} times", "sh", "-c", script, within_s=within_s)

    def drop_in(self, name: str, *lines: str) -> None:
        """Write a drop-in of the user's own, and have systemd read it."""
        self.world.write(f"{DROP_INS}/{name}.conf", "\n".join(["[Service]", *lines, ""]))
        self.systemctl("daemon-reload")

    def drop_out(self, name: str) -> None:
        """Take a drop-in away again."""
        self.world.run("rm", f"{DROP_INS}/{name}.conf")
        self.systemctl("daemon-reload")

    def make_faulty(self) -> None:
        """Have the service run the broker whose disk hangs on demand, with a watchdog that waits for 2 s."""
        module = "tests.support.systemd_rig.faulty_broker"
        self.drop_in(
            "faulty", "ExecStart=", f"ExecStart={sys.executable} -P -m {module} --service systemd",
            f"Environment=PYTHONPATH={ROOT}", "WatchdogSec=2s", "RestartSec=100ms",
        )  # fmt: skip
        self.systemctl("restart", SERVICE)

    def exposure(self, unit: str) -> float:
        """Return what `systemd-analyze security` makes of a unit file: 0 is closed, 10 is open."""
        done = self.world.run(
            "systemd-analyze", "--user", "security", "--offline=yes", "--no-pager", unit, check=False
        )  # fmt: skip
        found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
        assert found, done.stdout + done.stderr
        return float(found[1])


def hear(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Return the next document that an actor says."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        assert process.stderr is not None
        raise AssertionError(process.stderr.read().decode(errors="replace"))
    document: dict[str, Any] = json.loads(line)
    return document


def end(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Tell an actor to come to its end, and return what it says last."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    lines = process.stdout.read().splitlines()
    process.wait(60)
    document: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return document

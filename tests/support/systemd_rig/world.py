"""A machine within the machine: systemd as its first process, logind, D-Bus, the journal, and a user called rig.

It is the machine that runs the tests, seen through a layer that takes every change and is thrown away: nothing outside
is changed, and when the first process ends, by our hand or with us, the kernel ends all that ran inside. Needs root and
a kernel that allows new namespaces; `why_not` says what is missing elsewhere.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
BOOT = Path(__file__).with_name("boot.sh")
UID = 5000
HOME = "/home/rig"
RUNTIME = f"/run/user/{UID}"
NAMESPACES = ("--mount", "--pid", "--ipc", "--uts", "--net")
TOOLS = ("unshare", "nsenter", "setpriv", "systemctl", "loginctl", "journalctl", "pivot_root")
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
PAM = ("lib", "lib/*", "lib64", "usr/lib", "usr/lib/*", "usr/lib64")
"""Where distributions have its modules."""
BOOTS_WITHIN_S = 60.0


@cache
def why_not() -> str | None:
    """What keeps a world from being booted here, or None."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs Linux and root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    logind = [folder for folder in ("/usr/lib/systemd", "/lib/systemd") if Path(folder, "systemd-logind").exists()]
    if not logind:
        return "needs systemd with logind"
    if not any(map(shutil.which, ("dbus-daemon", "dbus-broker-launch"))):
        return "needs a D-Bus daemon"
    if not any(found for folder in PAM for found in Path("/").glob(f"{folder}/security/pam_systemd.so")):
        return "needs pam_systemd, so that a login is one"
    tried = subprocess.run(["unshare", *NAMESPACES, "--cgroup", "--fork", "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else "the kernel refuses new namespaces"


class World:
    """A booted system. Made by `booted_world`."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._started: list[subprocess.Popen[bytes]] = []

    # -- commands ----------------------------------------------------------------------------------------------------

    def command(
        self, argv: Sequence[str], *, user: str = "rig", env: Mapping[str, str] | None = None, cwd: str = "/"
    ) -> list[str]:
        """Return the command that runs `argv` inside, with nothing but this environment. user: rig or root. Without
        `env` it is that of somebody who is logged in."""
        namespaces = [*NAMESPACES, "--cgroup"]
        enter = ["nsenter", f"--target={self._first}", *namespaces, "--"]
        become = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--init-groups"] if user == "rig" else []
        if env is None:
            env = login_environ() if user == "rig" else {"HOME": "/", "PATH": PATH}
        clean = ["env", "--ignore-environment", f"--chdir={cwd}", *(f"{name}={value}" for name, value in env.items())]
        return [*enter, *become, *clean, *argv]

    def run(
        self,
        *argv: str,
        user: str = "rig",
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        cwd: str = "/",
        within_s: float = 60.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside to its end. check: anything but exit code 0 fails the test, with what it said."""
        done = subprocess.run(
            self.command(argv, user=user, env=env, cwd=cwd),
            input=stdin, capture_output=True, text=True, timeout=within_s, check=False,
        )  # fmt: skip
        if check and done.returncode:
            raise AssertionError(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def say(self, *argv: str, user: str = "rig", env: Mapping[str, str] | None = None) -> str:
        """Run a command inside and return what it printed, whatever its exit code."""
        return self.run(*argv, user=user, env=env, check=False).stdout.strip()

    def spawn(
        self, *argv: str, user: str = "rig", env: Mapping[str, str] | None = None, cwd: str = "/"
    ) -> subprocess.Popen[bytes]:
        """Start a command inside, with pipes; it ends with the world at the latest."""
        process = subprocess.Popen(
            self.command(argv, user=user, env=env, cwd=cwd),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._started.append(process)
        return process

    def until(self, what: str, *argv: str, user: str = "rig", within_s: float = 30.0) -> None:
        """Return once a command inside succeeds; fail with `what` if it never does."""
        deadline = time.monotonic() + within_s
        while self.run(*argv, user=user, check=False).returncode:
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {within_s} s: {what}\n{self.journal()[-4000:]}")
            time.sleep(0.1)  # another system gives no event to this process; the loop is bounded

    # -- what is there -----------------------------------------------------------------------------------------------

    def write(self, path: str, text: str, *, user: str = "rig", mode: str = "644") -> None:
        """Write a file inside, with the directories above it."""
        script = 'umask 022; mkdir -p "${1%/*}" && cat >"$1" && chmod "$2" "$1"'
        self.run("sh", "-c", script, "sh", path, mode, user=user, stdin=text)

    def exists(self, path: str) -> bool:
        """Tell whether something lies there."""
        return self.run("test", "-e", path, user="root", check=False).returncode == 0

    def journal(self, *words: str) -> str:
        """Return the whole journal, or what `journalctl` makes of these words."""
        return self.run("journalctl", "--no-pager", "--quiet", *words, user="root").stdout

    # -- people ------------------------------------------------------------------------------------------------------

    @contextmanager
    def logged_in(self) -> Iterator[None]:
        """Have the user logged in, through PAM, until the end of the block. Returns when the user's manager is up."""
        name = f"login-{time.monotonic_ns()}"
        self.run(
            "systemd-run", "--quiet", "--collect", f"--unit={name}", "--property=PAMName=login", "--property=User=rig",
            "sleep", "infinity", user="root",
        )  # fmt: skip
        try:
            self.until("the user's manager runs", "systemctl", "is-active", "--quiet", f"user@{UID}", user="root")
            self.until("the manager answers", "systemctl", "--user", "show-environment")
            yield
        finally:
            self.run("systemctl", "stop", name, user="root", check=False)

    def linger(self, *, on: bool) -> None:
        """Let the user's manager run without a login, or not; returns when it does or is gone."""
        self.run("loginctl", "enable-linger" if on else "disable-linger", "rig", user="root")
        if on:
            self.until("the manager answers", "systemctl", "--user", "show-environment")
        else:
            self.until_gone()

    def until_gone(self) -> None:
        """Return when the user's runtime directory went with the last login."""
        self.until(f"{RUNTIME} is gone", "test", "!", "-e", RUNTIME, user="root", within_s=45)

    def end(self) -> None:
        """Collect what was started here; the kernel has ended it, or does now."""
        for process in self._started:
            process.kill()
            process.wait(20)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def login_environ(**extra: str) -> dict[str, str]:
    """Return the environment of the user's own terminal."""
    return {
        "HOME": HOME, "USER": "rig", "LOGNAME": "rig", "SHELL": "/bin/bash", "LANG": "C.UTF-8", "PATH": PATH,
        "XDG_RUNTIME_DIR": RUNTIME, "DBUS_SESSION_BUS_ADDRESS": f"unix:path={RUNTIME}/bus", **extra,
    }  # fmt: skip


@contextmanager
def booted_world(shown: Mapping[Path, str]) -> Iterator[World]:
    """Boot; on leaving, all of it ends. shown: directories that are to be seen inside, read-only, and where. The
    interpreter, its packages and this repository are seen at their own places, also where those are closed to others.
    """
    own = {path.resolve() for path in (Path(sys.prefix), Path(sys.base_prefix), ROOT)}
    outer = [path for path in own if not any(path != other and path.is_relative_to(other) for other in own)]
    binds = {path: str(path) for path in outer if not path.is_relative_to("/usr")} | dict(shown)
    folder = Path(tempfile.mkdtemp(prefix="xs-world-", dir="/tmp"))
    group = f"xsessiond-test-{os.getpid()}-{time.monotonic_ns()}"
    output = (folder / "boot.log").open("wb")
    die_with_us = ["setpriv", "--pdeathsig", "KILL"]
    process = subprocess.Popen(
        [*die_with_us, "unshare", *NAMESPACES, "--fork", "--kill-child", str(BOOT), str(folder), str(UID), group],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
    )
    try:
        assert process.stdin is not None
        process.stdin.write("".join(f"{here}\t{there}\n" for here, there in binds.items()).encode())
        process.stdin.close()
        world = World(_first_process(process, folder / "boot.log"))
        try:
            world.until(
                "the system is up", "systemctl", "is-active", "--quiet", "rig.target", "systemd-logind.service",
                user="root", within_s=BOOTS_WITHIN_S,
            )  # fmt: skip
            yield world
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(20)
            world.end()
    finally:
        process.kill()
        process.wait(20)
        output.close()
        _remove_group(group)
        shutil.rmtree(folder)


def _first_process(process: subprocess.Popen[bytes], log: Path) -> int:
    """Return the pid, out here, of the first process inside, once it is systemd."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + BOOTS_WITHIN_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        found = children.read_text().split()
        if found and Path(f"/proc/{found[0]}/comm").read_text().strip() == "systemd":
            return int(found[0])
        time.sleep(0.02)  # it execs its way there and gives no sign; the loop is bounded
    raise AssertionError(f"the world did not boot:\n{log.read_text(errors='replace')}")


def _remove_group(name: str) -> None:
    """Remove the control group, which is empty once the kernel has ended everything in it."""
    script = """
        mkdir "$1/cgroup" && mount -t cgroup2 none "$1/cgroup" || exit
        for _ in $(seq 50); do
          [ -d "$1/cgroup/$2" ] || exit 0
          find "$1/cgroup/$2" -depth -type d -exec rmdir {} + 2>/dev/null
          sleep 0.1
        done
        exit 1
    """
    with tempfile.TemporaryDirectory(prefix="xs-world-") as folder:
        subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", folder, name], check=True, timeout=20)

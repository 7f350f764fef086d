"""A broker of a test's own: three private directories, a clean environment, and an end for every process started in it.

Setting the three ``XSESSIOND_*_DIR`` variables gives a broker that shares nothing with the user's. The directories lie
under a short path, because the path of a Unix socket is limited to 107 bytes (103 on macOS) and pytest's own temporary
directories use most of that up.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

MARK = "XSESSIOND_RUNTIME_DIR"
"""The variable by which a process is recognised as belonging to a private broker: every child inherits it."""

PASSED_ON = ("LANG", "LC_ALL", "PATH", "SYSTEMROOT", "TMPDIR", "TZ")
"""All that a private environment takes over; the rest (XDG_*, the marks of a harness) would leak in from outside."""


def short_temporary_directory() -> Path:
    """Make a private directory (0700) with the shortest path that the machine offers; the caller removes it."""
    base = Path("/tmp") if os.access("/tmp", os.W_OK) else Path(tempfile.gettempdir())
    return Path(tempfile.mkdtemp(prefix="xs-", dir=base.resolve()))


def remove_directory(path: Path) -> None:
    """Remove a directory with all that is in it, also folders that a test has locked its own user out of."""
    for folder, names, _ in os.walk(path):  # from the top, so that each is opened up before it is entered
        for name in names:
            inner = Path(folder, name)
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(path)


@dataclass(frozen=True, slots=True)
class PrivateBroker:
    """The place of one broker, and the processes started there. Made by `private_broker`, which also ends it."""

    root: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def runtime_dir(self) -> Path:
        """Where the sockets and the lock are."""
        return self.root / "r"

    @property
    def state_dir(self) -> Path:
        """Where the store and the log are."""
        return self.root / "s"

    @property
    def config_dir(self) -> Path:
        """Where `config.toml` is read from."""
        return self.root / "c"

    @property
    def home(self) -> Path:
        """An empty HOME."""
        return self.root / "h"

    @property
    def rendezvous(self) -> Path:
        """The broker's listening socket."""
        return self.runtime_dir / "broker.sock"

    def directories(self) -> dict[str, str]:
        """Return the variables that make whoever has them use this broker and no other."""
        return {
            MARK: str(self.runtime_dir),
            "XSESSIOND_STATE_DIR": str(self.state_dir),
            "XSESSIOND_CONFIG_DIR": str(self.config_dir),
            "XSESSIOND_MANAGED_CONFIG": str(self.root / "managed.toml"),
        }

    def environ(self, **extra: str) -> dict[str, str]:
        """Return the whole environment for a process of this broker; `extra` is added last."""
        kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        kept["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), kept.get("PATH", os.defpath)))
        return {**kept, "HOME": str(self.home), **self.directories(), **extra}

    def spawn(self, *argv: str, **extra: str) -> subprocess.Popen[bytes]:
        """Start `argv` in this environment, with pipes on all three streams; it is ended with the broker."""
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.home,
            env=self.environ(**extra),
        )
        self.started.append(process)
        return process

    def start(self, *, within_s: float = 20.0, python: str = sys.executable, **extra: str) -> subprocess.Popen[bytes]:
        """Start the broker in the foreground of its own process and return once its rendezvous accepts. python: of
        which installation.

        Raises AssertionError with what it wrote to stderr if it ends before, or is not there after `within_s` seconds.
        """
        log = self.root / f"broker-{len(self.started)}.err"
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [python, "-m", "xsessiond"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd=self.home,
                env=self.environ(**extra),
            )
        self.started.append(process)
        deadline = time.monotonic() + within_s
        while not accepts(self.rendezvous):
            ended = process.poll() is not None
            if ended or time.monotonic() > deadline:
                what = f"ended with {process.returncode}" if ended else f"did not listen within {within_s} s"
                raise AssertionError(f"the broker {what}:\n{log.read_text(errors='replace')}")
            time.sleep(0.01)  # a process has no event to wait for before it listens; the loop is bounded
        return process

    @contextmanager
    def stalled(self, seconds: float) -> Iterator[None]:
        """The first process does nothing meanwhile, and so many seconds longer: as on a disk that is stuck. Nothing is
        waited for with this time: it is the fault itself."""
        self.started[0].send_signal(signal.SIGSTOP)
        try:
            yield
            time.sleep(seconds)
        finally:
            self.started[0].send_signal(signal.SIGCONT)

    def ctl(
        self, *arguments: str, stdin: str = "", within_s: float = 20.0, python: str = sys.executable, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `xsessionctl` with `arguments` to its end and return its exit code and output, as text. python: of which
        installation."""
        return subprocess.run(
            [python, "-m", "xsessionctl", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=within_s,
            cwd=self.home,
            env=self.environ(**extra),
            check=False,
        )

    def processes(self) -> list[psutil.Process]:
        """Return every living process of this broker, those that detached themselves included."""
        return [process for process in psutil.process_iter() if self._owns(process)]

    def end(self, *, within_s: float = 10.0) -> None:
        """End every process of this broker, each by its own pid, and collect those that we started."""
        living = self.processes()
        for process in living:
            _signal(process, kill=False)
        deadline = time.monotonic() + within_s
        while living := [process for process in living if not has_ended(process)]:
            if time.monotonic() > deadline:
                for process in living:
                    _signal(process, kill=True)
                break
            time.sleep(0.005)  # most are not our children, so that nothing tells us of their end; the loop is bounded
        for child in self.started:
            child.kill()
            child.wait(within_s)
            for stream in (child.stdin, child.stdout, child.stderr):
                if stream is not None and not stream.closed:
                    _close(stream)

    def _owns(self, process: psutil.Process) -> bool:
        try:
            return process.pid != os.getpid() and process.environ().get(MARK) == str(self.runtime_dir)
        except (psutil.Error, OSError):
            return False  # another user's, a zombie, or gone meanwhile


def accepts(path: Path) -> bool:
    """Tell whether something listens on the Unix socket at `path` and takes a connection now."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


@contextmanager
def private_broker() -> Iterator[PrivateBroker]:
    """Yield the place of a broker that is not started yet; on leaving, end what runs there and remove it."""
    place = PrivateBroker(short_temporary_directory())
    try:
        for directory in (place.runtime_dir, place.state_dir, place.config_dir, place.home):
            directory.mkdir(mode=0o700)
        yield place
    finally:
        place.end()
        remove_directory(place.root)


def has_ended(process: psutil.Process) -> bool:
    """Tell whether a process is gone, or only waits to be collected."""
    try:  # a zombie has ended: when its parent, often the machine's first process, collects it is not our business
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _signal(process: psutil.Process, *, kill: bool) -> None:
    try:  # psutil compares the start time first, so that a reused pid is never hit
        process.kill() if kill else process.terminate()
    except psutil.NoSuchProcess:
        pass


def _close(stream: object) -> None:
    try:
        stream.close()  # type: ignore[attr-defined]
    except OSError:
        pass  # unflushed input of a process that is gone

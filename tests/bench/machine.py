"""What the bench needs of the machine: a scratch folder, a C compiler, child processes, /proc.

Linux only: it reads /proc and pins processes to one CPU. Every process that is started here is
ended here, by its own pid.
"""

import contextlib
import dataclasses
import itertools
import os
import pathlib
import platform
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

HERE = pathlib.Path(__file__).resolve().parent
SCRATCH = pathlib.Path("/tmp")
"""Where everything is put, the private broker's store included: a short path, since sockets lie there."""
START_S = 20.0


class BenchError(Exception):
    """A case cannot be measured here; the text says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: rounds of a case, and the factor on the messages of a round."""

    rounds: int
    factor: float

    def count(self, full: int, least: int = 20) -> int:
        """Scales a number of messages, down to `least`."""
        return max(least, int(full * self.factor))


FULL = Effort(rounds=5, factor=1.0)
QUICK = Effort(rounds=2, factor=0.2)
SMOKE = Effort(rounds=1, factor=0.01)


@dataclasses.dataclass(frozen=True, slots=True)
class Bench:
    """One run: where it may write, and how long it measures."""

    work: pathlib.Path
    effort: Effort
    _serial: Iterator[int] = dataclasses.field(default_factory=itertools.count, repr=False)

    def compiled(self, name: str) -> str:
        """Path of the program `name`.c, compiled on first use; raises BenchError when there is no compiler."""
        out = self.work / name
        if not out.exists():
            cc = shutil.which("cc")
            if cc is None:
                raise BenchError("no C compiler (cc) on PATH")
            subprocess.run([cc, "-O2", "-o", str(out), str(HERE / f"{name}.c")], check=True)
        return str(out)

    def fresh(self, stem: str) -> pathlib.Path:
        """A path in the scratch folder that was not given out before; short, since it may become a socket."""
        return self.work / f"{stem}{next(self._serial)}"

    def rounds(self, case: str) -> Iterator[int]:
        """Numbers of the rounds, telling on stderr which one begins."""
        for number in range(self.effort.rounds):
            note(f"{case}: round {number + 1} of {self.effort.rounds}")
            yield number


def note(text: str) -> None:
    """Says on stderr where the run is and how busy the machine was."""
    print(f"[load {os.getloadavg()[0]:.2f}] {text}", file=sys.stderr, flush=True)


def describe() -> str:
    """One line about machine and versions, for above a table."""
    model = "?"
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} x {model}, {system}, scratch on {_file_system(SCRATCH)}"


def _file_system(path: pathlib.Path) -> str:
    """The type of the file system that holds `path`, which decides what durability costs."""
    best, kind = "", "?"
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/mounts").read_text().splitlines():
            point, type_ = line.split()[1:3]
            if path.is_relative_to(point) and len(point) >= len(best):
                best, kind = point, type_
    return kind


def lift_descriptor_limit() -> int:
    """Raises the soft limit of open files to the hard one, for us and our children; returns it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


@contextlib.contextmanager
def one_cpu() -> Iterator[None]:
    """Pins this process, and what it starts inside, to one CPU: no luck of placement, only the work."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def listening(path: pathlib.Path) -> Callable[[], bool]:
    """A probe that is true once something accepts on the Unix socket `path`."""

    def probe() -> bool:
        with socket.socket(socket.AF_UNIX) as sock:
            try:
                sock.connect(str(path))
            except OSError:
                return False
        return True

    return probe


def connect(path: pathlib.Path) -> socket.socket:
    """A blocking stream socket connected to `path`."""
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(path))
    return sock


@contextlib.contextmanager
def server(
    argv: Sequence[str | os.PathLike[str]],
    ready: Callable[[], bool],
    log: pathlib.Path,
    env: Mapping[str, str] | None = None,
) -> Iterator[int]:
    """Runs a server until the block ends; gives its pid once `ready`. Raises BenchError when it does not get there."""
    with log.open("ab") as out:
        proc = subprocess.Popen(list(map(str, argv)), stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)
        try:
            end = time.monotonic() + START_S
            while not ready():
                if proc.poll() is not None or time.monotonic() > end:
                    raise BenchError(f"{argv[0]} did not start: {log.read_text(errors='replace')[-800:]}")
                time.sleep(0.01)
            yield proc.pid
        finally:
            if proc.poll() is None:
                proc.send_signal(signal.SIGTERM)
                try:
                    proc.wait(10)
                except subprocess.TimeoutExpired:
                    proc.kill()
                    proc.wait()


def cpu_seconds(pid: int) -> float:
    """CPU time (user and system, all threads) that a live process has used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """What a process holds and has done so far."""

    rss_kib: int
    wakeups: int
    cpu_ns: int


def usage(pid: int) -> Usage:
    """Reads memory, voluntary switches (each is one wake-up later) and CPU time of all threads."""
    wakeups = cpu_ns = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        wakeups += _field(task / "status", "voluntary_ctxt_switches")
        cpu_ns += int((task / "schedstat").read_text().split()[0])
    return Usage(_field(pathlib.Path(f"/proc/{pid}/smaps_rollup"), "Rss"), wakeups, cpu_ns)


def _field(path: pathlib.Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise BenchError(f"{path} has no {name}")


def text(size: int) -> str:
    """`size` ASCII characters of prose and code, with quotes, newlines and tabs for JSON to escape."""
    unit = 'I changed "parse()" in src/frame.py:\n\tif n > MAX: raise TooBig(n)\nTests pass, please review. '
    return (unit * (size // len(unit) + 1))[:size]

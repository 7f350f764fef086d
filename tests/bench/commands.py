"""Timing of whole programs through spawn.c."""

import dataclasses
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Literal

from tests.bench.machine import Bench, BenchError
from tests.bench.stats import percentile

TIMEOUT_S = 120


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments and whole environment; with `ask` it is timed to the first line of its answer."""

    argv: Sequence[str]
    env: Mapping[str, str]
    ask: bytes | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Timed:
    """Starts of one program: milliseconds each."""

    wall_ms: list[float]

    @property
    def p50(self) -> float:
        """The middle one."""
        return percentile(self.wall_ms, 0.5)


def bare_python() -> Command:
    """The unit of these tables: the same interpreter, doing nothing."""
    return Command([sys.executable, "-c", "pass"], {"PATH": os.environ.get("PATH", os.defpath)})


def beside(name: str) -> str:
    """Path of a console script of this environment. Raises BenchError when it is not installed."""
    path = pathlib.Path(sys.executable).parent / name
    if not path.exists():
        raise BenchError(f"{name} is not installed beside {sys.executable}")
    return str(path)


def start(bench: Bench, command: Command, times: int, cwd: pathlib.Path) -> list[float]:
    """Runs `command` `times` in a row; milliseconds of each. Raises BenchError when one fails."""
    done = subprocess.run(
        spawning(bench, "exit" if command.ask is None else "line", command.argv, times),
        input=command.ask or b"",
        capture_output=True,
        env=dict(command.env),
        cwd=cwd,
        timeout=TIMEOUT_S,
    )
    if done.returncode:
        raise BenchError(f"{' '.join(command.argv[:3])} failed: {done.stderr.decode(errors='replace')[-500:]}")
    return read_times(done.stdout.decode(), command.argv, times)


def spawning(bench: Bench, mode: Literal["exit", "fed", "line"], argv: Sequence[str], times: int) -> list[str]:
    """The words that have spawn.c run `argv` so often, for whoever is to be its parent."""
    return [bench.compiled("spawn"), str(times), mode, *argv]


def read_times(said: str, argv: Sequence[str], times: int) -> list[float]:
    """Milliseconds of each start, from what spawn.c printed. Raises BenchError when one failed or is missing."""
    try:
        runs = [list(map(int, line.split())) for line in said.splitlines()]
    except ValueError:
        runs = []
    if len(runs) != times or any(run[3] for run in runs):
        raise BenchError(f"{' '.join(argv[:3])} failed: {said[-500:]}")
    return [run[0] / 1e6 for run in runs]

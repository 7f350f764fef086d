"""What a round of a case is made of: one freshly started server, warmed up, then timed."""

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from tests.bench import load, machine
from tests.bench.load import Mode
from tests.bench.machine import Bench
from tests.bench.peers import BODY, Peer
from tests.bench.stats import Goal, Row, percentile

T = TypeVar("T")

WARM_UP = 300
WINDOW = 32
"""Messages that each sender keeps on the way; below what may wait for one receiver (core.limits)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Latency:
    """One round: microseconds, and the server's CPU for each message or round trip."""

    p50: float
    p99: float
    cpu_us: float


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """One round: messages a second, and the server's CPU for each."""

    per_second: float
    cpu_us: float


def latency(bench: Bench, peer: Peer, mode: Mode, messages: int, *, pinned: bool) -> Latency:
    """Times `messages` of them, one at a time; with `pinned` server and clients share one CPU."""
    with machine.one_cpu() if pinned else contextlib.nullcontext(), peer.start(bench) as running:
        flow = running.open_flow(0)
        load.run(bench, mode, [flow], min(WARM_UP, messages))
        before = machine.usage(running.pid).cpu_ns
        got = load.run(bench, mode, [flow], messages).latencies_us
        cpu = (machine.usage(running.pid).cpu_ns - before) / 1000 / messages
    return Latency(percentile(got, 0.5), percentile(got, 0.99), cpu)


def rate(bench: Bench, peer: Peer, senders: int, messages: int) -> Rate:
    """Times `messages` in all from `senders` at once, each to a receiver of its own."""
    each = max(1, messages // senders)
    with peer.start(bench) as running:
        flows = [running.open_flow(number) for number in range(senders)]
        load.run(bench, Mode.PIPELINE, flows, max(1, each // 10), WINDOW)
        before = machine.usage(running.pid).cpu_ns
        result = load.run(bench, Mode.PIPELINE, flows, each, WINDOW)
        cpu = (machine.usage(running.pid).cpu_ns - before) / 1000 / result.messages
    return Rate(result.rate, cpu)


def append_and_sync(bench: Bench, times: int) -> Latency:
    """The least that durability can cost here: one message appended to a file, and fdatasync."""
    body = machine.text(BODY).encode()
    path = bench.fresh("log")
    took = []
    before = time.process_time_ns()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for _ in range(times):
            began = time.perf_counter_ns()
            os.write(fd, body)
            os.fdatasync(fd)
            took.append((time.perf_counter_ns() - began) / 1000)
    finally:
        os.close(fd)
    cpu = (time.process_time_ns() - before) / 1000 / times
    return Latency(percentile(took, 0.5), percentile(took, 0.99), cpu)


def compare(
    case: str,
    measure: str,
    field: str,
    ours: list[Latency],
    anchor: list[Latency],
    against: str,
    goal: Goal | None = None,
) -> Row:
    """A row in microseconds: the same `field` of each side's rounds."""
    mine, theirs = ([getattr(round_, field) for round_ in side] for side in (ours, anchor))
    return Row(case, measure, "us", mine, theirs, against, goal)


def interleave(bench: Bench, case: str, sides: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """Runs every side once in each round; gives each side's rounds in order."""
    got: dict[str, list[T]] = {name: [] for name in sides}
    for _ in bench.rounds(case):
        for name, measure in sides.items():
            got[name].append(measure())
    return got

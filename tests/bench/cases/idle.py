"""What waiting costs: memory, wake-ups and CPU with no session and with 5,000, and whether all are served after."""

import contextlib
import dataclasses
import json
import socket
import time
from collections.abc import Callable

from tests.bench import machine, ours
from tests.bench.machine import Bench, BenchError
from tests.bench.ours import Broker
from tests.bench.peers import Peer, Relay, Running
from tests.bench.stats import Fact, Line, Row, at_least, at_most

CASE = "idle"
SESSIONS = 5000
DESCRIPTORS_EACH = 3
"""What one session may cost a broker: its socket, its link, the process it watches."""
SPAN_S = 5.0
SETTLE_S = 20.0


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """A server over `SPAN_S` seconds in which nothing happened."""

    rss_kib: int
    wakeups_s: float
    cpu_us_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """A server without and with sessions, and how many of them it then answered."""

    empty: Waiting
    full: Waiting
    served: int

    def kib_each(self, sessions: int) -> float:
        """Resident memory that a session added."""
        return (self.full.rss_kib - self.empty.rss_kib) / sessions


def watch(pid: int, span: float) -> Waiting:
    """Waits until the process is quiet, at most `SETTLE_S`, and then looks at it for `span` seconds."""
    end = time.monotonic() + SETTLE_S
    before = machine.usage(pid)
    while time.monotonic() < end:
        time.sleep(1)
        after = machine.usage(pid)
        if after.wakeups == before.wakeups:
            break
        before = after
    before = machine.usage(pid)
    time.sleep(span)
    after = machine.usage(pid)
    return Waiting(after.rss_kib, (after.wakeups - before.wakeups) / span, (after.cpu_ns - before.cpu_ns) / 1000 / span)


def measure(bench: Bench, peer: Peer, sessions: int, span: float, answers: Callable[[socket.socket], bool]) -> Measured:
    """Starts `peer`, looks, connects `sessions`, looks again, and asks each one something."""
    with peer.start(bench) as running, contextlib.ExitStack() as opened:
        empty = watch(running.pid, span)
        links = [opened.enter_context(_join(running, number)) for number in range(sessions)]
        full = watch(running.pid, span)
        return Measured(empty, full, sum(answers(link) for link in links))


def run(bench: Bench) -> list[Line]:
    """Measures the broker beside the bare durable relay, which has trio, msgspec and SQLite as well."""
    room = (machine.lift_descriptor_limit() - 200) // DESCRIPTORS_EACH
    sessions = min(SESSIONS if bench.effort.factor == 1 else bench.effort.count(SESSIONS), room)
    span = SPAN_S if bench.effort.factor >= 0.1 else 0.5
    sides: list[tuple[Peer, Callable[[socket.socket], bool]]] = [
        (Relay("lean-normal"), _relay_answers),
        (Broker("full"), _broker_answers),
    ]
    got: dict[str, list[Measured]] = {peer.name: [] for peer, _ in sides}
    for number in range(min(2, bench.effort.rounds)):
        machine.note(f"{CASE}: round {number + 1}")
        for peer, answers in sides:
            got[peer.name].append(measure(bench, peer, sessions, span, answers))
    relay, broker = got.values()
    crowd = f"{sessions:,} sessions"

    def worst(pick: Callable[[Measured], float]) -> float:
        return max(map(pick, broker))

    mib, relay_mib = ([x.empty.rss_kib / 1024 for x in side] for side in (broker, relay))
    each, relay_each = ([x.kib_each(sessions) for x in side] for side in (broker, relay))
    return [
        Row(CASE, "resident, no session", "MiB", mib, relay_mib, "bare durable relay", at_most(1.3)),
        Row(CASE, f"resident a session, {crowd}", "KiB", each, relay_each, "bare durable relay"),
        Fact(CASE, f"resident a session, {crowd}", worst(lambda x: x.kib_each(sessions)), "KiB", at_most(24)),
        Fact(CASE, "wake-ups, no session", worst(lambda x: x.empty.wakeups_s), "/s", at_most(0)),
        Fact(CASE, f"wake-ups, {crowd}", worst(lambda x: x.full.wakeups_s), "/s", at_most(0)),
        Fact(CASE, f"CPU, {crowd}", worst(lambda x: x.full.cpu_us_s), "us/s"),
        Fact(CASE, f"served of {crowd}", min(x.served for x in broker), "", at_least(sessions)),
    ]


def _join(running: Running, number: int) -> socket.socket:
    sock = running.join(number)
    sock.settimeout(10)
    return sock


def _relay_answers(link: socket.socket) -> bool:
    link.sendall(b'{"op":"hello","id":"again"}\n')
    return b'"ok"' in link.recv(256)


def _broker_answers(link: socket.socket) -> bool:
    try:
        link.sendall(ours.line("whoami", {}, 9))
        got = b""
        while not got.endswith(b"\n"):
            data = link.recv(1 << 16)
            if not data:
                return False
            got += data
        return any(json.loads(raw).get("id") == 9 and b'"result"' in raw for raw in got.splitlines())
    except (OSError, BenchError):
        return False

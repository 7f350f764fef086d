"""A to the broker to B to the broker to A, 300 B, everything on one CPU, the broker without its log."""

from functools import partial

from tests.bench import timing
from tests.bench.load import Mode
from tests.bench.machine import Bench
from tests.bench.ours import Broker
from tests.bench.peers import Relay
from tests.bench.stats import Line, at_most
from tests.bench.timing import compare

CASE = "roundtrip"


def run(bench: Bench) -> list[Line]:
    """Measures it beside the raw relay, which has the goal, and the lean one, which shows what the product adds."""
    messages = bench.effort.count(3000)
    ours, raw, lean = Broker("none"), Relay("stream"), Relay("lean")
    sides = {
        peer.name: partial(timing.latency, bench, peer, Mode.ECHO_BACK, messages, pinned=True)
        for peer in (raw, lean, ours)
    }
    got = timing.interleave(bench, CASE, sides)
    lines: list[Line] = []
    for peer, goal in ((raw, at_most(1.0)), (lean, None)):
        lines += [
            compare(CASE, "p50", "p50", got[ours.name], got[peer.name], peer.name, goal),
            compare(CASE, "p99", "p99", got[ours.name], got[peer.name], peer.name),
            compare(CASE, "server's CPU", "cpu_us", got[ours.name], got[peer.name], peer.name),
        ]
    return lines

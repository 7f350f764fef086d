"""From a connected session's send to the push at the other, beside `hcom send` to a waiting `hcom listen`."""

from tests.bench import hcom, timing
from tests.bench.load import Mode
from tests.bench.machine import Bench, BenchError
from tests.bench.ours import Broker
from tests.bench.stats import Fact, Line, Row, at_most, percentile

CASE = "push"
DELIVERIES = 12


def run(bench: Bench) -> list[Line]:
    """Measures ours as it is by default: on disk (FULL) before it is pushed."""
    try:
        peer = hcom.prepare(bench)
        a, b = peer.start(), peer.start()
    except BenchError as absent:
        return [Fact(CASE, "beside hcom", None, note=f"skipped: {absent}")]
    times = bench.effort.count(DELIVERIES, least=2)
    ours: list[timing.Latency] = []
    theirs: list[list[float]] = []
    for number in bench.rounds(CASE):
        ours.append(timing.latency(bench, Broker("full"), Mode.PUSHED, bench.effort.count(1500), pinned=False))
        theirs.append([peer.deliver(a, b, number * times + i) for i in range(times)])
    against = "hcom send to hcom listen"
    mid, tail = ([percentile(x, q) for x in theirs] for q in (0.5, 0.99))
    return [
        Row(CASE, "send to push, p50", "ms", [x.p50 / 1000 for x in ours], mid, against, at_most(1 / 20)),
        Row(CASE, "send to push, p99", "ms", [x.p99 / 1000 for x in ours], tail, against),
    ]

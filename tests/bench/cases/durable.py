"""One send at a time, until the answer that says it is on disk, 300 B."""

from functools import partial

from tests.bench import timing
from tests.bench.load import Mode
from tests.bench.machine import Bench
from tests.bench.ours import Broker
from tests.bench.peers import Relay
from tests.bench.stats import Line, Row, at_most
from tests.bench.timing import compare

CASE = "durable"
SYNC = "append + fdatasync"


def run(bench: Bench) -> list[Line]:
    """FULL beside the least that a disk allows, NORMAL beside a round trip of the raw relay; free and on one CPU.

    Both also beside the lean relay that commits to SQLite in the same mode: what the disk and SQLite do not explain.
    """
    full, normal, raw = Broker("full"), Broker("normal"), Relay("stream")
    some, many = bench.effort.count(1500), bench.effort.count(3000)
    lines: list[Line] = []
    for pinned, where in ((True, "one CPU"), (False, "free")):
        sides = {
            SYNC: partial(timing.append_and_sync, bench, some),
            full.name: partial(timing.latency, bench, full, Mode.ANSWERED, some, pinned=pinned),
            raw.name: partial(timing.latency, bench, raw, Mode.ECHO_BACK, many, pinned=pinned),
            normal.name: partial(timing.latency, bench, normal, Mode.ANSWERED, many, pinned=pinned),
        }
        for lean, messages in ((Relay("lean-full"), some), (Relay("lean-normal"), many)):
            sides[lean.name] = partial(timing.latency, bench, lean, Mode.ANSWERED, messages, pinned=pinned)
        got = timing.interleave(bench, f"{CASE}, {where}", sides)
        for peer, anchor, goal in ((full, SYNC, at_most(2.5)), (normal, raw.name, at_most(1.3))):
            mode = peer.durability.upper()
            ours, lean_name = got[peer.name], f"lean-{peer.durability} relay"
            lines += [
                compare(CASE, f"{mode}, {where}, p50", "p50", ours, got[anchor], anchor, goal),
                compare(CASE, f"{mode}, {where}, p50", "p50", ours, got[lean_name], lean_name),
                compare(CASE, f"{mode}, {where}, p99", "p99", ours, got[anchor], anchor),
                Row(
                    CASE,
                    f"{mode}, {where}, p99 / p50",
                    "us",
                    [x.p99 for x in ours],
                    [x.p50 for x in ours],
                    "its own p50",
                    at_most(4),
                ),
            ]
    return lines

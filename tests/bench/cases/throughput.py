"""Messages a second with 1, 50 and 500 senders that keep 32 on the way, each to a receiver of its own, 300 B.

Ours are durable (FULL), answered, delivered and acknowledged. The raw relay only forwards; mosquitto keeps nothing on
disk, answers the publisher, and its subscribers acknowledge each message or (QoS 0) nothing.
"""

from functools import partial

from tests.bench import timing
from tests.bench.machine import Bench, BenchError
from tests.bench.ours import Broker
from tests.bench.peers import Mosquitto, Peer, Relay
from tests.bench.stats import Fact, Goal, Line, Row, at_least
from tests.bench.timing import WINDOW

CASE = "throughput"
SENDERS = (1, 50, 500)


def run(bench: Bench) -> list[Line]:
    """Measures all at each number of senders."""
    ours, raw = Broker("full", ack_every=WINDOW // 2), Relay("stream")
    peers: list[Peer] = [raw, Relay("lean-full")]
    lines: list[Line] = []
    try:
        Mosquitto.program()
        peers += [Mosquitto(1), Mosquitto(0)]
    except BenchError as absent:
        lines.append(Fact(CASE, "beside mosquitto", None, note=f"skipped: {absent}"))
    total = bench.effort.count(30_000, least=500)
    rates: dict[int, list[float]] = {}
    for senders in SENDERS:
        sides = {peer.name: partial(timing.rate, bench, peer, senders, total) for peer in (*peers, ours)}
        got = timing.interleave(bench, f"{CASE}, {senders}", sides)
        rates[senders] = [x.per_second for x in got[ours.name]]
        for peer in peers:
            has_goal = senders == 50 and peer.name != "lean-full relay"
            goal: Goal | None = at_least(0.6) if has_goal else None
            theirs = [x.per_second for x in got[peer.name]]
            what = f"{senders} sender{'s' if senders > 1 else ''}"
            lines.append(Row(CASE, what, "msg/s", rates[senders], theirs, peer.name, goal, best_of=True))
            if peer is raw:
                mine, cpu = ([x.cpu_us for x in got[name]] for name in (ours.name, peer.name))
                lines.append(Row(CASE, f"{what}, server's CPU a message", "us", mine, cpu, peer.name))
    many, one = rates[500], rates[1]
    lines.append(Row(CASE, "500 senders", "msg/s", many, one, "its own 1 sender", at_least(0.5), best_of=True))
    return lines

"""A broker whose store has a hundred thousand messages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import inf

import pytest

from tests.store import rows
from tests.support.private_broker import PrivateBroker, private_broker
from tests.support.wire_client import Member
from xsessiond.store.sqlite import SqliteStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

STORED = 100_000
ROUNDS, SENDS = 5, 40
SLOWER = 3
"""Looking at each of them would take some ten times as long. The quickest of many sends is compared: what else the
machine does only ever adds."""
UNBOUNDED = "[pacing]\ntarget_burst = 100000\nsender_burst = 100000\n"


def fill(place: PrivateBroker) -> None:
    """What two other sessions said to each other within the last hour."""
    begun = int(time.time() * 1000) - 3_600_000
    store = SqliteStore(place.state_dir / "store.db", "normal")
    for first in range(1, STORED + 1, 1000):
        store.commit([
            rows.put(seq, state="delivered", key=f"k-{seq}", sent_at=begun + seq, body=f"number {seq}: " + "text " * 40)
            for seq in range(first, first + 1000)
        ])  # fmt: skip
    store.close()


@contextmanager
def pair(place: PrivateBroker) -> Iterator[tuple[Member, Member]]:
    """A sender, and a receiver to whom mail comes by itself."""
    (place.config_dir / "config.toml").write_text(UNBOUNDED)
    place.start()
    with (
        Member(place.rendezvous, "api") as api,
        Member(place.rendezvous, "web", push=True, delivery="push") as web,
    ):
        yield api, web


def time_sends(api: Member, web: Member, name: str) -> list[float]:
    """Seconds from a send to the frame at the receiver, of some."""
    took = []
    for number in range(SENDS):
        begun = time.perf_counter()
        api.send("web", f"{name}, {number}", key=f"{name}, {number}")
        message = web.wire.note("message")["message"]
        took.append(time.perf_counter() - begun)
        web.ack(message["id"])
    return took


def test_what_is_stored_slows_no_message_down() -> None:
    """F3: a hundred thousand stored messages cost a send nothing; in turns, beside a broker that has none."""
    with ExitStack() as stack:
        places = {name: stack.enter_context(private_broker()) for name in ("full", "empty")}
        fill(places["full"])
        pairs = {name: stack.enter_context(pair(place)) for name, place in places.items()}
        best = dict.fromkeys(pairs, inf)
        for number in range(ROUNDS):
            for name, (api, web) in pairs.items():
                best[name] = min(best[name], *time_sends(api, web, f"{name} {number}"))
        assert best["full"] < SLOWER * best["empty"], best
        status = pairs["full"][0].call("status")
        assert status["store"]["ok"] is True

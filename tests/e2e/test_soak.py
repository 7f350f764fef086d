"""A broker that many come to and leave again: what they took is given back, and it rests."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable

import psutil
import pytest

from tests.e2e.test_broker_life import count_wake_ups, time_of_rest
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member, Wire, greet, poll
from xsessiond.core.limits import CONNECTS_PER_SECOND

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is read from /proc"),
]

CYCLES = 10_000
WARM_UP = 1_000
"""Cycles after which the process has what it keeps for good: code, pools, its tables at their size."""
GROWTH_BYTES = 2 << 20
"""What the rest may add: less than half of what a leak of 500 bytes a cycle would."""
HELLO = b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"protocol":1,"client":"soak/1"}}\n'


PACE_PER_S = 0.9 * CONNECTS_PER_SECOND
"""Visits a second, of which one in 33 connects twice: as fast as one tree of processes may."""


def half_close(place: PrivateBroker) -> None:
    with connected(place) as client:
        client.sendall(HELLO)
        client.shutdown(socket.SHUT_WR)
        drain(client)


def leave_in_the_middle_of_a_frame(place: PrivateBroker) -> None:
    with connected(place) as client:
        client.sendall(HELLO + b'{"jsonrpc":"2.0","id":2,"method":"li')


def say_nothing(place: PrivateBroker) -> None:
    connected(place).close()


def speak_something_else(place: PrivateBroker) -> None:
    with connected(place) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        drain(client)


def ask_and_leave(place: PrivateBroker) -> None:
    with greet(place.rendezvous) as client:
        client.call("list")


def attach_and_drop(place: PrivateBroker) -> None:
    with Member(place.rendezvous, "guest") as guest:
        guest.call("end")


VISITS: tuple[tuple[Callable[[PrivateBroker], None], int], ...] = (
    (half_close, 8),
    (leave_in_the_middle_of_a_frame, 8),
    (say_nothing, 8),
    (speak_something_else, 4),
    (ask_and_leave, 4),
    (attach_and_drop, 1),
)
"""How one comes and goes, and how often of each round."""


def connected(place: PrivateBroker) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(20)
    client.connect(str(place.rendezvous))
    return client


def drain(client: socket.socket) -> None:
    try:
        while client.recv(4096):
            pass
    except ConnectionError:
        pass


def visit(place: PrivateBroker, count: int) -> None:
    done, start = 0, time.monotonic()
    while done < count:
        for way, times in VISITS:
            for _ in range(times):
                way(place)
                done += 1
        due = start + done / PACE_PER_S
        poll(time.monotonic, due.__le__)


def test_ten_thousand_come_and_go(broker: PrivateBroker) -> None:
    """F1, 15.6: descriptors and memory are back where they were, and nothing wakes it any more."""
    process = broker.start()
    looked = psutil.Process(process.pid)
    with Member(broker.rendezvous, "api") as api:
        visit(broker, WARM_UP)
        time_of_rest(process.pid)
        descriptors, memory = looked.num_fds(), looked.memory_info().rss
        visit(broker, CYCLES)
        poll(looked.num_fds, lambda count: count == descriptors)
        api.call("whoami")  # and so it takes in what it was asked meanwhile: whether it still answers
        time_of_rest(process.pid)
        before = count_wake_ups(process.pid)
        assert not api.wire.has_more(3.0)
        assert count_wake_ups(process.pid) == before
        assert looked.memory_info().rss - memory < GROWTH_BYTES
        assert [row["name"] for row in api.call("list")["sessions"]] == ["api"]
        with Wire(broker.rendezvous) as client:
            client.call("status")

"""Processes that connect without end: they are turned away above their pace, and nobody else notices."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.broker_files import read_broker_log
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member, await_status, greet, poll, read_status

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="who belongs together is told by /proc"),
]

ROOT = Path(__file__).parents[2]
WITHIN_S = 60.0
SAMPLES = 40
SOON_S = 0.25
"""What a request takes while others flood, at the median: a hundred times what it takes, since two processes that do
nothing else take the machine's processors too."""


def start_flooder(broker: PrivateBroker, name: str) -> subprocess.Popen[bytes]:
    return broker.spawn(
        sys.executable, "-m", "tests.support.flooder", str(broker.rendezvous), name, PYTHONPATH=str(ROOT)
    )


def said(flooder: subprocess.Popen[bytes]) -> str:
    assert flooder.stdout is not None
    return flooder.stdout.readline().decode().strip()


def tell(flooder: subprocess.Popen[bytes]) -> None:
    assert flooder.stdin is not None
    flooder.stdin.write(b"\n")
    flooder.stdin.flush()


def time_of(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


@pytest.mark.slow
def test_a_flood_of_connections_keeps_only_those_out_who_make_it(broker: PrivateBroker) -> None:
    """13.3: two sessions connect as fast as they can. Another client's status, a session's mail and its coming back go
    on, the flooders themselves come back through their private sockets, and after it all are served again."""
    broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api") as api:
        flooders = [start_flooder(broker, name) for name in ("one", "two")]
        assert [said(flooder) for flooder in flooders] == ["up", "up"]
        for flooder in flooders:
            tell(flooder)
        assert [said(flooder) for flooder in flooders] == ["refused", "refused"]
        assert [said(flooder) for flooder in flooders] == ["attached", "attached"]
        status = [time_of(lambda: read_status(broker.rendezvous)) for _ in range(SAMPLES)]
        sends = [time_of(lambda number=number: web.send("api", f"text {number}")) for number in range(10)]
        web.rejoin()
        web.send("api", "after coming back")
        assert len(api.take()) == 11
        assert broker.ctl("whoami").returncode == 0
        assert all(flooder.poll() is None for flooder in flooders)
        for flooder in flooders:
            tell(flooder)
        assert [said(flooder) for flooder in flooders] == ["back", "back"]
        counts = [int(said(flooder)) for flooder in flooders]
        assert [flooder.wait(WITHIN_S) for flooder in flooders] == [0, 0]
        assert statistics.median(status) < SOON_S, (status, counts)
        assert statistics.median(sends) < SOON_S, (sends, counts)
        await_status(broker.rendezvous, sessions=2)
    pids = {str(flooder.pid) for flooder in flooders}
    told = [line for line in read_broker_log(broker).splitlines() if "turned away" in line]
    assert len(told) == 2, "once each"
    assert all(any(pid in line for line in told) for pid in pids)


def test_a_crowd_that_stays_leaves_the_last_descriptors_to_others(broker: PrivateBroker) -> None:
    """13.3: where the system gives the broker few, too: those who hold on to theirs lose them, and a person who would
    stop the broker, or decide, is answered."""
    limited = f"ulimit -n 256; exec '{sys.executable}' -m xsessiond"
    broker.spawn("/bin/sh", "-c", limited)
    poll(broker.rendezvous.exists, bool)
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api") as api, ExitStack() as crowd:
        for _ in range(300):
            crowd.enter_context(greet(broker.rendezvous))
        assert broker.ctl("list").returncode == 0
        sent = web.send("api", "still here?")
        assert [message["id"] for message in api.take()] == [sent["id"]]
    assert "cannot be accepted" not in read_broker_log(broker)

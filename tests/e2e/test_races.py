"""One broker: whoever comes second, however closely, ends content and leaves the first alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_files import find_bugs
from tests.support.private_broker import PrivateBroker, private_broker
from tests.support.wire_client import Member, read_status

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def race(broker: PrivateBroker, rounds: int, *, within_s: float) -> None:
    """Fifty racing starts, so many times over."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.support.racing_brokers", str(rounds), "50", "1"],
        cwd=ROOT,
        env=broker.environ(),
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["violations"] == []
    assert (found["rounds"], found["most"]) == (rounds, 1)
    assert found["samples"] > rounds
    assert find_bugs(broker) == []


@pytest.mark.skipif(not Path("/proc/net/unix").exists(), reason="counts listeners in /proc/net/unix")
def test_fifty_racing_starts_give_one_listener(broker: PrivateBroker) -> None:
    """P2: some are killed while they race; the losers exit 0 and say who runs."""
    race(broker, 4, within_s=50)


@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/net/unix").exists(), reason="counts listeners in /proc/net/unix")
def test_fifty_racing_starts_two_hundred_times(broker: PrivateBroker) -> None:
    """P2: the same, over and over, each round on what the killed winner of the last one left behind."""
    race(broker, 200, within_s=850)


def start_another(broker: PrivateBroker, **changes: str) -> subprocess.CompletedProcess[bytes]:
    """Start a broker by hand beside the one that runs, and wait for its end."""
    return subprocess.run(
        [sys.executable, "-m", "xsessiond"],
        cwd=broker.home,
        env=broker.environ(**changes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )


@pytest.mark.parametrize("other", ["nothing", "state_dir", "runtime_dir"])
def test_a_second_start_leaves_the_first_untouched(broker: PrivateBroker, other: str) -> None:
    """P1: by hand, with another state dir, with another runtime dir: `already running`, exit 0."""
    first = broker.start()
    with Member(broker.rendezvous, "asks") as asks, Member(broker.rendezvous, "answers") as answers:
        before = {path: os.lstat(path) for path in broker.runtime_dir.rglob("*")}
        with private_broker() as place:
            changes = {
                "nothing": {},
                "state_dir": {"XSESSIOND_STATE_DIR": str(place.state_dir)},
                "runtime_dir": {"XSESSIOND_RUNTIME_DIR": str(place.runtime_dir)},
            }[other]
            second = start_another(broker, **changes)
            assert not (place.runtime_dir / "broker.sock").exists()
            assert not (place.state_dir / "store.db").exists()
        held = broker.state_dir / "store.lock" if other == "runtime_dir" else broker.runtime_dir / "broker.lock"
        text = f"xsessiond: already running (pid {first.pid}): it holds {held}\n"
        assert (second.returncode, second.stdout, second.stderr.decode()) == (0, b"", text)
        after = {path: os.lstat(path) for path in broker.runtime_dir.rglob("*")}
        assert {path: stat.st_ino for path, stat in after.items()} == {
            path: stat.st_ino for path, stat in before.items()
        }
        assert read_status(broker.rendezvous)["broker"]["pid"] == first.pid
        sent = asks.send("answers", "are you there?")  # over the links that were there before
        assert [message["id"] for message in answers.take()] == [sent["id"]]


def test_a_broker_of_another_place_is_no_hindrance(broker: PrivateBroker) -> None:
    """P1: what shares neither directory is another broker."""
    first = broker.start()
    with private_broker() as place:
        second = place.start()
        assert read_status(broker.rendezvous)["broker"]["pid"] == first.pid
        assert read_status(place.rendezvous)["broker"]["pid"] == second.pid

"""A service manager's broker takes the place of one that a client started, and of nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.support.broker_files import find_bugs
from tests.support.private_broker import PrivateBroker, accepts
from tests.support.wire_client import Member, ask_once, poll, read_status
from xsessiond.core.limits import LOCK_WAIT_S
from xsessiond.io import succession
from xsessiond.io.lock import AlreadyRunning, acquire_broker_lock
from xsessiond.io.runtime_dir import make_directories
from xsessiond.paths import Paths, resolve_paths


@pytest.fixture
def paths(broker: PrivateBroker) -> Paths:
    found = resolve_paths(broker.directories())
    make_directories(found)
    return found


def start_managed(broker: PrivateBroker) -> subprocess.Popen[bytes]:
    """Start the broker as the units do, without a socket from the manager."""
    return broker.spawn(sys.executable, "-P", "-m", "xsessiond", "--service", "systemd")


@pytest.mark.slow
def test_it_takes_over_with_all_that_waited(broker: PrivateBroker) -> None:
    """15.2, 15.4: a broker that cron or an earlier login started makes room; its mail and its sessions live on."""
    assert broker.ctl("start").returncode == 0
    first = psutil.Process(read_status(broker.rendezvous)["broker"]["pid"])
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api") as api:
        sent = web.send("api", "before")
        second = start_managed(broker)
        assert b'"stopping"' in api.wire.read_to_end()  # the first one ends properly
        poll(lambda: accepts(broker.rendezvous) and read_status(broker.rendezvous)["broker"]["pid"] == second.pid, bool)
        psutil.wait_procs([first], timeout=20)
        api.rejoin()
        assert [message["id"] for message in api.take()] == [sent["id"]]
        status = read_status(broker.rendezvous)["broker"]
        assert (status["pid"], status["service"]) == (second.pid, "systemd")
    assert find_bugs(broker) == []


def test_without_the_word_nobody_is_displaced(broker: PrivateBroker) -> None:
    """P1: started by hand a second time: the first is untouched, and says that no manager started it."""
    first = broker.start()
    second = subprocess.run(
        [sys.executable, "-m", "xsessiond"],
        env=broker.environ(),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert second.returncode == 0
    assert f"already running (pid {first.pid})" in second.stderr
    status = read_status(broker.rendezvous)["broker"]
    assert (status["pid"], status["service"]) == (first.pid, None)


def test_a_broker_that_does_not_end_is_left_and_the_manager_told_to_try_again(
    broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped (SIGSTOP) and cannot end; what lies in wait then is a failure and no quiet success."""
    first = broker.start()
    read_status(broker.rendezvous)  # now it heeds signals
    os.kill(first.pid, signal.SIGSTOP)
    try:
        monkeypatch.setattr(succession, "STOP_WITHIN_S", 0.0)
        monkeypatch.setattr(succession, "LOCK_WAIT_S", 0.2)
        with pytest.raises(AlreadyRunning):
            succession.succeed_broker(resolve_paths(broker.directories()), "0")
    finally:
        os.kill(first.pid, signal.SIGCONT)
    assert first.wait(20) == 0  # it got the signal
    assert LOCK_WAIT_S > 0


HOLDER = "import sys; from tests.io.test_succession import hold; hold()"


def hold() -> None:
    """Hold the lock of the environment's broker, as a program that is none."""
    lock = acquire_broker_lock(resolve_paths(), "0")
    print("held", flush=True)
    sys.stdin.read()
    lock.release()


def test_another_program_is_not_signalled(broker: PrivateBroker, paths: Paths) -> None:
    """The pid in a lock file is a note, and may be a lie."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=broker.environ(),
        cwd=os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
    )  # fmt: skip
    broker.started.append(holder)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    ended = start_managed(broker)
    assert ended.wait(20) == 9
    assert ended.stderr is not None
    assert f"already running (pid {holder.pid})" in ended.stderr.read().decode()
    assert holder.poll() is None


@pytest.mark.parametrize(
    "pid, host, ended",
    [
        (None, None, False),
        (os.getpid(), "another-machine", False),
        (1, None, False),
        (2**22 + 1, None, True),  # past what Linux gives out: it ended meanwhile
    ],
    ids=["no note", "of another machine", "runs", "has ended"],  # a pid in a name differs between the test processes
)
def test_whom_a_note_may_mean(pid: int | None, host: str | None, ended: bool, monkeypatch) -> None:  # noqa: FBT001
    monkeypatch.setattr(succession.socket, "gethostname", lambda: "here")
    assert succession._end(AlreadyRunning("/x", pid, "0", host or "here")) == ended


@pytest.mark.parametrize(
    "line, is_broker",
    [
        ("/opt/x/bin/python3 -P -m xsessiond --service systemd", True),
        ("/opt/x/bin/python3 /opt/x/bin/xsessiond", True),
        ("/opt/x/bin/xsessiond --verbose", True),
        ("/opt/x/bin/python3 -SP /opt/x/bin/xsessionctl mcp", False),
        ("less xsessiond.log", False),
        ("", False),
    ],
)
def test_what_a_broker_looks_like(line: str, is_broker: bool) -> None:  # noqa: FBT001
    assert succession._is_broker(line.split()) == is_broker


def test_stop_still_stops_it(broker: PrivateBroker) -> None:
    managed = start_managed(broker)
    poll(lambda: accepts(broker.rendezvous), bool)
    assert ask_once(broker.rendezvous, "stop")["pid"] == managed.pid
    assert managed.wait(20) == 0

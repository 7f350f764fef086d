"""sd_notify and passed sockets, against real sockets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from xsessiond.io.sdnotify import take_passed_sockets, take_service_manager

PID = str(os.getpid())


@pytest.mark.parametrize(
    "kind", ["path", pytest.param("abstract", marks=pytest.mark.skipif("sys.platform == 'darwin'"))]
)
def test_the_manager_hears(short_dir: Path, kind: str) -> None:
    address = str(short_dir / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address if kind == "path" else "\0" + address)
        manager.settimeout(5)
        environ = {"NOTIFY_SOCKET": address if kind == "path" else "@" + address, "OTHER": "1"}
        us = take_service_manager(environ)
        assert environ == {"OTHER": "1"}  # nothing that we start takes it for its own
        assert us.ready("0 sessions")
        assert manager.recv(1000).decode() == f"READY=1\nMAINPID={PID}\nSTATUS=0 sessions"
        assert us.watchdog()
        assert manager.recv(1000) == b"WATCHDOG=1"
        assert us.stopping("bye")
        assert manager.recv(1000) == b"STOPPING=1\nSTATUS=bye"
        assert us.watchdog_s is None


@pytest.mark.parametrize(
    "environ", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1"}, {"NOTIFY_SOCKET": "/no/one"}]
)
def test_without_a_manager_nothing_happens(environ: dict[str, str]) -> None:
    assert not take_service_manager(environ).ready("x")


def test_a_manager_that_does_not_read_blocks_nobody(short_dir: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(short_dir / "notify"))
        us = take_service_manager({"NOTIFY_SOCKET": str(short_dir / "notify")})
        assert not all(us.notify("STATUS=" + "x" * 10_000) for _ in range(1000))


@pytest.mark.parametrize(
    "environ, seconds",
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": PID}, 0.5),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_s_interval(environ: dict[str, str], seconds: float | None) -> None:
    assert take_service_manager(environ).watchdog_s == seconds
    assert environ == {}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"LISTEN_FDS": "1"},
        {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "xsessiond"},
        {"LISTEN_PID": PID, "LISTEN_FDS": "one"},
        {"LISTEN_PID": PID, "LISTEN_FDS": "0"},
    ],
)
def test_sockets_for_somebody_else_are_not_taken(environ: dict[str, str]) -> None:
    """An inherited environment: the descriptors 3 … are our own, and must not be touched."""
    assert take_passed_sockets(environ) == {}
    assert environ == {}


TAKER = """
import os
from xsessiond.io.sdnotify import take_passed_sockets
os.environ["LISTEN_PID"] = str(os.getpid())
print(take_passed_sockets(), [os.get_inheritable(fd) for fd in (3, 4, 5)], [n for n in os.environ if "LISTEN" in n])
"""


def test_passed_sockets_by_name() -> None:
    """In a process of its own: they are descriptors 3, 4 and 5 there."""
    pairs = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    high = [os.dup2(one.fileno(), 50 + number) for number, one in enumerate(pairs)]
    script = f"exec 3<&{high[0]} 4<&{high[1]} 5<&{high[2]}; exec {sys.executable} -c '{TAKER}'"
    result = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "LISTEN_FDS": "3", "LISTEN_FDNAMES": "a::a"},
        cwd=Path(__file__).parent.parent.parent,
        pass_fds=high,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    for one in pairs:
        one.close()
    for fd in high:
        os.close(fd)
    assert result.stdout == "{'a': 3, 'unknown': 4, 'a#2': 5} [False, False, False] []\n", result.stderr

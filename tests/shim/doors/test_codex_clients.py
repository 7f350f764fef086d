"""Who else is connected to a daemon: found, watched, and missed when it is gone."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from xsessionctl.shim import loop
from xsessionctl.shim.doors import codex_clients
from xsessionctl.shim.doors.codex_clients import Clients, connected_to

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel tells it on Linux only")

WITHIN_S = 10.0
CLIENT = """
import socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
print(flush=True)
sys.stdin.read()
"""


class Daemon:
    """A listening socket, and clients of it that are processes."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="xs-"))
        self.path = str(self.place / "s")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.links: list[socket.socket] = []
        self.clients: list[subprocess.Popen[bytes]] = []

    def join(self, *words: str) -> subprocess.Popen[bytes]:
        """A process connects; `words` end its command line."""
        argv = [sys.executable, "-c", CLIENT, self.path, *words]
        client = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.clients.append(client)
        self.links.append(self.listener.accept()[0])
        assert client.stdout is not None
        client.stdout.readline()
        return client

    def leave(self, client: subprocess.Popen[bytes]) -> None:
        client.communicate()
        self.links.pop(self.clients.index(client)).close()
        self.clients.remove(client)

    def close(self) -> None:
        for client in list(self.clients):
            self.leave(client)
        for link in self.links:
            link.close()
        self.listener.close()
        shutil.rmtree(self.place)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    daemon = Daemon()
    yield daemon
    daemon.close()


@pytest.fixture
def told() -> list[bool]:
    return []


@pytest.fixture
def clients(daemon: Daemon, told: list[bool]) -> Iterator[Clients]:
    clients = Clients(daemon.path, os.getpid(), told.append)
    yield clients
    clients.close()


def run(clients: Clients, told: list[bool], expected: list[bool]) -> None:
    end = monotonic() + WITHIN_S
    while told != expected:
        assert monotonic() < end, told
        loop.wait([clients], due=[monotonic() + 0.05])


def test_the_kernel_says_who_is_connected(daemon: Daemon) -> None:
    assert connected_to(daemon.path) == set()
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(daemon.path)
        daemon.links.append(daemon.listener.accept()[0])
        assert connected_to(daemon.path) == {os.fstat(link.fileno()).st_ino}
    assert connected_to(str(daemon.place / "other")) == set()


def test_the_last_terminal_to_go_is_noticed_and_so_is_the_next(
    daemon: Daemon, clients: Clients, told: list[bool]
) -> None:
    """D1: a connected server of ours does not prove that anybody looks."""
    first, second = daemon.join(), daemon.join()
    clients.look()
    clients.look()
    assert (told, clients.fileno() is None) == ([], False)
    daemon.leave(first)
    daemon.leave(second)
    run(clients, told, [False])
    assert clients.fileno() is None
    clients.look()
    assert told == [False]
    daemon.join()
    clients.look()
    assert told == [False, True]


def test_one_that_goes_while_another_stays_is_nothing(daemon: Daemon, clients: Clients, told: list[bool]) -> None:
    joined = sorted((daemon.join(), daemon.join()), key=lambda client: client.pid)
    clients.look()
    daemon.leave(joined[0])  # the one that is watched
    assert clients.fileno() is not None
    loop.wait([clients], due=[monotonic() + WITHIN_S])
    assert (told, clients.fileno() is None) == ([], False)
    daemon.leave(joined[1])
    run(clients, told, [False])


def test_servers_of_ours_below_the_daemon_are_nobody(daemon: Daemon, clients: Clients, told: list[bool]) -> None:
    daemon.join("/bin/xsessionctl", "mcp")
    clients.look()
    assert told == [False]


def test_who_may_not_be_looked_into_may_be_anybody(
    daemon: Daemon, clients: Clients, told: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codex_clients, "list_processes", list)
    daemon.join()
    clients.look()
    for _ in range(codex_clients.LOOKS_AGAIN):
        assert clients.due is not None
        clients.tick(clients.due)
    assert (told, clients.fileno(), clients.due) == ([], None, None)


def test_an_end_that_the_daemon_has_not_noticed_is_looked_at_again(
    daemon: Daemon, clients: Clients, told: list[bool]
) -> None:
    client = daemon.join()
    clients.look()
    link = daemon.links[0].dup()  # the daemon's end stays open
    daemon.leave(client)
    loop.wait([clients], due=[monotonic() + WITHIN_S])
    link.close()
    run(clients, told, [False])


def test_where_the_kernel_does_not_tell_nothing_is_said(
    daemon: Daemon, clients: Clients, told: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codex_clients.sys, "platform", "darwin")
    assert connected_to(daemon.path) is None
    clients.look()
    monkeypatch.undo()
    monkeypatch.setattr(codex_clients, "_SOCK_DIAG", 999)
    assert connected_to(daemon.path) is None
    assert told == []

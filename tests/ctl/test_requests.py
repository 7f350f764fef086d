"""xsessionctl.requests: what is repeated, and what is not."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from tests.ctl.faulty_broker import faulty_broker, say
from xsessionctl.client import ClientError, deadline_in
from xsessionctl.commands.start import command as start
from xsessionctl.commands.status import read_status
from xsessionctl.ending import stop_broker
from xsessionctl.lifecycle import find_paths
from xsessionctl.requests import AGAIN, ask

HELLO = {"jsonrpc": "2.0", "id": 1, "result": {}}
ANSWER = {"jsonrpc": "2.0", "id": 2, "result": {"id": "m-1"}}


@pytest.fixture(autouse=True)
def _place(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XSESSIOND_RUNTIME_DIR", str(short_dir))


@pytest.mark.parametrize("method, params", [("list", {}), ("send", {"to": "api", "message": "x", "key": "k"})])
def test_what_does_nothing_twice_is_asked_again(short_dir: Path, method: str, params: dict[str, object]) -> None:
    """L3: a repeat with the same key is one delivery."""
    answers = [say(HELLO), say(HELLO, ANSWER)]
    with faulty_broker(short_dir / "broker.sock", lambda link, frames: answers.pop(0)(link, frames)) as came:
        assert ask(method, params, deadline_in(10)) == {"id": "m-1"}
    assert came[0] == came[1]


@pytest.mark.parametrize("method", ["send", "rename"])
def test_what_might_do_it_twice_is_not(short_dir: Path, method: str) -> None:
    """L4: unknown is not failed."""
    with faulty_broker(short_dir / "broker.sock", say(HELLO)) as came, pytest.raises(ClientError) as caught:
        ask(method, {"to": "api", "message": "x"}, deadline_in(10))
    assert len(came) == 1
    assert caught.value.sent
    assert ("not known whether the message was accepted" in caught.value.text) == (method == "send")


def test_a_refusal_is_final(short_dir: Path) -> None:
    refusal = {"jsonrpc": "2.0", "id": 2, "error": {"code": -32000, "message": "No.", "data": {"code": "refused"}}}
    with faulty_broker(short_dir / "broker.sock", say(HELLO, refusal)) as came, pytest.raises(ClientError) as caught:
        ask("send", {"to": "api", "message": "x", "key": "k"}, deadline_in(10))
    assert (len(came), caught.value.exit_code) == (1, 5)


STATUS = {"jsonrpc": "2.0", "id": 1, "result": {"broker": {"version": "1", "pid": 0}, "sessions": 2}}
STOPS = {"jsonrpc": "2.0", "id": 2, "result": {"stopping": True}}


def test_a_broker_that_went_away_is_looked_at_again(short_dir: Path) -> None:
    """15.4: `start`, `status` and `stop` while others kill it or hand it over."""
    answers = [say(), say(STATUS), say(), say(STATUS), say(STATUS), say(STATUS, STOPS)]
    with faulty_broker(short_dir / "broker.sock", lambda link, frames: answers.pop(0)(link, frames), frames=1) as came:
        assert start.main(["--json"], standalone_mode=False) == 0
        assert read_status(deadline_in(10))["sessions"] == 2
        stopped = stop_broker(find_paths(), deadline_in(10))
        assert (stopped.version, stopped.sessions) == ("1", 2)
    assert [[frame["method"] for frame in frames] for frames in came] == [["status"]] * 6


def test_one_that_always_goes_away_is_told_of(short_dir: Path) -> None:
    with faulty_broker(short_dir / "broker.sock", say(), frames=1) as came, pytest.raises(ClientError) as caught:
        read_status(deadline_in(10))
    assert (len(came), caught.value.code) == (AGAIN + 1, "no_broker")


def test_who_stops_a_broker_that_ends_meanwhile_waits_for_its_end(short_dir: Path) -> None:
    """13: it had said who it is, and was ending by itself when it was told to; nobody is there any more."""
    going = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert going.stdin is not None
    status = {"jsonrpc": "2.0", "id": 1, "result": {"broker": {"version": "1", "pid": going.pid}, "sessions": 2}}

    def answer(link: socket.socket, frames: list[dict[str, object]]) -> None:
        say(status)(link, frames)
        (short_dir / "broker.sock").unlink()
        threading.Timer(0.2, going.stdin.close).start()  # type: ignore[union-attr]

    with going, faulty_broker(short_dir / "broker.sock", answer, frames=1):
        stopped = stop_broker(find_paths(), deadline_in(10))
        assert going.poll() is not None or psutil.Process(going.pid).status() == psutil.STATUS_ZOMBIE
    assert (stopped.pid, stopped.sessions) == (going.pid, 2)

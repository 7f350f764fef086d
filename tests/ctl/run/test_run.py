"""`xsessionctl run` with a real terminal on either side."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.private_broker import PrivateBroker
from xsessionctl.shim.dialects import WAKE_LINE

PROGRAM = Path(__file__).with_name("composer_program.py")
WITHIN_S = 20.0


class Seat:
    """A user at a terminal in which `xsessionctl run` runs a program with a composer."""

    def __init__(self, place: PrivateBroker, *argv: str) -> None:
        self._log = place.home / "entered"
        self._log.touch()
        self._master, self._slave = pty.openpty()
        self.resize(100, 30)
        self.before = termios.tcgetattr(self._slave)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "xsessionctl", "run", "--", *argv],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            cwd=place.home,
            env=place.environ(TERM="xterm", COMPOSER_LOG=str(self._log)),
            start_new_session=True,
        )
        place.started.append(self.process)
        self.seen = b""

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, line: str) -> str:
        """A line that the program logged and that begins so; keeps reading the screen meanwhile."""
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            for found in self._log.read_text(encoding="utf-8").splitlines():
                if found.startswith(line):
                    return found
            self._read(0.05)
        raise AssertionError(f"no {line!r} in {self._log.read_text()!r}; screen {self.seen[-500:]!r}")

    def ring(self) -> str:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(0.02)
            client.connect(self.wait_for("bell ").partition(" ")[2])
            client.sendall(b"wake\n")
            deadline = time.monotonic() + WITHIN_S
            while time.monotonic() < deadline:
                try:
                    return client.recv(64).decode().strip()
                except TimeoutError:
                    self._read(0.0)
        raise AssertionError("no answer")

    def end(self) -> int:
        deadline = time.monotonic() + WITHIN_S
        while self.process.poll() is None and time.monotonic() < deadline:
            self._read(0.05)
        return self.process.wait(1)

    def settings(self) -> list[object]:
        return termios.tcgetattr(self._slave)

    def leave(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        os.close(self._master)
        os.close(self._slave)

    def _read(self, seconds: float) -> None:
        if select.select([self._master], [], [], seconds)[0]:
            self.seen += os.read(self._master, 65536)


@pytest.fixture
def program(broker: PrivateBroker) -> str:
    path = broker.home / "gemini"
    path.write_text(f"#!{sys.executable}\n" + PROGRAM.read_text(encoding="utf-8"), encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def seat(broker: PrivateBroker, program: str) -> Iterator[Seat]:
    made = Seat(broker, program)
    yield made
    made.leave()


def test_it_is_as_if_the_program_ran_in_the_terminal_itself(seat: Seat) -> None:
    """Its size, what is typed, its exit status, and the terminal is given back as it was."""
    assert seat.wait_for("size ") == "size 100 30"
    seat.type("hello\r")
    seat.wait_for("entered hello")
    assert b"Type your message" in seat.seen
    seat.resize(60, 20)
    seat.process.send_signal(signal.SIGWINCH)
    seat.wait_for("size 60 20")
    seat.type("quit\r")
    assert seat.end() == 7
    assert seat.settings() == seat.before


def test_the_bell_has_our_line_entered(seat: Seat) -> None:
    """7.1: and nobody's text but ours."""
    assert seat.ring() == "typed"
    assert seat.wait_for("entered ") == f"entered {WAKE_LINE}"


def test_what_the_user_has_begun_is_left_alone(seat: Seat) -> None:
    """W4, L10"""
    seat.wait_for("size ")
    seat.type("half a thought")
    while b"half a thought" not in seat.seen:
        seat._read(1.0)
    assert seat.ring() == "refused"
    seat.type("\r")
    assert seat.wait_for("entered ") == "entered half a thought"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_who_ends_it_ends_the_program(seat: Seat, number: signal.Signals) -> None:
    seat.wait_for("size ")
    seat.process.send_signal(number)
    seat.wait_for("hung up")
    assert seat.end() == 9
    assert seat.settings() == seat.before


def test_the_program_is_told_of_a_broken_pipe_as_anywhere(broker: PrivateBroker) -> None:
    """Python ignores SIGPIPE, which a program that it becomes would do too, and all that this starts."""
    shell = broker.home / "gemini"
    shell.write_text("#!/bin/sh\nkill -PIPE $$\nexit 3\n")
    shell.chmod(0o755)
    seat = Seat(broker, str(shell))
    try:
        assert seat.end() == 128 + signal.SIGPIPE
    finally:
        seat.leave()


@pytest.mark.parametrize(
    "name, code, text",
    [("no-such-directory/gemini", 3, "cannot be started"), ("/bin/true", 2, "Known: gemini")],
)
def test_what_cannot_be_run_is_refused(broker: PrivateBroker, name: str, code: int, text: str) -> None:
    seat = Seat(broker, name)
    try:
        assert seat.end() == code
        assert text.encode() in seat.seen
        assert seat.settings() == seat.before
    finally:
        seat.leave()


def test_without_a_terminal_it_is_refused(broker: PrivateBroker) -> None:
    done = broker.ctl("run", "--", "gemini", "--json")
    assert done.returncode == 2
    assert "no terminal" in done.stderr

"""Being a person in a terminal, or a program that nobody's session started, wherever the tests themselves run.

The broker tells an agent's commands from a person's by their ancestors and by the variables that harnesses set, and the
tests may well run below an agent: pytest's own ancestors then carry such marks, which nothing can take from them. So
what must be outside every session is started by a process that its parent has left, in a kernel session of its own,
with a clean environment, and for a person with a pseudo-terminal that controls it.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.private_broker import PrivateBroker
from xsessiond.io.processes import environment_marks, trace

ROOT = Path(__file__).parents[2]

LEAVE = """
import fcntl, os, signal, sys, termios, time
status, terminal, argv = int(sys.argv[1]), sys.argv[2] == "terminal", sys.argv[3:]
starter = os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == starter:
    time.sleep(0.001)
os.setsid()
if terminal:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
child = os.fork()
if not child:
    os.close(status)
    os.execvp(argv[0], argv)
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at the terminal is for the command
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
os.write(status, b"%d" % code)
"""
"""Starts `argv` below a process that has lost its parent, on standard input as its terminal if so told, and writes its
exit code to a descriptor."""


class Done(NamedTuple):
    """How a command ended, and all that appeared on the terminal, line ends as `\\n`."""

    code: int
    shown: str


def as_human(
    place: PrivateBroker,
    *words: str,
    replies: Sequence[tuple[str, str]] = (),
    columns: int = 80,
    within_s: float = 20.0,
    **extra: str,
) -> Done:
    """Run `xsessionctl` with `words` as a person in a terminal does. replies: what is typed after what was shown."""
    argv = [sys.executable, "-m", "xsessionctl", *words]
    return at_own_terminal(place, argv, replies=replies, columns=columns, within_s=within_s, **extra)


def at_own_terminal(
    place: PrivateBroker,
    argv: Sequence[str],
    *,
    replies: Sequence[tuple[str, str]] = (),
    columns: int = 80,
    within_s: float = 20.0,
    **extra: str,
) -> Done:
    """Run `argv` in a terminal that belongs to no session. Skips the test where nothing can be outside an agent."""
    require_outside()
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            leaving(writing, argv, terminal=True),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=place.home,
            env=place.environ(TERM="xterm", **extra),
            pass_fds=(writing,),
        )
        place.started.append(process)
        os.close(slave)
        os.close(writing)
        seen = _converse(master, replies, within_s)
        return Done(_read_code(reading, seen, within_s), seen.decode(errors="replace").replace("\r\n", "\n"))
    finally:
        os.close(master)
        os.close(reading)


def run_apart(
    argv: Sequence[str], *, env: dict[str, str], cwd: Path, stdin: str = "", within_s: float = 20.0
) -> subprocess.CompletedProcess[str]:
    """Run `argv` outside every session, without a terminal, as cron does; its output comes back as text."""
    require_outside()
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            leaving(writing, argv, terminal=False),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=cwd,
            env=env,
            pass_fds=(writing,),
        )
        os.close(writing)
        stdout, stderr = process.communicate(stdin, timeout=within_s)
        return subprocess.CompletedProcess(list(argv), _read_code(reading, stderr, within_s), stdout, stderr)
    finally:
        os.close(reading)


def leaving(status: int, argv: Sequence[str], *, terminal: bool) -> list[str]:
    """Return the command that runs `argv` outside. status: an inherited descriptor that its exit code is written to."""
    return [sys.executable, "-I", "-S", "-c", LEAVE, str(status), "terminal" if terminal else "none", *argv]


@cache
def below_agent() -> bool:
    """Tell whether this very process is taken for an agent's."""
    steps, complete = trace(os.getpid())
    return not complete or any(environment_marks(step.process.pid) for step in steps)


@cache
def can_be_outside() -> bool:
    """Whether a process that lost its parent is outside: not where an agent's own process collects orphans."""
    program = (
        "import os\n"
        "from xsessiond.io.processes import environment_marks, trace\n"
        "steps, complete = trace(os.getpid())\n"
        "print(complete and not any(environment_marks(step.process.pid) for step in steps))\n"
    )
    env = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": str(ROOT)}
    reading, writing = os.pipe()
    try:
        found = subprocess.run(
            leaving(writing, [sys.executable, "-c", program], terminal=False),
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            pass_fds=(writing,),
            check=False,
        )
        return found.stdout.strip() == "True"
    finally:
        os.close(writing)
        os.close(reading)


def require_outside() -> None:
    """Skip the test where every process that can be started counts as an agent's."""
    if not can_be_outside():
        pytest.skip("whatever is started here is below an agent, or its ancestors are hidden")


CTRL_C, AGAIN_S = "\x03", 1.0


def _converse(master: int, replies: Sequence[tuple[str, str]], within_s: float) -> bytes:
    """Read the terminal to its end, and type. Ctrl-C is pressed again if nothing comes of it, as people do: Python can
    miss one that comes as it is about to read."""
    seen, looked, deadline = b"", 0, time.monotonic() + within_s
    waiting, typed = list(replies), ""
    while True:
        remaining = max(0.0, deadline - time.monotonic())
        pause = min(remaining, AGAIN_S) if typed == CTRL_C else remaining
        if not select.select([master], [], [], pause)[0]:
            if pause < remaining:
                os.write(master, CTRL_C.encode())
                continue
            raise AssertionError(f"no end within {within_s} s, after {seen!r}; to be answered: {waiting}")
        try:
            data = os.read(master, 1 << 16)
        except OSError:  # how Linux says that nobody has the other side any more
            data = b""
        if not data:
            assert not waiting, f"never asked for {waiting[0][0]!r}: {seen!r}"
            return seen
        seen += data
        while waiting and (at := seen.find(waiting[0][0].encode(), looked)) >= 0:
            looked = at + len(waiting[0][0].encode())
            typed = waiting.pop(0)[1]
            os.write(master, typed.encode())


def _read_code(reading: int, seen: object, within_s: float) -> int:
    if not select.select([reading], [], [], within_s)[0]:
        raise AssertionError(f"no exit code within {within_s} s, after {seen!r}")
    code = os.read(reading, 16)
    assert code, f"it did not start: {seen!r}"
    return int(code)

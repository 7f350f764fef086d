"""Running `xsessionctl` at a terminal, as for a person who types it."""

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

from tests.support.human import as_human
from tests.support.private_broker import PrivateBroker


def at_terminal(
    place: PrivateBroker,
    *words: str,
    columns: int = 80,
    within_s: float = 20.0,
    interrupt_at: str | None = None,
    closed_output: bool = False,
    below: bool = False,
    **extra: str,
) -> tuple[int, str]:
    """Run `xsessionctl` with `words` at a terminal; returns its exit code and all that appeared, line ends as `\\n`.

    interrupt_at: type Ctrl-C once this has appeared. closed_output: it has no standard output, as after `>&-`.
    below: at a terminal of this very process, as an agent can make one.
    """
    if not (closed_output or below):
        replies = [] if interrupt_at is None else [(interrupt_at, "\x03")]
        return as_human(place, *words, replies=replies, columns=columns, within_s=within_s, **extra)
    closed = "import sys; sys.stdout = None; " if closed_output else ""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", f"{CONTROLLED}{closed}from xsessionctl.__main__ import main; main()", *words],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=place.home,
        env=place.environ(TERM="xterm", **extra),
        start_new_session=True,
    )
    place.started.append(process)
    os.close(slave)
    seen, deadline = b"", time.monotonic() + within_s
    try:
        while True:
            if not select.select([master], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"no end within {within_s} s, after {seen!r}")
            try:
                data = os.read(master, 1 << 16)
            except OSError:  # how Linux says that nobody has the other side any more
                break
            if not data:
                break
            seen += data
            if interrupt_at is not None and interrupt_at.encode() in seen:
                os.write(master, b"\x03")
                interrupt_at = None
    finally:
        os.close(master)
    return process.wait(10), seen.decode().replace("\r\n", "\n")


CONTROLLED = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
"""What makes standard input the terminal that controls the process."""

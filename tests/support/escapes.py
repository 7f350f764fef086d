"""What a program does that wants nobody to know who started it. Run as `python escapes.py KIND… -- COMMAND…`.

    scrub    with a clean environment
    setsid   in a session of its own
    leave    its parent ends first, so that whoever collects orphans becomes its parent
    pty      with a pseudo-terminal of its own

In any combination. The output of COMMAND comes out here, and its exit code is ours.
"""

from __future__ import annotations

import fcntl
import os
import pty
import sys
import termios
import time

KEPT = ("HOME", "PATH", "PYTHONPATH", "XSESSIOND_RUNTIME_DIR", "XSESSIOND_STATE_DIR", "XSESSIOND_CONFIG_DIR")
"""What a scrubbed environment has: the least with which COMMAND finds the broker."""


def run(kinds: set[str], command: list[str]) -> int:
    """Run `command` in these ways and return its exit code."""
    if "leave" not in kinds:
        return _start(kinds, command)
    reading, writing = os.pipe()
    if os.fork() == 0:
        starter = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == starter:
            time.sleep(0.001)
        os.write(writing, b"%d" % _start(kinds, command))
        os._exit(0)
    os.close(writing)
    os.wait()
    return int(os.read(reading, 16) or b"-1")


def _start(kinds: set[str], command: list[str]) -> int:
    own, inside = pty.openpty() if "pty" in kinds else (-1, -1)
    child = os.fork()
    if child == 0:
        if kinds & {"setsid", "pty"}:
            os.setsid()
        if inside >= 0:
            fcntl.ioctl(inside, termios.TIOCSCTTY, 0)
            for descriptor in (0, 1, 2):
                os.dup2(inside, descriptor)
        os.execvp(command[0], command)
    if inside >= 0:
        os.close(inside)
        _copy(own)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _copy(terminal: int) -> None:
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # how Linux says that nobody has the other side any more
            return
        if not data:
            return
        os.write(1, data)


def main(words: list[str]) -> int:
    """Run what the command line says."""
    at = words.index("--")
    kinds, command = set(words[:at]), words[at + 1 :]
    if "scrub" in kinds:
        left = [sys.executable, __file__, *sorted(kinds - {"scrub"}), "--", *command]
        os.execve(sys.executable, left, {name: os.environ[name] for name in KEPT if name in os.environ})
    return run(kinds, command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

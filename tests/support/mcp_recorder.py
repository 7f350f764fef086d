"""Stands between an MCP client and its server and writes down what is said, line by line.

Run as ``python -m tests.support.mcp_recorder FILE COMMAND...``. It is also the process that tells one session from
another.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import IO


def _pump(source: IO[bytes], target: IO[bytes], log: int, mark: bytes) -> None:
    for line in source:
        os.write(log, mark + line)  # one write: the two directions do not mix within a line
        try:
            target.write(line)
            target.flush()
        except OSError:
            break
    try:
        target.close()
    except OSError:
        pass


def main(arguments: list[str]) -> int:
    """Run COMMAND with its streams recorded in FILE, which is appended to; return its exit status."""
    log = os.open(arguments[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with subprocess.Popen(arguments[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        there = threading.Thread(target=_pump, args=(sys.stdin.buffer, child.stdin, log, b"> "), daemon=True)
        back = threading.Thread(target=_pump, args=(child.stdout, sys.stdout.buffer, log, b"< "))
        there.start()
        back.start()
        back.join()
        return child.wait()


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # the thread that waits for input would keep it from ending

"""A connected session in a process of its own, which acknowledges all it gets.

usage: python -m tests.bench.ear RENDEZVOUS NAME   prints its id; ends when its input is closed
It is not part of the bench's own process, so that commands started by the bench are a script's and not this session's.
"""

import contextlib
import pathlib
import select
import subprocess
import sys
from collections.abc import Iterator

from tests.bench import ours
from tests.bench.machine import BenchError


def main(rendezvous: str, name: str) -> None:
    """Acknowledges each push at once until stdin closes."""
    session = ours.join(pathlib.Path(rendezvous), name, push=True)
    print(session.id, flush=True)
    sock = session.link.handed_over()
    rest, pushed = b"", 0
    while True:
        ready, _, _ = select.select([sock, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        data = sock.recv(1 << 16)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        if arrived := sum(ours.PUSH in line[:192] for line in lines):
            pushed += arrived
            sock.sendall(ours.line("ack", {"upto": pushed}, None))


@contextlib.contextmanager
def listening(running: ours.OurRunning, name: str) -> Iterator[str]:
    """Runs such a process until the block ends; gives the session's id."""
    argv = [sys.executable, "-m", "tests.bench.ear", str(running.path), name]
    proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert proc.stdin is not None
    assert proc.stdout is not None
    try:
        who = proc.stdout.readline().strip()
        if not who:
            raise BenchError("the listening session did not start")
        yield who
    finally:
        proc.stdin.close()
        proc.wait(10)
        proc.stdout.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

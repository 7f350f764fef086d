"""Many processes that all want to be the broker, and one that kills some of them: the program of the racing starts.

Run as `python -m tests.support.contestants RUNTIME_DIR STATE_DIR ROUNDS CONTESTANTS SEED`. It has one thread, so that
it may fork: the contestants are ready in a millisecond and race in earnest. Each takes the lock, binds, and tells; the
kernel watches over them independently, by a name in the abstract namespace that only one of them can have (Linux).

Prints one JSON object: winners (how many listened), violations (sentences), strangers (pids that losers named as the
running one, and that never were in the race).
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import sys
import time

from xsessiond.io.listener import PathInUse, bind_listener
from xsessiond.io.lock import AlreadyRunning, acquire_broker_lock
from xsessiond.io.runtime_dir import make_directories
from xsessiond.paths import Paths, resolve_paths

LOST, TWO_AT_ONCE, BROKEN = 3, 4, 5


def contend(paths: Paths, start: int, tell: int) -> int:
    """Be one contestant: wait for the start, then listen until killed, or return the exit status of who lost."""
    witness = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.read(start, 1)
    try:
        make_directories(paths)
        lock = acquire_broker_lock(paths, "0")
        deadline = time.monotonic() + 2.0
        while True:
            try:
                witness.bind("\0" + paths.runtime_dir)
                break
            except OSError:
                if time.monotonic() > deadline:  # a dying predecessor lets go of it in a moment; a living one does not
                    return TWO_AT_ONCE
                time.sleep(0.005)
        listener = bind_listener(paths.broker_socket, lock)
    except AlreadyRunning as error:
        os.write(tell, f"L {error.pid or 0}\n".encode())
        return LOST
    os.write(tell, f"W {os.getpid()}\n".encode())
    listener.setblocking(True)
    while True:
        connection, _ = listener.accept()
        connection.send(str(os.getpid()).encode())
        connection.close()


def fork_one(paths: Paths, start: int, tell: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = BROKEN
    try:
        status = contend(paths, start, tell)
    except PathInUse:
        status = TWO_AT_ONCE
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    finally:
        os._exit(status)


def ask(path: str) -> int | None:
    """Return the pid of who answers at `path`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(10)
        try:
            client.connect(path)
            return int(client.recv(32) or b"0") or None
        except OSError:
            return None


class Race:
    def __init__(self, paths: Paths, contestants: int, seed: int) -> None:
        self.paths = paths
        self.contestants = contestants
        self.random = random.Random(seed)
        self.winners: list[int] = []
        self.violations: list[str] = []
        self.named: set[int] = set()
        self.everybody: set[int] = set()

    def round(self) -> None:
        """Start all at once and kill some while they race; then see who answers, and kill it for the next round."""
        start, go = os.pipe()
        tell, told = os.pipe()
        living = {fork_one(self.paths, start, told) for _ in range(self.contestants)}
        self.everybody |= living
        os.close(told)
        os.write(go, b"x" * self.contestants)
        killed = set(self.random.sample(sorted(living), self.random.choice((0, 0, 1, 5, self.contestants // 2))))
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
            if self.random.random() < 0.3:
                time.sleep(self.random.random() * 0.004)
        news = self.listen(tell, living, killed)
        winners = [int(pid) for word, pid in news if word == "W"]
        alive = [pid for pid in winners if pid not in killed]
        self.winners += winners
        self.named |= {int(pid) for word, pid in news if word == "L"} - {0}
        if len(alive) > 1:
            self.violations.append(f"{alive} listened at the same time")
        if not killed and len(alive) != 1:
            self.violations.append("nobody was killed, and nobody listened")
        if alive and ask(self.paths.broker_socket) != alive[0]:
            self.violations.append("the winner did not answer at the path")
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
        for pid in living:
            self.reap(pid)
        for fd in (start, go, tell):
            os.close(fd)

    def listen(self, tell: int, living: set[int], killed: set[int]) -> list[list[str]]:
        """Collect what the contestants tell until every one has told, was killed, or has ended."""
        text, deadline = b"", time.monotonic() + 30
        while time.monotonic() < deadline:
            if select.select([tell], [], [], 0.2)[0]:
                text += os.read(tell, 65536)
            lines = [line.split() for line in text.decode().splitlines()]
            if len(lines) >= len(living) or not self.silent(living - killed, len(lines)):
                break
        else:
            self.violations.append("a contestant neither won nor lost")
        return [line.split() for line in text.decode().splitlines()]

    def silent(self, expected: set[int], told: int) -> bool:
        """Tell whether somebody that was not killed has not told yet. (Killed ones may have told before.)"""
        return told < len(expected) or any(self.runs(pid) for pid in expected if not self.won(pid))

    def runs(self, pid: int) -> bool:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def won(self, pid: int) -> bool:
        return pid == ask(self.paths.broker_socket)

    def reap(self, pid: int) -> None:
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status == TWO_AT_ONCE:
            self.violations.append(f"{pid} had the lock while another listened")
        if status == BROKEN:
            self.violations.append(f"{pid} broke")


def main(runtime_dir: str, state_dir: str, rounds: str, contestants: str, seed: str) -> None:
    """Run the race."""
    os.environ.update(XSESSIOND_RUNTIME_DIR=runtime_dir, XSESSIOND_STATE_DIR=state_dir)
    race = Race(resolve_paths(), int(contestants), int(seed))
    for _ in range(int(rounds)):
        race.round()
    strangers = sorted(race.named - race.everybody)
    print(json.dumps({"winners": len(race.winners), "violations": race.violations, "strangers": strangers}))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Many brokers that all want to be the one: the real program, forked from a process that has it loaded already.

Run as `python -m tests.support.racing_brokers ROUNDS CONTESTANTS SEED` in the environment of a private broker. It has
one thread, so that it may fork: fifty brokers are at their first line within milliseconds and race in earnest, where
fifty interpreters would come one after the other. Each round some are killed while they race, and the winner at its
end. How many listen is asked of the kernel (/proc/net/unix), all the time.

Prints one JSON object: rounds, killed, samples, most (listeners seen at once), violations (sentences).
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.support.wire_client import LinkLost, read_status
from xsessiond.app import main as run_broker
from xsessiond.paths import resolve_paths

LOSER = re.compile(r"xsessiond: already running \(pid (\d+)\): it holds \S+\n")
LISTENS = "00010000"
"""The flag of a listening socket in /proc/net/unix (__SO_ACCEPTCON)."""


def count_listeners(path: str) -> int:
    """Return how many sockets listen that were bound to `path`, whether or not they can still be reached there."""
    text = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace")
    return sum(1 for line in text.splitlines() if line.endswith(f" {path}") and line.split()[3] == LISTENS)


class Contestant:
    """One forked broker. said: what it wrote to standard error, once it has ended."""

    def __init__(self, start: int) -> None:
        with tempfile.TemporaryFile() as stderr:
            self._stderr = os.dup(stderr.fileno())
        self.pid = os.fork()
        if self.pid == 0:
            status = 70
            try:
                os.dup2(self._stderr, 2)
                sys.stderr = os.fdopen(2, "w", closefd=False)
                os.read(start, 1)
                status = run_broker([])
                sys.stderr.flush()
            finally:
                os._exit(status)

    def has_ended(self) -> bool:
        """Tell whether it is dead, without taking its status away."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def kill(self) -> None:
        """SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)

    def reap(self) -> tuple[int, str]:
        """Return its exit status and what it said."""
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        said = os.pread(self._stderr, 1 << 16, 0).decode(errors="replace")
        os.close(self._stderr)
        return status, said


class Race:
    """Rounds of one race, and what was seen in them."""

    def __init__(self, contestants: int, seed: int) -> None:
        self.socket = resolve_paths().broker_socket
        self.contestants = contestants
        self.random = random.Random(seed)
        self.violations: list[str] = []
        self.ever: set[int] = set()
        self.killed = self.samples = self.most = 0

    def run_round(self) -> None:
        """Start all at once, kill some while they race, and see who is left."""
        start, go = os.pipe()
        racers = {racer.pid: racer for racer in (Contestant(start) for _ in range(self.contestants))}
        self.ever |= set(racers)
        os.write(go, b"x" * self.contestants)
        doomed = self.random.sample(sorted(racers), self.random.choice((0, 0, 1, 5, self.contestants // 2)))
        for pid in doomed:
            self.sample()
            time.sleep(self.random.random() * 0.004)
            racers[pid].kill()
        self.killed += len(doomed)
        left = self.await_end(racers, set(doomed))
        self.judge(racers, set(doomed), left)
        os.close(start)
        os.close(go)

    def sample(self) -> None:
        """Ask the kernel how many listen now."""
        self.samples += 1
        count = count_listeners(self.socket)
        self.most = max(self.most, count)
        if count > 1:
            self.violations.append(f"{count} listened at the same time")

    def await_end(self, racers: dict[int, Contestant], doomed: set[int]) -> set[int]:
        """Wait until all but one have ended, or all, and that one answers; return who is left."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            self.sample()
            left = {pid for pid, racer in racers.items() if not racer.has_ended()}
            if not left or (len(left) == 1 and self.answers() in left):
                return left
            time.sleep(0.005)
        self.violations.append("after a minute there was still more than one, or one that did not answer")
        return {pid for pid, racer in racers.items() if not racer.has_ended()}

    def answers(self) -> int | None:
        """Return the pid of who answers at the rendezvous."""
        try:
            return int(read_status(self.socket)["broker"]["pid"])
        except (LinkLost, TimeoutError):
            return None

    def judge(self, racers: dict[int, Contestant], doomed: set[int], left: set[int]) -> None:
        """One is left, unless it was killed when the others had lost to it; the others say who runs and are content."""
        if not left and not doomed:
            self.violations.append("nobody was killed, and nobody listens")
        for pid in left:
            racers[pid].kill()
        for pid, racer in racers.items():
            status, said = racer.reap()
            if pid in left or pid in doomed:
                continue
            found = LOSER.fullmatch(said)
            if status != 0 or found is None:
                self.violations.append(f"{pid} ended with {status} and said {said!r}")
            elif not doomed and left and int(found[1]) not in left:
                self.violations.append(f"{pid} says that {found[1]} runs, and it is {left}")
            elif int(found[1]) not in self.ever:
                self.violations.append(f"{pid} names {found[1]}, which was never there")


def main(rounds: str, contestants: str, seed: str) -> None:
    """Run the race and print what was seen."""
    race = Race(int(contestants), int(seed))
    for _ in range(int(rounds)):
        race.run_round()
    found = {"killed": race.killed, "samples": race.samples, "most": race.most, "violations": race.violations[:20]}
    print(json.dumps({"rounds": int(rounds), **found}))


if __name__ == "__main__":
    main(*sys.argv[1:])

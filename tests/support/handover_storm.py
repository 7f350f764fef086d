"""A broker that is replaced again and again, by several at once, and killed in the middle of it, while others use it.

As in `kill_storm`, but all that is done to the broker is done with the product's own commands, each a process: twenty
that send under keys, one after the other, of which some wait for a reply; one to three `restart`s at once; who finds no
broker starts one. `kill -9` comes at a random moment of that. One session's mail is held all the time, and stays so.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.support.kill_storm import KillStorm, require_passing
from tests.support.private_broker import PrivateBroker, accepts
from tests.support.racing_brokers import count_listeners
from tests.support.wire_client import LinkLost, Refused

KILLED = 0.6
"""How many of the rounds a kill comes in."""
WITHIN_S = 1.2
"""And when, at most, after the restarts began: about as long as they take."""


class HandoverStorm(KillStorm):
    """The same sessions and the same ledger. held: key → id of what waits for a person. most: listeners seen at once.
    ended: rounds in which the broker was killed."""

    def __init__(self, place: PrivateBroker, *, senders: int, receivers: int, seed: int) -> None:
        super().__init__(place, senders=senders, receivers=receivers, seed=seed)
        self.senders.append("held")
        self.held: dict[str, str] = {}
        self.most = self.ended = 0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._pair_seq: Counter[str] = Counter()

    def ensure_broker(self) -> None:
        """Start one as anybody does, if none listens."""
        if not accepts(self.place.rendezvous):
            self._ctl("start", may=(0,))

    def _ctl(self, *words: str, may: tuple[int, ...]) -> subprocess.CompletedProcess[str]:
        done = self.place.ctl(*words, within_s=90)
        if done.returncode not in may or "Traceback" in done.stderr:
            self.ledger.faults.append(f"{words} ended with {done.returncode}: {done.stdout} {done.stderr}")
        return done

    def _kill(self) -> None:
        """One round: restarts that race, and perhaps a kill in the middle of them."""
        self.ensure_broker()
        racers = [
            self.place.spawn(sys.executable, "-m", "xsessionctl", "restart")
            for _ in range(self.random.choice((1, 2, 3)))
        ]
        if self.random.random() < KILLED:
            self._watch(self.random.random() * WITHIN_S)
            self._kill_holder()
        for racer in racers:
            told, wrong = racer.communicate(timeout=90)
            if racer.returncode:
                self.ledger.faults.append(f"a restart ended with {racer.returncode}: {told!r} {wrong!r}")
            self.place.started.remove(racer)
        self.kills += 1

    def _watch(self, for_s: float) -> None:
        """Count who listens, all that time."""
        for _ in range(int(for_s / 0.01)):
            self.most = max(self.most, count_listeners(str(self.place.rendezvous)))
            self._over.wait(0.01)

    def _kill_holder(self) -> None:
        try:
            pid = int((self.place.runtime_dir / "broker.lock").read_text().split()[0])
            if b"xsessiond" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                self.ended += 1
        except (OSError, ValueError, IndexError):
            pass  # killed before, and none there yet

    def _send(self, name: str) -> None:
        if name == "held":
            self._send_held()
            return
        number = 0
        while not self._over.is_set():
            key, words = f"{name}/{number}", ["--when-offline", "queue", "--json"]
            if number % 5 == 4:
                words += ["--wait", "0.05"]
            to = self.receivers[number % len(self.receivers)]
            # 7: it is not known whether it was accepted, or no reply came. A key may be sent until it is known.
            while not (done := self._ctl("send", to, key, "--key", key, *words, may=(0, 7))).stdout.startswith('{"id"'):
                self.ledger.retries += 1
            self.ledger.answered[key] = json.loads(done.stdout)["id"]
            number += 1

    def _send_held(self) -> None:
        """A session that writes to one whose mail is held, both of which come back."""
        with self._join("web", push=False) as web, self._join("bold", push=False, **{"class": "bypass"}) as bold:
            while not self._over.wait(0.5):
                try:
                    key = f"web/{len(self.held)}"
                    self.held[key] = web.send("bold", key, key=key, when_offline="queue")["id"]
                    bold.call("status")
                except (LinkLost, Refused) as problem:
                    require_passing(problem)
                    self._rejoin(web)
                    self._rejoin(bold)

    def _read(self, receiver: str, message: dict[str, object]) -> tuple[str, int, int]:
        """All of it is from one person; what is between these two is counted here."""
        sender, number = str(message["text"]).split("/")
        if message["seq"] != self._pair_seq[receiver] + 1:
            self.ledger.faults.append(f"{receiver} got {message['seq']} after {self._pair_seq[receiver]}")
        self._pair_seq[receiver] += 1
        self._counts[receiver, sender] += 1
        return sender, int(number), self._counts[receiver, sender]

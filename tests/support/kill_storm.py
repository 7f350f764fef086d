"""Senders and receivers that go on working while their broker is killed with -9 again and again.

Every session here is a thread with a link of its own that comes back by itself: who finds no broker starts one, under a
lock, as the product's clients do. A `Ledger` writes down what was asked, answered and received, and `find_faults` says
what of that breaks the promises: answered once is delivered exactly once, unanswered at most once, order per pair.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.broker_files import open_store
from tests.support.private_broker import PrivateBroker, accepts
from tests.support.wire_client import LinkLost, Member, Refused, await_status

NO_LIMITS = """
[pacing]
target_burst = 0
sender_burst = 0
queue_per_session = 100000
"""
ABANDONED = 0.05
"""How often a sender that lost its link gives the message up, as one does that crashed."""
LONGEST_LIFE_S = 0.15
"""A broker is killed at a random moment within this time, counted from its start or from when it listened."""


@dataclass(slots=True)
class Ledger:
    """What happened. answered: key → message id. abandoned: keys that were never answered. received: per receiver, the
    (sender, number, pair seq, id) of each message when it came first. again: ids that came again, and how often."""

    answered: dict[str, str] = field(default_factory=dict)
    abandoned: set[str] = field(default_factory=set)
    received: dict[str, list[tuple[str, int, int, str]]] = field(default_factory=lambda: defaultdict(list))
    again: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    retries: int = 0

    def find_faults(self) -> list[str]:
        """Return what breaks a promise, as sentences."""
        faults = list(self.faults)
        key_of = {message_id: key for key, message_id in self.answered.items()}
        if len(key_of) != len(self.answered):
            faults.append("two keys were answered with one id")
        arrived: Counter[str] = Counter()
        for receiver, rows in self.received.items():
            last: dict[str, tuple[int, int]] = {}
            for sender, number, seq, message_id in rows:
                key = f"{sender}/{number}"
                arrived[key] += 1
                if self.answered.get(key, message_id) != message_id:
                    faults.append(f"{key} arrived as {message_id} and was answered as {self.answered[key]}")
                before = last.get(sender, (-1, 0))
                if number <= before[0] or seq != before[1] + 1:
                    faults.append(f"{receiver} got {key} (seq {seq}) after {before}")
                last[sender] = number, seq
        faults += [f"{key} was answered and never arrived" for key in self.answered if key not in arrived]
        faults += [f"{key} arrived {count} times" for key, count in arrived.items() if count > 1]
        faults += [
            f"{key} arrived and was never sent" for key in arrived if key not in self.answered.keys() | self.abandoned
        ]
        return faults


def require_passing(problem: LinkLost | Refused) -> None:
    """Raise what is not passed by coming again: the broker is gone, or being replaced."""
    if isinstance(problem, Refused) and problem.code != "no_broker":
        raise problem


class KillStorm:
    """Runs senders and receivers against the broker of a place and kills it."""

    def __init__(self, place: PrivateBroker, *, senders: int, receivers: int, seed: int) -> None:
        self.place = place
        self.random = random.Random(seed)
        self.ledger = Ledger()
        self.senders = [f"from{number}" for number in range(senders)]
        self.receivers = [f"to{number}" for number in range(receivers)]
        self.kills = self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self._started = threading.Event()
        self._over, self._drained = threading.Event(), threading.Event()
        self._errors: list[BaseException] = []
        (place.config_dir / "config.toml").write_text(NO_LIMITS)

    # -- the broker --------------------------------------------------------------------------------------------------

    def ensure_broker(self) -> None:
        """Start a broker if none listens, as any client that finds none does; the others wait for that one."""
        with self._starting:
            deadline = time.monotonic() + 30
            while not accepts(self.place.rendezvous):
                if self._process is None or self._process.poll() is not None:
                    self._process = self._start()
                    self._started.set()
                if time.monotonic() > deadline:
                    raise AssertionError(f"no broker within 30 s: {self._stderr.read_text(errors='replace')}")
                time.sleep(0.005)

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        with self._stderr.open("ab") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "xsessiond"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
                cwd=self.place.home, env=self.place.environ(),
            )  # fmt: skip
        self.place.started[:] = [process]  # of the earlier ones nothing is left
        return process

    @property
    def _stderr(self) -> Path:
        return self.place.root / "broker.err"

    def _kill(self) -> None:
        """Let it live for a random while, be it still starting or at work, and kill it."""
        if not self._started.wait(30):
            raise AssertionError("nobody started a broker")
        if self.random.random() > 0.1:
            self.ensure_broker()
        self._over.wait(self.random.random() * LONGEST_LIFE_S)
        self._started.clear()
        process = self._process
        assert process is not None
        process.kill()
        status = process.wait(20)
        if status != -9:
            self.ledger.faults.append(f"the broker had ended by itself, with {status}")
        self.kills += 1

    # -- the sessions ------------------------------------------------------------------------------------------------

    def run(self, kills: int) -> Ledger:
        """Kill so often, let everything arrive, stop, and return what happened. Raises what a thread raised."""
        threads = [threading.Thread(target=self._watched, args=(self._receive, name)) for name in self.receivers]
        threads += [threading.Thread(target=self._watched, args=(self._send, name)) for name in self.senders]
        self.ensure_broker()
        for thread in threads:
            thread.start()
        try:
            while self.kills < kills and not self._errors:
                self._kill()
            self._over.set()
            for thread in threads[len(self.receivers) :]:
                thread.join(60)
            if not self._errors:
                self.ensure_broker()
                await_status(self.place.rendezvous, queued=0, within_s=60)
        finally:
            self._over.set()
            self._drained.set()
            for thread in threads:
                thread.join(60)
        if self._errors:
            raise self._errors[0]
        return self.ledger

    def _watched(self, work: object, name: str) -> None:
        try:
            work(name)  # type: ignore[operator]
        except BaseException as problem:
            self._errors.append(problem)

    def _join(self, name: str, *, push: bool, **about: str) -> Member:
        while True:
            self.ensure_broker()
            try:
                return Member(self.place.rendezvous, name, push=push, harness_session_id=f"talk-{name}", **about)
            except (LinkLost, Refused) as problem:
                require_passing(problem)

    def _rejoin(self, member: Member) -> None:
        self.ledger.retries += 1
        before = member.id
        while True:
            self.ensure_broker()
            try:
                member.rejoin()
            except (LinkLost, Refused) as problem:
                require_passing(problem)
                continue
            if member.id != before:
                self.ledger.faults.append(f"{before} came back as {member.id}")
            return

    def _send(self, name: str) -> None:
        """Send to one receiver after the other, each message until it is answered, or sometimes given up."""
        choice = random.Random(name)
        with self._join(name, push=False) as member:
            number = 0
            while not self._over.is_set():
                self._send_one(member, number, self.receivers[number % len(self.receivers)], choice)
                number += 1

    def _send_one(self, member: Member, number: int, to: str, choice: random.Random) -> None:
        key = f"{member.about['name']}/{number}"
        while True:
            try:
                self.ledger.answered[key] = member.send(to, f"number {number}", key=key)["id"]
                return
            except LinkLost:
                self._rejoin(member)
                if choice.random() < ABANDONED:
                    self.ledger.abandoned.add(key)
                    return
            except Refused as refusal:
                if refusal.code != "not_found":  # a receiver that has not come yet at all
                    raise

    def _receive(self, name: str) -> None:
        """Take what comes, write it down, acknowledge it; every second receiver has its mail pushed."""
        push = int(name.removeprefix("to")) % 2 == 0
        seen: set[str] = set()
        done: set[str] = set()
        with self._join(name, push=push) as member:
            while not self._drained.is_set():
                try:
                    if push:
                        self._receive_pushed(member, seen, done)
                    else:
                        self._receive_taken(member, seen, done)
                except (LinkLost, Refused) as problem:
                    require_passing(problem)
                    self._rejoin(member)

    def _receive_pushed(self, member: Member, seen: set[str], done: set[str]) -> None:
        while not self._drained.is_set():
            if not member.wire.has_more(0.05):
                continue
            params = member.wire.note("message")
            message = params["message"]
            self._record(member, message, seen, done)
            if member.call("ack", upto=params["n"])["acked"]:
                done.add(message["id"])

    def _receive_taken(self, member: Member, seen: set[str], done: set[str]) -> None:
        while not self._drained.is_set():
            messages = member.take()
            for message in messages:
                self._record(member, message, seen, done)
            if messages:
                ids = [message["id"] for message in messages]
                if member.ack(*ids) == len(ids):
                    done.update(ids)
            else:
                self._drained.wait(0.01)

    def _record(self, member: Member, message: dict[str, object], seen: set[str], done: set[str]) -> None:
        """Write a message down once: only what was not acknowledged, for all we know, may come again."""
        message_id = str(message["id"])
        if message_id in done:
            self.ledger.faults.append(f"{message_id} came again after its acknowledgement was answered")
        if message_id in seen:
            self.ledger.again[message_id] += 1
            return
        seen.add(message_id)
        receiver = str(member.about["name"])
        self.ledger.received[receiver].append((*self._read(receiver, message), message_id))

    def _read(self, receiver: str, message: dict[str, object]) -> tuple[str, int, int]:
        """Return who sent it, which of the sender's it is, and which between these two."""
        origin, seq = message["from"], message["seq"]
        assert isinstance(origin, dict)
        assert isinstance(seq, int)
        return origin["name"], int(str(message["text"]).removeprefix("number ")), seq


def find_store_faults(path: Path, ledger: Ledger) -> list[str]:
    """Return what is wrong with the store at `path` after a storm: its integrity, its messages, their states."""
    with open_store(path) as db:
        faults = [str(text) for (text,) in db.execute("PRAGMA integrity_check") if text != "ok"]
        rows = db.execute(
            'SELECT c.id, m."key", m.state FROM message m JOIN content c ON c.seq = m.seq ORDER BY m.seq'
        ).fetchall()
    stored = {key: message_id for message_id, key, _ in rows}
    if len(stored) != len(rows):
        faults.append("a key stands in the store twice")
    faults += [f"{key} was answered and is not stored" for key in ledger.answered if key not in stored]
    faults += [f"{message_id} is {state}" for message_id, _, state in rows if state != "delivered"]
    return faults

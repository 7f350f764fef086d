"""How fast newcomers may come: a token bucket for each who sends them, and an end at once for what comes above that.

Laws: who sends is found from what the kernel says alone. At the rendezvous it is the nearest session that a process
descends from, else the whole tree that it is part of, so that many short processes are one. At a session's private
socket it is the process itself, so that nothing else that a session runs keeps its own way back closed. Who is above
the pace costs no look at a process while that lasts. It is answered and closed, not left in the kernel's backlog: that
is one line for all, in which everybody else would stand behind it. Time is an argument. Refuses to know: what is said
on a connection, and how many may be open.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Container
from typing import NamedTuple

from xsessiond.core.effects import Peer, ProcessId
from xsessiond.core.errors import Refusal
from xsessiond.core.jsonrpc import REFUSED
from xsessiond.core.limits import CONNECT_BURST, CONNECTS_PER_SECOND
from xsessiond.core.outgoing import encode_error
from xsessiond.core.pacing import Bucket

SENDERS_KEPT = 1024
"""Senders beyond which those whose bucket is full again are forgotten; one that may be above the pace never is."""
TURNED_AWAY_KEPT = 1024
"""Processes that are remembered as above the pace; one that is not is looked at again."""

_REFUSAL = Refusal(
    "rate_limited",
    f"Too many connections: {CONNECTS_PER_SECOND:g} a second are taken from what one session, terminal or service "
    f"starts, and {CONNECT_BURST:g} at once. Nothing was done.",
    "Wait, or end what connects so often.",
    retry_after_s=1.0,
)
_ANSWER = encode_error(None, REFUSED, _REFUSAL.text, _REFUSAL.to_json())


class Sender(NamedTuple):
    """Who connections are charged to. door: the session whose private socket it is, None for the rendezvous. pid: of
    the process that stands for all, None for those of which nothing can be seen."""

    door: str | None
    pid: int | None


def find_sender(door: str | None, peer: Peer, known: Container[ProcessId]) -> Sender:
    """Who sent this peer. known: the processes of sessions."""
    if door is not None:
        return Sender(door, peer.process.pid if peer.process is not None else None)
    nearest = next((process.pid for process in peer.ancestors if process in known), None)
    return Sender(None, nearest if nearest is not None else peer.tree)


def say_why(sock: socket.socket) -> None:
    """Tells who is turned away the reason. The caller closes the connection."""
    try:
        sock.send(_ANSWER)
    except OSError:
        pass  # it has gone


class Arrivals:
    """The pace of all. report(text, pid): called once for each sender that comes too fast, until it has rested."""

    __slots__ = ("_buckets", "_over", "_report", "_told")

    def __init__(self, report: Callable[[str, int | None], None]) -> None:
        self._report = report
        self._buckets: dict[Sender, Bucket] = {}
        self._over: dict[Sender, Bucket] = {}
        self._told: set[Sender] = set()

    def is_over(self, came: Sender, mono: float) -> bool:
        """Whether this very process is known to come from somebody who is above the pace still. came: its own pid."""
        bucket = self._over.get(came)
        if bucket is None:
            return False
        if bucket.fill(CONNECT_BURST, CONNECTS_PER_SECOND, mono) < 1.0:
            return True
        del self._over[came]
        return False

    def admit(self, came: Sender, sender: Sender, mono: float) -> bool:
        """Takes one connection from what its sender may have; False where that is nothing now."""
        bucket = self._buckets.get(sender)
        if bucket is None:
            if len(self._buckets) >= SENDERS_KEPT:
                self._forget_rested(mono)
            bucket = self._buckets[sender] = Bucket(CONNECT_BURST, mono)
        level = bucket.fill(CONNECT_BURST, CONNECTS_PER_SECOND, mono)
        if level >= 1.0:
            if level >= CONNECT_BURST:
                self._told.discard(sender)
            bucket.level -= 1.0
            return True
        if len(self._over) >= TURNED_AWAY_KEPT:
            self._over.clear()
        self._over[came] = bucket
        if sender not in self._told:
            self._told.add(sender)
            self._report("connections come too fast and are turned away", sender.pid)
        return False

    def _forget_rested(self, mono: float) -> None:
        for sender, bucket in list(self._buckets.items()):
            if bucket.fill(CONNECT_BURST, CONNECTS_PER_SECOND, mono) >= CONNECT_BURST:
                del self._buckets[sender]
                self._told.discard(sender)

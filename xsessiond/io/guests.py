"""Who is connected to one listening socket, and whom to let go when it is crowded, so that newcomers get in.

Laws: a connection that has proven whose it is stays before any that has not; then the sender with the most connections
loses one: the oldest of that process of its own which has the most. Refuses to know: what is said on a connection, how
it is closed, who counts as one sender (`arrivals`).
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from xsessiond.core.limits import FILES_PER_SESSION, MAX_CONNECTIONS
from xsessiond.core.link import Link
from xsessiond.io.arrivals import Sender

SPARE = 24
"""Descriptors of the broker's own: sockets, locks, the store, and what it opens to look who is calling."""
LEAST = 4


def most_guests(open_files: int) -> int:
    """How many may stay at the rendezvous of a broker that may have so many files open: what the most sessions leave of
    them, so that no crowd takes the descriptor that a person's command needs."""
    return min(MAX_CONNECTIONS - 1, max(LEAST, open_files // FILES_PER_SESSION - SPARE))


class _Guest(NamedTuple):
    sender: Sender
    pid: int | None
    protocol: Link


class Guests:
    """The connections of one socket. most: how many may stay."""

    __slots__ = ("_here", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._here: dict[int, _Guest] = {}

    def __len__(self) -> int:
        return len(self._here)

    def enter(self, link: int, sender: Sender, pid: int | None, protocol: Link) -> int | None:
        """One came, from this process of this sender's. Returns the link that must go for it, if one must."""
        self._here[link] = _Guest(sender, pid, protocol)
        if len(self._here) <= self._most:
            return None
        unproven = {other: guest for other, guest in self._here.items() if not guest.protocol.proven and other != link}
        senders = Counter(guest.sender for guest in unproven.values())
        processes = Counter((guest.sender, guest.pid) for guest in unproven.values())

        def weight(other: int) -> tuple[int, int]:
            guest = unproven[other]
            return senders[guest.sender], processes[guest.sender, guest.pid]

        return max(unproven, key=weight, default=link)  # max: the first of equals

    def leave(self, link: int) -> None:
        """One has gone."""
        del self._here[link]

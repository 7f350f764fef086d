"""Who is connected to one listening socket, and whom to let go when it is crowded, so that newcomers get in.

Laws: a connection that has proven whose it is stays before any that has not; then the process with the most
connections loses one, its oldest. Refuses to know: what is said on a connection, how it is closed.
"""

from __future__ import annotations

from collections import Counter

from xsessiond.core.link import Link


class Guests:
    """The connections of one socket. most: how many may stay."""

    __slots__ = ("_here", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._here: dict[int, tuple[int, Link]] = {}

    def __len__(self) -> int:
        return len(self._here)

    def enter(self, link: int, pid: int, protocol: Link) -> int | None:
        """One came, from this process. Returns the link that must go for it, if one must."""
        self._here[link] = pid, protocol
        if len(self._here) <= self._most:
            return None
        unproven = [(other, pid) for other, (pid, its) in self._here.items() if not its.proven and other != link]
        crowd = Counter(pid for _, pid in unproven)
        return max(unproven, key=lambda one: crowd[one[1]], default=(link, 0))[0]  # max: the first of equals

    def leave(self, link: int) -> None:
        """One has gone."""
        del self._here[link]

"""How much two sessions say to each other because of each other: what went between them in the last minute.

Laws: either way counts, and only what a message caused; a refused one does not count. Time is an argument. Refuses to
know: who they are, what is said.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from xsessiond.core.limits import EXCHANGE_WINDOW_S


class Exchanges:
    """The times of what went, oldest first, by pair; the pairs in the order in which they last spoke."""

    __slots__ = ("_pairs",)

    def __init__(self) -> None:
        self._pairs: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def wait_needed(self, one: str, other: str, most: int, mono: float) -> float | None:
        """Seconds until another message may go between these two; None when it may go now."""
        times = self._pairs.get(_pair(one, other))
        if times is None:
            return None
        while times and times[0] + EXCHANGE_WINDOW_S <= mono:
            times.popleft()
        if len(times) < most:
            return None
        return times[len(times) - most] + EXCHANGE_WINDOW_S - mono

    def note(self, one: str, other: str, mono: float) -> None:
        """A message went."""
        pairs, pair = self._pairs, _pair(one, other)
        times = pairs.get(pair)
        if times is not None:
            times.append(mono)
            pairs.move_to_end(pair)
            return
        while pairs and (not (oldest := next(iter(pairs.values()))) or oldest[-1] + EXCHANGE_WINDOW_S <= mono):
            pairs.popitem(last=False)
        pairs[pair] = deque((mono,))

    def give_back(self, one: str, other: str) -> None:
        """The last of them was not stored after all."""
        times = self._pairs.get(_pair(one, other))
        if times:
            times.pop()


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)

"""How much two sessions say to each other because of each other: what went between them in the last minute.

Laws: either way counts, and only what a message caused; a refused one does not count. Time is an argument. Refuses to
know: who they are, what is said.
"""

from __future__ import annotations

from collections import deque

from xsessiond.core.limits import EXCHANGE_WINDOW_S

PAIRS_KEPT = 256
"""Pairs beyond which those that were silent for a minute are forgotten."""


class Exchanges:
    """The times of what went, oldest first, by pair: the smaller id first."""

    __slots__ = ("_pairs", "_sweep_at")

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, str], deque[float]] = {}
        self._sweep_at = PAIRS_KEPT

    def wait_needed(self, one: str, other: str, most: int, mono: float) -> float | None:
        """Seconds until another message may go between these two; None when it may go now."""
        times = self._pairs.get((one, other) if one < other else (other, one))
        if times is None or len(times) < most:
            return None
        while times and times[0] + EXCHANGE_WINDOW_S <= mono:
            times.popleft()
        if len(times) < most:
            return None
        return times[len(times) - most] + EXCHANGE_WINDOW_S - mono

    def note(self, one: str, other: str, mono: float) -> None:
        """A message went."""
        pair = (one, other) if one < other else (other, one)
        times = self._pairs.get(pair)
        if times is not None:
            times.append(mono)
            return
        self._pairs[pair] = deque((mono,))
        if len(self._pairs) > self._sweep_at:
            self._pairs = {
                pair: times for pair, times in self._pairs.items() if times and times[-1] + EXCHANGE_WINDOW_S > mono
            }
            self._sweep_at = max(PAIRS_KEPT, 2 * len(self._pairs))  # so that many who speak are not looked at each time

    def give_back(self, one: str, other: str) -> None:
        """The last of them was not stored after all."""
        times = self._pairs.get((one, other) if one < other else (other, one))
        if times:
            times.pop()

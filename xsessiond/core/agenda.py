"""What is due when: the only source of "later" in the broker.

Laws: one entry per key; scheduling a key again moves it; an entry comes out once. The shell asks `next_due` and sleeps
until then, so an empty agenda costs nothing. Refuses to know: what an entry means.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator

Key = tuple[str, Hashable]


class Agenda:
    """Deadlines on the monotonic clock, by key (kind, subject)."""

    __slots__ = ("_due", "_heap", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Key]] = []
        self._due: dict[Key, tuple[float, int]] = {}
        self._order = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: Key) -> bool:
        return key in self._due

    def schedule(self, key: Key, when: float) -> None:
        """`key` is due at `when`, and no longer at any earlier time it was given."""
        self._order += 1
        self._due[key] = (when, self._order)
        heapq.heappush(self._heap, (when, self._order, key))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._due):
            self._heap = [(at, order, k) for k, (at, order) in self._due.items()]
            heapq.heapify(self._heap)

    def cancel(self, key: Key) -> None:
        """`key` is not due any more; nothing happens if it was not."""
        self._due.pop(key, None)

    def next_due(self) -> float | None:
        """When the earliest entry is due, or None."""
        while self._heap:
            when, order, key = self._heap[0]
            if self._due.get(key) == (when, order):
                return when
            heapq.heappop(self._heap)
        return None

    def pop_due(self, mono: float) -> Iterator[Key]:
        """Takes out what is due, earliest first. Entries scheduled meanwhile for the past come too."""
        while (when := self.next_due()) is not None and when <= mono:
            _, _, key = heapq.heappop(self._heap)
            del self._due[key]
            yield key

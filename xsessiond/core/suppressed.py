"""How many messages were turned away for being one too many: by whom, for whom, why, and when.

Laws: what is refused is not stored, so this lasts as long as the broker; it is bounded, and what was quiet for longest
is forgotten first. Refuses to know: what was in them, why a limit is what it is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

KEPT = 1000
"""Senders with a receiver and a reason."""


@dataclass(slots=True)
class TurnedAway:
    """What one sender was refused, to one receiver, for one reason. Times in wall-clock milliseconds."""

    sender_id: str
    sender_name: str
    target_id: str
    target_name: str
    code: str
    first_ms: int
    last_ms: int
    count: int = 1


class Suppressed:
    """All that was turned away. total: also what is forgotten here."""

    __slots__ = ("_rows", "total")

    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[str, str, str], TurnedAway] = OrderedDict()
        self.total = 0

    def note(self, sender: tuple[str, str], target: tuple[str, str], code: str, ms: int) -> TurnedAway:
        """One more. sender, target: id and name."""
        self.total += 1
        key = sender[0], target[0], code
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = TurnedAway(*sender, *target, code, ms, ms)
            if len(self._rows) > KEPT:
                self._rows.popitem(last=False)
            return row
        self._rows.move_to_end(key)
        row.count += 1
        row.last_ms = ms
        return row

    def rows(self) -> Iterable[TurnedAway]:
        """Those that are remembered, the last at the end."""
        return self._rows.values()

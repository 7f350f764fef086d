"""The two clocks of the core, as one argument.

Laws: the core never asks for the time; each event comes with a `Now`. Deadlines of live things use `mono`, which a
jump of the wall clock cannot touch; what is stored or shown uses `ms`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple


class Now(NamedTuple):
    """mono: seconds of a monotonic clock of unknown origin. ms: milliseconds since the epoch, UTC."""

    mono: float
    ms: int


_last: tuple[int, str] = (-1, "")


def format_time(ms: int) -> str:
    """RFC 3339 in UTC with milliseconds, as in every JSON of the product."""
    global _last
    second, rest = divmod(ms, 1000)
    known, text = _last
    if known != second:  # most messages share it with the one before, and to make it costs as much as half an answer
        text = datetime.fromtimestamp(second, UTC).isoformat()[:-6]
        _last = second, text
    return f"{text}.{rest:03d}Z"


def format_time_or_none(ms: int | None) -> str | None:
    """As `format_time`; None stays None."""
    return None if ms is None else format_time(ms)


def parse_time(text: str) -> int:
    """Milliseconds since the epoch from RFC 3339; a time without a zone is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)

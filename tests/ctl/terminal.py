"""Running `xsessionctl` at a terminal, as for a person who types it."""

from __future__ import annotations

from tests.support.human import as_human
from tests.support.private_broker import PrivateBroker


def at_terminal(
    place: PrivateBroker,
    *words: str,
    columns: int = 80,
    within_s: float = 20.0,
    interrupt_at: str | None = None,
    **extra: str,
) -> tuple[int, str]:
    """Run `xsessionctl` with `words` at a terminal; returns its exit code and all that appeared, line ends as `\\n`.

    interrupt_at: type Ctrl-C once this has appeared.
    """
    replies = [] if interrupt_at is None else [(interrupt_at, "\x03")]
    return as_human(place, *words, replies=replies, columns=columns, within_s=within_s, **extra)

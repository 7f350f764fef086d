"""How fast a sender may send: token buckets per target and over all, and the window in which a repeat is a duplicate.

Laws: per authenticated sender, so a new name buys nothing; a refused send costs nothing and is no duplicate of its own
retry; time is an argument. Refuses to know: what is sent, who receives.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from xsessiond.core import limits

TARGETS_KEPT = 256
"""Buckets of one sender beyond which those that are full again are forgotten."""


class PaceSettings(msgspec.Struct, frozen=True):
    """The `[pacing]` settings. Rates are per second, windows in seconds; a burst of 0 means no limit of that kind."""

    target_burst: float = limits.TARGET_BURST
    target_per_second: float = limits.TARGET_PER_SECOND
    sender_burst: float = limits.SENDER_BURST
    sender_per_second: float = limits.SENDER_PER_SECOND
    duplicate_window: float = limits.DUPLICATE_WINDOW_S
    queue_per_session: int = limits.QUEUE_PER_SESSION
    max_hops: int = limits.MAX_HOPS
    exchange_per_minute: int = limits.EXCHANGE_PER_MINUTE


class Bucket:
    """A token bucket that starts full. level: tokens at `at`."""

    __slots__ = ("at", "level")

    def __init__(self, level: float, at: float) -> None:
        self.level, self.at = level, at

    def fill(self, burst: float, per_second: float, mono: float) -> float:
        """Brings the level to `mono` and returns it."""
        level = self.level + (mono - self.at) * per_second
        self.level = level = burst if level > burst else level
        self.at = mono
        return level


class Pace:
    """What one sender used up. `spend` only after everything else has agreed."""

    __slots__ = ("_recent", "_targets", "_total")

    def __init__(self) -> None:
        self._total: Bucket | None = None
        self._targets: dict[str, Bucket] = {}
        self._recent: OrderedDict[tuple[str, bytes], tuple[float, str]] = OrderedDict()

    def wait_needed(self, target_id: str, settings: PaceSettings, mono: float) -> tuple[float, str] | None:
        """Seconds to wait and which limit says so ("target" or "sender"); None when a message may go now."""
        wait = None
        if settings.sender_burst:
            total = self._total
            if total is None:
                total = self._total = Bucket(settings.sender_burst, mono)
            level = total.fill(settings.sender_burst, settings.sender_per_second, mono)
            if level < 1.0:
                wait = _time_for(1.0 - level, settings.sender_per_second), "sender"
        if settings.target_burst:
            bucket = self._targets.get(target_id)
            if bucket is None:
                if len(self._targets) >= TARGETS_KEPT:
                    self._drop_full(settings, mono)
                bucket = self._targets[target_id] = Bucket(settings.target_burst, mono)
            level = bucket.fill(settings.target_burst, settings.target_per_second, mono)
            if level < 1.0:
                needed = _time_for(1.0 - level, settings.target_per_second)
                if wait is None or needed > wait[0]:
                    wait = needed, "target"
        return wait

    def spend(self, target_id: str) -> None:
        """A message went. Follows a `wait_needed` for the same target that returned None."""
        if self._total is not None:
            self._total.level -= 1.0
        bucket = self._targets.get(target_id)
        if bucket is not None:
            bucket.level -= 1.0

    def find_repeat(self, target_id: str, digest: bytes, mono: float) -> str | None:
        """The id of the message with this text that went to this target within the window."""
        found = self._recent.get((target_id, digest))
        return found[1] if found is not None and found[0] > mono else None

    def note_sent(self, target_id: str, digest: bytes, message_id: str, settings: PaceSettings, mono: float) -> None:
        """Remembers a message for `find_repeat`."""
        if settings.duplicate_window <= 0:
            return
        recent, key = self._recent, (target_id, digest)
        recent[key] = (mono + settings.duplicate_window, message_id)
        recent.move_to_end(key)
        # From the oldest on, so that a sender of thousands does not look at all of them.
        while recent and next(iter(recent.values()))[0] <= mono:
            recent.popitem(last=False)

    def give_back(self, target_id: str, digest: bytes) -> None:
        """The message was not stored after all: it cost nothing, and its retry is no repeat."""
        self._recent.pop((target_id, digest), None)
        for bucket in (self._total, self._targets.get(target_id)):
            if bucket is not None:
                bucket.level += 1.0  # never above its burst: the next `fill` sees to that

    def _drop_full(self, settings: PaceSettings, mono: float) -> None:
        """Forgets targets whose bucket is full again: a new one starts full too."""
        for target_id, bucket in list(self._targets.items()):
            if bucket.fill(settings.target_burst, settings.target_per_second, mono) >= settings.target_burst:
                del self._targets[target_id]


def _time_for(tokens: float, per_second: float) -> float:
    """Seconds until so many tokens came; a day where none ever come."""
    return tokens / per_second if per_second > 0 else 86400.0

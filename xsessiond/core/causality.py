"""What a session acts on: which messages that it was given may have caused what it sends now.

A message is some hops away from a human: one more than what caused it. What a session acts on is what entered its
present turn. Of a client that does not tell of its turns it is not known which of the messages it acts on, so it is all
that it read a short time ago. Of several causes the one that came the farthest counts.

Laws: nothing brings a session nearer to a human but a prompt of its human, a turn that other messages began, and time.
No client says what caused a message. Time is an argument. Refuses to know: sessions, texts, what the hops lead to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from xsessiond.core.limits import CAUSE_KEPT_S


class Cause(Struct, frozen=True, gc=False):
    """A message that somebody acts on. hop: its distance from a human. until: when that ends, on the monotonic clock;
    infinite while the turn runs that it entered."""

    message_id: str
    hop: int
    until: float


class Causes:
    """What one session acts on.

    `_entered` is in the order of entering, and hops fall in it: what came later lasts at least as long, so one that
    came less far before it never counts again. `_anew`: mail began the turn, and none has entered it yet.
    """

    __slots__ = ("_anew", "_entered", "by_human", "in_turn")

    def __init__(self) -> None:
        self._entered: deque[Cause] = deque()
        self._anew = False
        self.in_turn = False
        self.by_human = False
        """The session's human began the turn that runs: nothing counts but what entered it."""

    def begin(self, by: str | None) -> None:
        """A turn begins, or goes on for a new reason. by: human, mail, or anything else, which changes nothing."""
        self.in_turn = True
        self.by_human = by == "human"
        if by == "human":
            self._entered.clear()
            self._anew = False
        elif by == "mail":
            self._anew = True

    def end(self, mono: float) -> None:
        """The turn is over. What entered it may still have its effects for a while."""
        self.in_turn = self.by_human = self._anew = False
        if self._entered and self._entered[-1].until == inf:
            until = mono + CAUSE_KEPT_S
            self._entered = deque(
                replace(cause, until=until) if cause.until == inf else cause for cause in self._entered
            )

    def enter(self, message_id: str, hop: int, mono: float) -> None:
        """A message came to the session's knowledge. In the order in which they did."""
        entered = self._entered
        if self._anew:  # only now: a turn that says it was begun by mail, and shows none, rids itself of nothing
            entered.clear()
            self._anew = False
        while entered and entered[-1].hop <= hop:
            entered.pop()
        entered.append(Cause(message_id, hop, inf if self.in_turn else mono + CAUSE_KEPT_S))

    def find(self, mono: float) -> Cause | None:
        """What the session acts on now; None: nothing but what its human, or it itself, wants."""
        entered = self._entered
        while entered and entered[0].until <= mono:
            entered.popleft()
        return entered[0] if entered else None


def choose_cause(causes: Iterable[Cause | None]) -> Cause | None:
    """The one that came the farthest; of equals the first."""
    return max((cause for cause in causes if cause is not None), key=lambda cause: cause.hop, default=None)

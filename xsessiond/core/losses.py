"""What the store did not take: what was decided and never was.

Laws: what is still true of a lost event comes back as operations, to be stored when the store works again. A message
that was not stored never was: a link that was given it, or an answer about it, must not go on as if it had been.
Refuses to know: why the store failed, and when it works again.
"""

from __future__ import annotations

from xsessiond.core.effects import NotStored
from xsessiond.core.records import MarkMessage, Op, PutHold, PutMessage, PutPin, PutWatch
from xsessiond.core.sending import Sending
from xsessiond.core.state import Core
from xsessiond.core.watchers import Watchers


class Losses:
    """The part of the broker that takes back what was not stored."""

    __slots__ = ("_core", "_sending", "_watchers")

    def __init__(self, core: Core, sending: Sending, watchers: Watchers) -> None:
        self._core, self._sending, self._watchers = core, sending, watchers

    def take(self, event: NotStored) -> None:
        """Takes back what never was, and has the rest stored later."""
        core = self._core
        core.store_health.fail(event.text)
        lost = {op.row.id: op.row for op in event.ops if isinstance(op, PutMessage)}
        for row in lost.values():
            self._sending.forget(row, event.text)
        answered = {row.reply_to for row in lost.values()}
        for op in event.ops:
            if self._is_still_true(op, frozenset(lost), answered):
                core.persist(op)

    def _is_still_true(self, op: Op, lost: frozenset[str], answered: set[str | None]) -> bool:
        """Takes it back if not. lost: ids of messages that never were; answered: what they replied to."""
        match op:
            case PutMessage():
                return False
            case PutHold() if op.row.message_id in lost:
                return False
            case PutWatch():
                return not self._watchers.forget(op.row)
            case PutPin():
                self._sending.forget_pin(op)
                return False
            case MarkMessage() if op.message_id in lost or (op.state == "replied" and op.message_id in answered):
                return False
            case MarkMessage(state="queued"):  # it waits again, and who was given it at once was not
                if (message := self._core.messages.get(op.message_id)) is not None:
                    self._sending.take_back(message)
                return True
            case _:
                return True

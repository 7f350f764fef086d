"""What a session's harness tells of its turns: when one begins and ends, and what began it.

Laws: only a session's own link tells; a turn makes the session `busy`, its end `idle`, and what waited for that goes.
Refuses to know: what is sent or delivered in a turn.
"""

from __future__ import annotations

from xsessiond.core.delivery import Delivery, attach_first
from xsessiond.core.receipts import Receipts
from xsessiond.core.roster import Session
from xsessiond.core.state import Core, Wire
from xsessiond.core.times import Now
from xsessiond.core.unread import find_unread
from xsessiond.core.wire import Turn


class Turns:
    """The part of the broker that knows about turns."""

    __slots__ = ("_core", "_delivery", "_receipts")

    def __init__(self, core: Core, receipts: Receipts, delivery: Delivery) -> None:
        self._core, self._receipts, self._delivery = core, receipts, delivery

    def turn(self, wire: Wire, request: Turn, now: Now) -> None:
        """A turn began or ended. Raises Refusal: not_permitted."""
        session = wire.session
        if session is None:
            raise attach_first()
        before = session.state
        if request.params.phase == "started":
            session.causes.begin(request.params.by)
            session.state = "busy"
        else:
            session.causes.end(now.mono)
            session.state = "idle"
        self._core.stir(session)
        self._core.answer(wire, request.id, {})
        self.worked(session, now)
        if session.state != before:
            self._delivery.follow(session, before, now)

    def worked(self, session: Session, now: Now) -> None:
        """It did something of its own. Whoever wrote to it long before and was not read is told, once."""
        session.worked_at = now.ms
        for message in find_unread(session):
            if not message.stalled:
                message.stalled = True
                self._receipts.add(message, "queued", now)

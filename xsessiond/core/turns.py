"""What a session's harness tells of its turns: when one begins and ends, and what began it.

Laws: only a session's own link tells; a turn makes the session `busy`, its end `idle`. Refuses to know: what is sent or
delivered in a turn.
"""

from __future__ import annotations

from xsessiond.core.delivery import attach_first
from xsessiond.core.state import Core, Wire
from xsessiond.core.times import Now
from xsessiond.core.wire import Turn


class Turns:
    """The part of the broker that knows about turns."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def turn(self, wire: Wire, request: Turn, now: Now) -> None:
        """A turn began or ended. Raises Refusal: not_permitted."""
        session = wire.session
        if session is None:
            raise attach_first()
        session.state = "busy" if request.params.phase == "started" else "idle"
        self._core.stir(session)
        self._core.answer(wire, request.id, {})

"""What a caller may see of other people's mail.

Laws: a human, and a script outside every session, see all that passes between the user's sessions; an agent sees what
its session sent, and what its session was given. Nobody below an agent reads what was held back from it. Refuses to
know: how it is shown.
"""

from __future__ import annotations

from xsessiond.core.callers import find_caller
from xsessiond.core.mailbox import FINAL
from xsessiond.core.state import Core, Wire

WITHHELD = FINAL | {"held"}
"""States in which the receiver has not got the text, and is not on its way to it."""


def find_own(core: Core, wire: Wire) -> frozenset[str] | None:
    """Ids of the sessions whose mail is the caller's own; None: it may see everybody's. A process below an agent that
    is in no known session has none."""
    caller = find_caller(core, wire)
    if caller.is_session:
        return frozenset({caller.session.id})
    if caller.among:
        return frozenset(session.id for session in caller.among)
    return frozenset() if wire.peer.marks or caller.silenced or caller.confined else None


def may_read(own: frozenset[str] | None, sender_id: str | None, target_id: str, state: str) -> bool:
    """Whether the text of a message is shown. own: as `find_own` says."""
    if own is None or sender_id in own:
        return True
    return target_id in own and state not in WITHHELD

"""Mail that a session should have read by now: given to its harness and seen in no turn, or left while it works.

Laws: a session works when a turn of it begins or ends, or when it sends; answering a ping is no work. Refuses to know:
who is told.
"""

from __future__ import annotations

from xsessiond.core.limits import STUCK_AFTER_MS
from xsessiond.core.mailbox import Message
from xsessiond.core.roster import Session


def count_stalled(session: Session) -> int:
    """Messages that were handed to its harness a while ago, without evidence since."""
    return sum(1 for message in session.box.leased.values() if message.stalled and message.state == "handed")


def find_unread(session: Session) -> list[Message]:
    """Messages that it could have taken while it worked, for so long that something is wrong."""
    if not len(session.box) or session.worked_at is None:
        return []
    latest, box = session.worked_at - STUCK_AFTER_MS, session.box
    here = (*box.leased.values(), *box.due(session.state))  # what is not due, it could not have taken
    return [message for message in here if message.state == "queued" and _free_since(message, session) <= latest]


def _free_since(message: Message, session: Session) -> int:
    """When it could first be taken: it was accepted or let go, and the session ran."""
    hold = message.hold
    freed = hold.released_at if hold is not None else None
    return max(message.row.sent_at, freed or 0, session.started_at)

"""Who holds what of the broker's: connections, messages, and what they wait for.

Laws: every charge is counted where it is kept, never in a second place, so that what is told is what is there; each
stands with whoever caused it. What waits for a commit is no charge: the answer waits for the same one. Refuses to know:
how much of it is too much (`limits`), the descriptors and the memory of the process.
"""

from __future__ import annotations

from collections import Counter

from xsessiond.core import limits
from xsessiond.core.callers import find_caller
from xsessiond.core.roster import Session
from xsessiond.core.state import Core
from xsessiond.core.state import Wire as Link
from xsessiond.core.times import Now
from xsessiond.core.wire import Charges


class Charging:
    """The part of the broker that adds up."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def tell(self, wire: Link, request: Charges, now: Now) -> None:
        """All that anybody holds, the most connections first, and the limits of each."""
        core = self._core
        links: Counter[Session] = Counter()
        pushed: Counter[Session] = Counter()
        unsent: Counter[Session] = Counter()
        for link in core.wires.values():
            owner = find_caller(core, link).session
            links[owner] += 1
            pushed[owner] += len(link.outstanding)
            unsent[owner] += link.protocol.unsent
        waits = Counter(find_caller(core, core.wires[wait.link]).session for wait in core.waits.values())
        watches = Counter(asker for askers in core.watches.values() for asker in askers)
        owners = [core.human, *core.roster.known.values()]
        rows = [self._row(owner, links, pushed, unsent, waits, watches) for owner in owners]
        told = sorted((row for row in rows if any(row[key] for key in COUNTED)), key=_by_weight)
        answer = {
            "charges": told[: limits.CHARGES_MOST],
            "left_out": max(0, len(told) - limits.CHARGES_MOST),
            "strangers": {"links": links[core.script], "unsent_bytes": unsent[core.script]},
            "total": {key: sum(int(str(row[key])) for row in told) for key in COUNTED},
            "limits": {
                "links": limits.LINKS_PER_SESSION,
                "pushed": limits.PUSH_WINDOW,
                "unsent_bytes": limits.OUTBOX_BYTES,
                "queued": core.settings.pacing.queue_per_session,
                "queued_bytes": limits.QUEUE_BYTES_PER_SESSION,
                "held": core.settings.held_per_session,
                "held_bytes": limits.QUEUE_BYTES_PER_SESSION,
                "watches": limits.WATCHES_PER_SESSION,
                "sessions": core.sessions_most,
                "connections": limits.MAX_CONNECTIONS,
                "connections_per_s": limits.CONNECTS_PER_SECOND,
            },
        }
        core.answer(wire, request.id, answer)

    def _row(
        self,
        owner: Session,
        links: Counter[Session],
        pushed: Counter[Session],
        unsent: Counter[Session],
        waits: Counter[Session],
        watches: Counter[str],
    ) -> dict[str, object]:
        own = owner.kind == "session"
        return {
            "kind": owner.kind,
            "id": owner.id if own else None,
            "ref": owner.ref if own else None,
            "name": owner.name,
            "links": links[owner],
            "pushed": pushed[owner],
            "unsent_bytes": unsent[owner],
            "queued": len(owner.box),
            "queued_bytes": owner.box.size,
            "held": len(owner.box.held),
            "held_bytes": owner.box.held_size,
            "waits": waits[owner],
            "watches": watches[owner.id],
            "receipts": len(self._core.receipts.get(owner.id, ())),
        }


COUNTED = (
    "links", "pushed", "unsent_bytes", "queued", "queued_bytes", "held", "held_bytes", "waits", "watches", "receipts",
)  # fmt: skip
"""The charges of a row; one in which all are zero is not told."""


def _by_weight(row: dict[str, object]) -> tuple[int, int, str]:
    held = int(str(row["queued_bytes"])) + int(str(row["held_bytes"]))
    return -int(str(row["links"])), -held, str(row["id"])

"""Notices when a session is idle: who asked to be told of whom, and when each is told.

Laws: one for each two, told once and then forgotten: `idle`, `exited`, `expired` or `unavailable`. What is told is a
receipt that wakes, never a message: it cannot be replied to and causes nothing. The session that is watched notices
nothing. `idle` is said of a session that finished its turn, has no mail, queued or held, and stays so for a moment.
Refuses to know: how a client shows it, who may send what to whom.
"""

from __future__ import annotations

from msgspec import structs

from xsessiond.core import limits
from xsessiond.core.effects import Notify
from xsessiond.core.errors import Refusal
from xsessiond.core.receipts import Receipts
from xsessiond.core.records import DropWatch, PutWatch, WatchRow
from xsessiond.core.roster import Session
from xsessiond.core.state import Caller, Core
from xsessiond.core.times import Now, format_time

SENTENCES = {
    "idle": "{name} is idle: it has finished, and nothing waits for it.",
    "exited": "{name} has ended; it will not be idle any more.",
    "expired": "{name} was not idle in all this time; you are not told any more. Ask again if you still want to know.",
    "unavailable": "{name} does not say any more whether it is busy; you cannot be told when it is idle.",
}
"""Every way in which it can end. name: with the ref, since names change."""
HUMAN_TITLES = {
    "idle": "{name} is idle",
    "exited": "{name} has ended",
    "expired": "{name} is still busy",
    "unavailable": "{name} cannot be watched any more",
}
"""For a person's desktop."""


def is_idle(session: Session) -> bool:
    """Whether it has finished and nothing waits for it, as far as is known now."""
    if session.state != "idle" or session.unresponsive or not session.links:
        return False
    return not len(session.box) and not session.box.held


def can_tell(session: Session) -> bool:
    """Whether it is ever known of this session that it is idle: it said so before, or hooks or a plugin will."""
    return session.kind == "session" and (session.state != "unknown" or session.delivery in ("push", "turn"))


class Watchers:
    """The part of the broker that remembers who asked."""

    __slots__ = ("_core", "_receipts")

    def __init__(self, core: Core, receipts: Receipts) -> None:
        self._core, self._receipts = core, receipts

    # -- asking --------------------------------------------------------------------------------------

    def check(self, caller: Caller, target: Session, *, starting: bool) -> None:
        """Whether this caller can be told of that session. starting: it will run when this is asked again. Raises
        Refusal."""
        if caller.kind == "script":
            raise Refusal(
                "not_permitted",
                "Only a session, or a person at a terminal, can be told when a session is idle. Nothing was sent.",
                "Send without notify_when_idle.",
            )
        if not target.running and not starting:
            raise Refusal(
                "not_running",
                f"{target.name} is not running, so it cannot be told when it is idle. Nothing was sent.",
                "Send without notify_when_idle.",
            )
        if not can_tell(target):
            raise Refusal(
                "unsupported_mode",
                f"Nobody knows when {target.name} is idle: its harness does not tell. Nothing was sent.",
                "Send without notify_when_idle, and ask for an answer when it has finished.",
            )
        others = [askers for target_id, askers in self._core.watches.items() if target_id != target.id]
        if sum(caller.session.id in askers for askers in others) >= limits.WATCHES_PER_SESSION:
            raise Refusal(
                "queue_full",
                f"You wait for {limits.WATCHES_PER_SESSION} sessions to be idle already. Nothing was sent.",
                "Wait until you are told of some.",
            )

    def ask(self, asker: Session, target: Session, hop: int, now: Now) -> dict[str, object]:
        """The asker wants to know, and sends nothing: told in this answer if the session is idle and was before. hop:
        as for `begin`."""
        if not is_idle(target) or now.mono - target.seen < limits.IDLE_SETTLE_S:
            return self.begin(asker, target, hop, now)
        if (known := self._of(target).get(asker.id)) is not None:
            self._drop(known)
        return {"state": "idle", "until": None}

    def begin(self, asker: Session, target: Session, hop: int, now: Now) -> dict[str, object]:
        """The asker will be told once. Asked again, it is told once all the same, and waits as long as if for the first
        time. hop: of what it did when it asked, or of the message that goes with it; the notice answers that."""
        until = now.ms + limits.WATCH_MS
        known = self._of(target).get(asker.id)
        row = WatchRow(asker.id, target.id, now.ms, until, hop + 1)
        if known is not None:
            row = structs.replace(row, at=known.at, hop=max(row.hop, known.hop))
        self._core.persist(PutWatch(row))
        self.restore(row, target, now)
        return {"state": "watching", "until": format_time(until)}

    def restore(self, row: WatchRow, target: Session, now: Now) -> None:
        """One that is new, or was stored before."""
        self._core.watches.setdefault(target.id, {})[row.asker_id] = row
        self._schedule_end(target, now)
        if not is_idle(target):
            self._core.stir(target)
        elif ("idle", target.id) not in self._core.agenda:  # what others wait for is not put off
            heard = max(now.mono, target.seen + limits.IDLE_SETTLE_S)
            self._core.agenda.schedule(("idle", target.id), heard)

    def forget(self, row: WatchRow) -> bool:
        """The store did not take it, and its asker heard so: it never was. False if it only made an earlier one last
        longer, which nobody minds."""
        if row.until - row.at > limits.WATCH_MS:
            return False
        if self._core.watches.get(row.target_id, {}).get(row.asker_id) == row:
            self._take_out(row)
        return True

    # -- telling -------------------------------------------------------------------------------------

    def look(self, now: Now) -> None:
        """Something changed with the sessions that are in `stirred`."""
        stirred, self._core.stirred = self._core.stirred, {}
        for target in stirred.values():
            if not target.running:
                self._tell_all(target, "exited", now)
            elif is_idle(target):
                self._core.agenda.schedule(("idle", target.id), now.mono + limits.IDLE_SETTLE_S)
            elif not can_tell(target):
                self._core.agenda.schedule(("idle", target.id), now.mono + limits.UNAVAILABLE_AFTER_S)
            else:
                self._core.agenda.cancel(("idle", target.id))

    def settled(self, target: Session, now: Now) -> None:
        """Nothing was heard of it since it looked idle, or as if it could not tell any more."""
        if is_idle(target):
            self._tell_all(target, "idle", now)
        elif not can_tell(target):
            self._tell_all(target, "unavailable", now)

    def expire(self, target: Session, now: Now) -> None:
        """The time of some who asked may be over."""
        for row in [row for row in self._of(target).values() if row.until <= now.ms]:
            self._tell(row, target, "expired", now)
        self._schedule_end(target, now)

    def _schedule_end(self, target: Session, now: Now) -> None:
        """Looks again more often than needed, since a laptop's clock may have slept."""
        ends = [row.until for row in self._of(target).values()]
        if ends:
            left = (min(ends) - now.ms) / 1000
            self._core.agenda.schedule(("watch", target.id), now.mono + min(max(left, 0.0), 3600.0))

    def _tell_all(self, target: Session, outcome: str, now: Now) -> None:
        for row in list(self._of(target).values()):
            self._tell(row, target, outcome, now)

    def _tell(self, row: WatchRow, target: Session, outcome: str, now: Now) -> None:
        self._drop(row)
        if self._core.owner_of(row.asker_id) is None:
            return  # it ended long ago
        text = SENTENCES[outcome].format(name=f"{target.name} [{target.ref}]")
        self._receipts.tell(row.asker_id, target.id, outcome, text, now, wake=True, hop=row.hop)
        if row.asker_id == self._core.human.id:
            self._core.out.append(Notify(HUMAN_TITLES[outcome].format(name=target.name), text))

    def _drop(self, row: WatchRow) -> None:
        self._core.persist(DropWatch(row.asker_id, row.target_id))
        self._take_out(row)

    def _take_out(self, row: WatchRow) -> None:
        askers = self._core.watches[row.target_id]
        del askers[row.asker_id]
        if not askers:
            del self._core.watches[row.target_id]
            for kind in ("idle", "watch"):
                self._core.agenda.cancel((kind, row.target_id))

    def _of(self, target: Session) -> dict[str, WatchRow]:
        return self._core.watches.get(target.id, {})

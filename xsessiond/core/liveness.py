"""Whether a session is still there: its links, its harness, its answers; and its end.

Laws: a session stays on the roster exactly while it has a link, may still come back (the grace time), or its harness is
verified alive; a harness that died ends it, whatever its shim still says; every watch is taken back once. Its mail
outlives it. Refuses to know: who may come, how mail is delivered.
"""

from __future__ import annotations

from xsessiond.core import limits
from xsessiond.core.delivery import Delivery
from xsessiond.core.effects import CloseDoor, ForgetProject, ProcessId, UnwatchProcess, WatchProcess
from xsessiond.core.errors import Refusal
from xsessiond.core.holding import Holding
from xsessiond.core.outgoing import encode_call, encode_notification
from xsessiond.core.records import DropPins
from xsessiond.core.roster import Session
from xsessiond.core.state import Core, Wire
from xsessiond.core.times import Now
from xsessiond.core.waits import Waits

KNOWN_ENDED = 512
"""Sessions that ended, have no mail and may still be told apart from unknown ones."""

SILENCED_MOST = 10_000
"""Harnesses that are remembered though they have no session: it was switched off by a project's file, or ended by its
client while the harness lived. What they run is an agent's all the same."""


class Liveness:
    """The part of the broker that knows when a session goes."""

    __slots__ = ("_core", "_delivery", "_holding", "_waits")

    def __init__(self, core: Core, delivery: Delivery, waits: Waits, holding: Holding) -> None:
        self._core, self._delivery, self._waits, self._holding = core, delivery, waits, holding

    # -- signs of life ------------------------------------------------------------------------------

    def watch(self, session: Session) -> None:
        """The death of its harness ends it."""
        if session.process is not None:
            session.watched = True
            self._core.out.append(WatchProcess(session.process))

    def unwatch(self, session: Session) -> None:
        """Its harness does not matter any more."""
        if session.watched and session.process is not None:
            self._core.out.append(UnwatchProcess(session.process))
        session.watched = False

    def wonder(self, session: Session, now: Now) -> None:
        """Asks a session that was silent for a while whether it still answers; what follows comes by itself."""
        if (
            not session.links
            or now.mono - session.seen < limits.PING_AFTER_S
            or ("pong", session.id) in self._core.agenda
        ):
            return
        self._core.agenda.schedule(("pong", session.id), now.mono + limits.PONG_WITHIN_S)
        for link in session.links:
            self._core.send(link, encode_call(f"ping-{session.ref}", "ping", {}))

    def missed(self, session: Session, now: Now) -> None:
        """It did not answer in time: not the question, and nothing else was heard of it either."""
        if now.mono - session.seen < limits.PONG_WITHIN_S:
            return
        session.unresponsive = True
        self._core.stir(session)
        self._core.log("warning", "session does not answer", session=session.id)

    # -- going ------------------------------------------------------------------------------

    def lose_link(self, wire: Wire, now: Now) -> None:
        """A link is gone. What it had leased waits again."""
        self._waits.drop(wire.link)
        session = wire.session
        if session is not None:
            session.links.discard(wire.link)
            self._core.stir(session)
        self._delivery.give_back(wire, now)
        if session is not None and session.running and not session.links:
            session.last_seen_at = now.ms
            self._core.agenda.cancel(("pong", session.id))
            self._core.agenda.schedule(("grace", session.id), now.mono + limits.GRACE_S)

    def grace_over(self, session: Session, now: Now) -> None:
        """It did not come back: it is gone, unless its harness is verified alive."""
        if session.links or not session.running:
            return
        if session.watched:
            session.unresponsive = True
            return
        self.end(session, "lost", now)

    def process_exited(self, process: ProcessId, now: Now) -> None:
        """A harness died: its sessions are over, whatever their shims still say."""
        for session in sorted(self._core.roster.at_process(process), key=lambda session: session.id):
            session.watched = False
            self.end(session, "exited", now)

    def switch_off(self, session: Session, now: Now) -> None:
        """The settings say that it is not to be reached at all."""
        text = "Messages between sessions are switched off here."
        self._core.turn_away(session.id, Refusal("feature_off", text, "The settings say so: xsessionctl config show."))
        self.end(session, "off", now)

    def switch_all_off(self, now: Now) -> None:
        """As `switch_off`, for everybody. This the user wants, and what sessions said of themselves is forgotten."""
        self._core.silenced.clear()
        for session in list(self._core.roster.running()):
            self.switch_off(session, now)

    def end(self, session: Session, reason: str, now: Now) -> None:
        """Takes a session off the roster. Its mail stays for its conversation."""
        if not session.running:
            return
        links, session.links = sorted(session.links), set()  # at once: what one gives back must not go to the next
        for link in links:
            wire = self._core.wires[link]
            self._waits.drop(link)
            self._delivery.give_back(wire, now)
            wire.session = wire.caller = None
            self._core.send(link, encode_notification("bye", {"reason": "ended"}))
            self._core.close(link)
        session.last_seen_at = now.ms
        if session.process is not None and session.watched and not self._core.settings.off:
            # A project's file is the agent's to write, and so is its client's word; it shall not get out that way.
            self._core.silenced[session.process] = None
            if len(self._core.silenced) > SILENCED_MOST:
                del self._core.silenced[next(iter(self._core.silenced))]
        self.unwatch(session)
        self._core.roster.end(session, now.ms)
        if reason != "lost" and session.grant is None:
            session.token_hash = b""  # nobody comes back to it with that
        self._core.turn_away(session.id, Refusal("not_running", "The session ended meanwhile.", "Register anew."))
        session.pins.clear()
        session.pins_before.clear()
        session.causes.end(now.mono)
        session.state = "unknown"
        self._holding.end_trusts_of(session)
        for kind in ("grace", "pong", "offer"):
            self._core.agenda.cancel((kind, session.id))
        self._core.persist(DropPins(session.id))
        self._core.save(session)
        if session.grant is None:  # else its door stays open, and what its folder says is kept, for when it comes again
            self._core.out.append(CloseDoor(session.id))
            self._core.out.append(ForgetProject(session.id))
        self._core.log("info", "session ended", session=session.id, reason=reason)
        self._core.stir(session)
        self._delivery.keep_for_later(session, now)
        self._forget_some()

    def _forget_some(self) -> None:
        """Bounds what is known of sessions that ended and have nothing waiting."""
        ended = self._core.roster.ended()
        idle = [one for one in ended if one.grant is None and not len(one.box) and not one.box.held]
        for session in idle[: max(0, len(idle) - KNOWN_ENDED)]:
            self._core.roster.forget(session)
            self._core.receipts.pop(session.id, None)

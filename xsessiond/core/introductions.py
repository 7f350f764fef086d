"""How sessions come, come back, change and go.

Laws: a session is in the roster exactly while it has a link, may still come back (the grace time), or its harness is
verified alive; its private socket exists exactly as long. A token is shown once and kept as a hash. Refuses to know:
messages, beyond giving back what was leased.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest

from msgspec import UNSET

from xsessiond.core import limits
from xsessiond.core.callers import find_ancestor, find_caller, may_use_token
from xsessiond.core.delivery import Delivery
from xsessiond.core.effects import CloseDoor, OpenDoor, ProcessId, UnwatchProcess, WatchProcess
from xsessiond.core.errors import Refusal
from xsessiond.core.ids import session_id_from
from xsessiond.core.names import check_name, derive_name, fold_name
from xsessiond.core.records import DropPins
from xsessiond.core.roster import NameTaken, Session
from xsessiond.core.shapes import shape_session
from xsessiond.core.state import Caller, Core, Wire
from xsessiond.core.times import Now
from xsessiond.core.wire import Attach, End, Register, RegisterParams, Rename, Update, encode_call, encode_notification

KNOWN_ENDED = 512
"""Sessions that ended, have no mail and may still be told apart from unknown ones."""


def hash_token(token: str) -> bytes:
    """What is kept of a token."""
    return sha256(token.encode()).digest()


class Introductions:
    """The part of the broker that knows how the roster changes."""

    __slots__ = ("_core", "_delivery")

    def __init__(self, core: Core, delivery: Delivery) -> None:
        self._core, self._delivery = core, delivery

    # -- coming ------------------------------------------------------------------------------

    def register(self, wire: Wire, request: Register, now: Now) -> None:
        """A shim introduces its session: a new one, or one that the broker knows by token, by conversation or by
        process."""
        params = request.params
        process = find_ancestor(wire.peer, params.pid)
        session = self._known_by_token(wire, params) if params.resume is not None else None
        if session is not None:
            self._come_back(session, now)
            self._answer_registered(wire, request, session, token=None, resumed=True, notice=None)
            return
        known = self._known_otherwise(params, process)
        if known is not None and known.running:
            session, notice = known, None
            self._describe(session, params)
            self._core.roster.identify(session, params.harness, params.harness_session_id or session.harness_session_id)
            self._core.roster.place(session, process)
        else:
            session, notice = self._name(known, params, now)
            self._describe(session, params)
            session.harness, session.harness_session_id, session.process = (
                params.harness,
                params.harness_session_id,
                process,
            )
            self._core.roster.add(session)
        session.refresh()
        token = self._core.entropy(32).hex()
        session.token_hash, session.bound = hash_token(token), None
        session.last_seen_at, session.seen = now.ms, now.mono
        session.watched = process is not None
        if process is not None:
            self._core.out.append(WatchProcess(process))
        self._core.out.append(OpenDoor(session.id, session.ref))
        self._core.agenda.cancel(("keep", session.id))
        self._core.agenda.schedule(("grace", session.id), now.mono + limits.GRACE_S)
        self._core.save(session)
        self._core.log(
            "info",
            "session came" if known is None else "session came back",
            session=session.id,
            harness=session.harness,
        )
        self._answer_registered(wire, request, session, token=token, resumed=known is not None, notice=notice)

    def _known_by_token(self, wire: Wire, params: RegisterParams) -> Session | None:
        """The session that the client proves to be; None if it is not known any more or has ended. Raises Refusal:
        bad_token."""
        resume = params.resume
        assert resume is not None
        session = self._core.roster.known.get(resume.id)
        if session is None or not session.running:
            return None
        self._check_token(session, resume.token, wire)
        return session

    def _check_token(self, session: Session, token: str, wire: Wire) -> None:
        if not compare_digest(hash_token(token), session.token_hash):
            self._core.log("warning", "wrong token", session=session.id, pid=_pid(wire.peer.process))
            raise Refusal("bad_token", "This is not the session's token.", "Register anew.")
        if not may_use_token(session, wire.peer):
            pid = _pid(wire.peer.process)
            self._core.log("warning", "token used from elsewhere", session=session.id, pid=pid)
            self._core.warn(
                f"The token of {session.name} [{session.ref}] was used by process {pid}, "
                "which is not of that session. It was refused."
            )
            raise Refusal(
                "bad_token",
                "This token belongs to another process tree.",
                "A session's token works only below its own harness.",
            )

    def _known_otherwise(self, params: RegisterParams, process: ProcessId | None) -> Session | None:
        """The same conversation, resumed; or the same harness process whose shim died and was started again."""
        roster = self._core.roster
        if params.harness_session_id is not None:
            session = roster.conversation(params.harness, params.harness_session_id)
            if session is not None and (not session.running or self._vacant(session, process)):
                return session
        if process is None:
            return None
        for session in roster.at_process(process):
            same_name = params.name is None or params.name == session.name
            same_talk = params.harness_session_id in (None, session.harness_session_id)
            if (
                not session.links
                and same_name
                and same_talk
                and (session.harness, session.cwd) == (params.harness, params.cwd)
            ):
                return session
        return None

    def _vacant(self, session: Session, process: ProcessId | None) -> bool:
        """Whether a running session has neither a link nor another live harness."""
        return not session.links and (not session.watched or session.process == process)

    def _name(self, known: Session | None, params: RegisterParams, now: Now) -> tuple[Session, str | None]:
        """The session that starts, new or of a conversation that runs again (which gets its name back if nobody has
        it), and a text for it."""
        wanted = params.name if params.name is not None or known is None else known.name
        name, notice = self._choose_name(wanted, params)
        if known is None:
            session_id = session_id_from(self._core.entropy(16))
            known = Session(session_id, self._core.roster.choose_ref(session_id), name)
        known.call(name)
        known.started_at = now.ms
        return known, notice

    def _choose_name(self, wanted: str | None, params: RegisterParams) -> tuple[str, str | None]:
        """A free name and, where it is not the one that was wanted, a text for the session. Raises BadName."""
        if wanted is not None:
            name = check_name(wanted)
        else:
            folder = params.cwd.rstrip("/").rpartition("/")[2]
            name = derive_name(params.title or folder or "session")
        try:
            return self._core.roster.check_free(name), None
        except NameTaken as taken:
            holder = taken.holder
            why = "has that name" if holder.folded == fold_name(name) else "has a name that looks like it"
            return (
                taken.suggestion,
                f'You are called "{taken.suggestion}": another session, {holder.name} [{holder.ref}], {why}.',
            )

    def _describe(self, session: Session, params: RegisterParams) -> None:
        session.label = None if params.label is None else params.label[: limits.MAX_LABEL]
        session.cwd = params.cwd[: limits.MAX_PATH]
        session.perm_class = params.perm_class or "unknown"
        session.delivery, session.can_reply, session.modes = params.delivery, params.can_reply, params.modes
        session.state = "unknown"
        session.unresponsive = False

    def _come_back(self, session: Session, now: Now) -> None:
        """The same shim after a broken link: as if nothing had been."""
        session.last_seen_at, session.seen = now.ms, now.mono
        self._core.out.append(OpenDoor(session.id, session.ref))
        if not session.links:
            self._core.agenda.schedule(("grace", session.id), now.mono + limits.GRACE_S)

    def _answer_registered(
        self, wire: Wire, request: Register, session: Session, *, token: str | None, resumed: bool, notice: str | None
    ) -> None:
        self._core.answer(
            wire,
            request.id,
            {
                "session": shape_session(session, self._core.identity.machine),
                "token": token,
                "socket": f"{self._core.identity.session_dir}/{session.ref}.sock",
                "resumed": resumed,
                "notice": notice,
            },
        )

    def attach(self, wire: Wire, request: Attach, now: Now) -> None:
        """A link of the session whose private socket it came through."""
        session = self._core.roster.known.get(wire.door or "")
        if session is None or not session.running:
            raise Refusal("bad_token", "The session of this socket has ended.", "Register anew.")
        self._check_token(session, request.params.token, wire)
        if len(session.links) >= limits.LINKS_PER_SESSION and wire.link not in session.links:
            raise Refusal(
                "refused", f"The session has {limits.LINKS_PER_SESSION} links already.", "Close one of them first."
            )
        if session.process is None and session.bound is None:
            session.bound = wire.peer.process
        wire.session, wire.caller, wire.push = session, Caller("session", session), request.params.push
        session.links.add(wire.link)
        session.unresponsive = False
        session.last_seen_at, session.seen = now.ms, now.mono
        self._core.agenda.cancel(("grace", session.id))
        shape = shape_session(session, self._core.identity.machine)
        self._core.answer(wire, request.id, {"session": shape, "queued": len(session.box)})
        self._delivery.offer(session, now)

    # -- changing ------------------------------------------------------------------------------

    def rename(self, wire: Wire, request: Rename, now: Now) -> None:
        """The caller's own name, or (by a human) another session's."""
        caller = find_caller(self._core, wire)
        params = request.params
        if params.of is not None:
            if caller.is_session:
                raise Refusal(
                    "not_permitted", "Only a human may rename another session.", "Rename yourself with a name alone."
                )
            session = self._core.resolver.resolve(params.of, None, now).session
        elif caller.is_session:
            session = caller.session
        else:
            raise Refusal(
                "usage",
                "You are not a session, so you have no name to change.",
                "Name the session whose name to change.",
            )
        try:
            name = self._core.roster.check_free(params.name, session)
        except NameTaken as taken:
            holder = taken.holder
            raise Refusal(
                "name_taken",
                f'"{params.name}" is taken, or looks too much like {holder.name} [{holder.ref}].',
                f'"{taken.suggestion}" is free.',
                candidates=[self._core.resolver.candidate(holder, now)],
                detail={"suggestion": taken.suggestion},
            ) from None
        if name != session.name:
            self._core.roster.rename(session, name)
            self._core.save(session)
            self._core.log("info", "session renamed", session=session.id)
        self._core.answer(wire, request.id, {"self": shape_session(session, self._core.identity.machine)})

    def update(self, wire: Wire, request: Update, now: Now) -> None:
        """What the harness reports about its session."""
        session = wire.session
        if session is None:
            raise Refusal("not_permitted", "Only a session's own link can report about it.", "Attach first.")
        params = request.params
        before = session.to_row("", "")
        if params.state is not UNSET:
            session.state = params.state
        if params.perm_class is not UNSET:
            session.perm_class = params.perm_class or "unknown"
        if params.delivery is not UNSET:
            session.delivery = params.delivery
        if params.harness is not UNSET or params.harness_session_id is not UNSET:
            harness = session.harness if params.harness is UNSET else params.harness[:64]
            talk = session.harness_session_id if params.harness_session_id is UNSET else params.harness_session_id
            self._core.roster.identify(session, harness, talk)
        if session.to_row("", "") != before:
            self._core.save(session)
        self._core.answer(wire, request.id, {"session": shape_session(session, self._core.identity.machine)})

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

    def missed(self, session: Session) -> None:
        """It did not answer in time."""
        session.unresponsive = True
        self._core.log("warning", "session does not answer", session=session.id)

    # -- going ------------------------------------------------------------------------------

    def end(self, wire: Wire, request: End, now: Now) -> None:
        """The shim says that the conversation is over."""
        if wire.session is None:
            raise Refusal("not_permitted", "Only a session's own link can end it.", "Attach first.")
        self._core.answer(wire, request.id, {})
        self.end_session(wire.session, "ended", now)

    def lose_link(self, wire: Wire, now: Now) -> None:
        """A link is gone. What it had leased waits again."""
        session = wire.session
        if session is None:
            return
        session.links.discard(wire.link)
        self._delivery.give_back(session, wire, now)
        if session.running and not session.links:
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
        self.end_session(session, "lost", now)

    def process_exited(self, process: ProcessId, now: Now) -> None:
        """A harness died: its sessions are over, whatever their shims still say."""
        for session in list(self._core.roster.at_process(process)):
            session.watched = False
            self.end_session(session, "exited", now)

    def end_session(self, session: Session, reason: str, now: Now) -> None:
        """Takes a session off the roster. Its mail stays for its conversation."""
        if not session.running:
            return
        for link in sorted(session.links):
            wire = self._core.wires[link]
            self._delivery.give_back(session, wire, now)
            wire.session = wire.caller = None
            self._core.send(link, encode_notification("bye", {"reason": "ended"}))
            self._core.close(link)
        session.links.clear()
        session.last_seen_at = now.ms
        process = session.process
        self._core.roster.end(session, now.ms)
        if process is not None and not self._core.roster.at_process(process):
            self._core.out.append(UnwatchProcess(process))
        session.watched = False
        session.pins.clear()
        for kind in ("grace", "pong"):
            self._core.agenda.cancel((kind, session.id))
        self._core.persist(DropPins(session.id))
        self._core.save(session)
        self._core.out.append(CloseDoor(session.id, session.ref))
        self._core.log("info", "session ended", session=session.id, reason=reason)
        self._delivery.keep_for_later(session, now)
        self._forget_some()

    def _forget_some(self) -> None:
        """Bounds what is known of sessions that ended and have nothing waiting."""
        idle = [session for session in self._core.roster.ended() if not len(session.box)]
        for session in idle[: max(0, len(idle) - KNOWN_ENDED)]:
            self._core.roster.forget(session)
            self._core.receipts.pop(session.id, None)


def _pid(process: ProcessId | None) -> int | None:
    return None if process is None else process.pid

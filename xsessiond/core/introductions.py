"""How sessions come, come back, change and go.

Laws: a session's private socket exists exactly as long as it is in the roster (`liveness` says how long). A token is
shown once and kept as a hash. Refuses to know: messages, beyond giving back what was leased.
"""

from __future__ import annotations

from msgspec import UNSET

from xsessiond.core import limits
from xsessiond.core.callers import find_caller, find_harness, find_outer
from xsessiond.core.delivery import Delivery
from xsessiond.core.effects import ForgetProject, OpenDoor, ProcessId, ProjectRead, ReadProject
from xsessiond.core.errors import Refusal
from xsessiond.core.holding import Holding
from xsessiond.core.ids import ID_BYTES, session_id_from
from xsessiond.core.liveness import Liveness
from xsessiond.core.names import check_name, derive_name, fold_name
from xsessiond.core.permission import require_human
from xsessiond.core.policy import NOT_READ, launch_setting
from xsessiond.core.roster import NameTaken, Session
from xsessiond.core.state import Arrival, Caller, Core, Wire
from xsessiond.core.times import Now
from xsessiond.core.tokens import check_token, hash_token
from xsessiond.core.wire import (
    Attach,
    End,
    Register,
    Rename,
    RequestId,
    Update,
    encode,
)
from xsessiond.core.wire_params import RegisterParams


class Introductions:
    """The part of the broker that knows how the roster changes."""

    __slots__ = ("_core", "_delivery", "_holding", "_liveness")

    def __init__(self, core: Core, delivery: Delivery, liveness: Liveness, holding: Holding) -> None:
        self._core, self._delivery, self._liveness, self._holding = core, delivery, liveness, holding

    # -- coming ------------------------------------------------------------------------------

    def register(self, wire: Wire, request: Register, now: Now) -> None:
        """A shim introduces its session: a new one, or one that the broker knows by token, by conversation or by
        process."""
        params = request.params
        process = find_harness(self._core, wire.peer, params.pid)
        _check_conversation(params.harness_session_id)
        known = self._known_by_token(wire, params) if params.resume is not None else None
        if known is not None and known.running:
            self._come_back(known, now)
            self._answer_registered(wire, request.id, known, token=None, resumed=True, notice=None)
            return
        known = known or self._known_otherwise(params, process)
        runs = known is not None and known.running
        if not runs and len(self._core.roster) >= (most := self._core.sessions_most):
            raise Refusal("refused", f"{most} sessions run already, which is the most.", "End some of them first.")
        if known is not None and runs:
            session, notice = known, None
            self._liveness.unwatch(session)
        else:
            session, notice = self._name(known, params, now)
        self._describe(session, params)
        session.causes.end(now.mono)  # the newcomer knows of no turn
        session.outer = find_outer(self._core, wire.peer, process)
        session.project = NOT_READ
        self._holding.refresh_policy(session)
        talk = params.harness_session_id or session.harness_session_id
        self._core.roster.identify(session, params.harness[: limits.MAX_HARNESS], talk)
        if runs:
            self._core.roster.place(session, process)
        else:
            session.process = process
            self._core.roster.add(session)
        self._liveness.watch(session)
        token = self._core.entropy(32).hex()
        session.token_hash, session.bound = hash_token(token), None
        session.last_seen_at, session.seen = now.ms, now.mono
        self._core.out.append(OpenDoor(session.id, session.ref))
        self._core.agenda.cancel(("keep", session.id))
        self._core.agenda.schedule(("grace", session.id), now.mono + limits.GRACE_S)
        self._bound_introduced(session, now)
        self._core.save(session)
        self._core.log(
            "info",
            "session came" if known is None else "session came back",
            session=session.id,
            harness=session.harness,
        )
        self._core.turn_away(session.id, Refusal("refused", "Another client became this session.", "Register anew."))
        self._core.arrivals[session.id] = Arrival(wire.link, request.id, token, known is not None, notice)
        self._core.out.append(ReadProject(session.id, session.cwd))

    def project_read(self, event: ProjectRead, now: Now) -> None:
        """What the project of a session says; a session that has just come is answered now, or turned away. Of one that
        ended it is asked once, at the start of the broker: mail may be sent to it."""
        session = self._core.roster.known.get(event.session_id)
        if session is None:
            return
        session.project = event.project
        self._holding.refresh_policy(session)
        for problem in event.project.problems:
            self._core.warn(problem)
        if not session.running:
            if session.grant is None:
                self._core.out.append(ForgetProject(session.id))
        elif event.project.off or self._core.settings.off:
            self._liveness.switch_off(session, now)
        else:
            arrival = self._core.arrivals.pop(session.id, None)
            wire = self._core.wires.get(arrival.link) if arrival is not None else None
            if arrival is not None and wire is not None:
                self._core.save(session)  # again: the answer leaves when it is stored, and this is another event
                self._answer_registered(
                    wire,
                    arrival.request_id,
                    session,
                    token=arrival.token,
                    resumed=arrival.resumed,
                    notice=arrival.notice,
                )
        self._holding.reconsider(session, now)

    def _bound_introduced(self, session: Session, now: Now) -> None:
        """A session that never attaches costs a socket and a row: the oldest of many of those goes, as if its time were
        over."""
        introduced = self._core.introduced
        introduced.pop(session.id, None)
        introduced[session.id] = session  # as the newest
        if len(introduced) > limits.INTRODUCED_MOST:
            self._liveness.end(introduced.pop(next(iter(introduced))), "lost", now)

    def _known_by_token(self, wire: Wire, params: RegisterParams) -> Session | None:
        """The session that the client proves to be: one that runs, or one that was lost and may come back. None if it
        is not known any more or its conversation is over. Raises Refusal: bad_token."""
        resume = params.resume
        assert resume is not None
        session = self._core.roster.known.get(resume.id)
        if session is None or not session.token_hash:
            return None
        check_token(self._core, session, resume.token, wire)
        return session

    def _known_otherwise(self, params: RegisterParams, process: ProcessId | None) -> Session | None:
        """The same conversation, resumed; or the same harness process whose shim died and was started again."""
        roster = self._core.roster
        if params.harness_session_id is not None:
            session = roster.conversation(params.harness, params.harness_session_id)
            if session is not None and (not session.running or self._vacant(session, process)):
                return session
        if process is None:
            return None
        for session in sorted(roster.at_process(process), key=lambda session: session.id):
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
        if known is None:
            name, notice = self._choose_name(params.name, params)
            session_id = session_id_from(self._core.entropy(ID_BYTES))
            known = Session(session_id, self._core.roster.choose_ref(session_id), name)
        else:
            name, notice = self._give_back_name(known, params)
        known.call(name)
        known.started_at = now.ms
        return known, notice

    def _give_back_name(self, known: Session, params: RegisterParams) -> tuple[str, str | None]:
        """Its own name, or the next best and a text."""
        try:
            return self._core.roster.check_free(known.name), None
        except NameTaken as taken:
            name, _ = self._choose_name(params.name or known.name, params)
            return name, _tell_name(name, known.name, taken.holder)

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
            return taken.suggestion, _tell_name(taken.suggestion, name, taken.holder)

    def _describe(self, session: Session, params: RegisterParams) -> None:
        session.launch = launch_setting(params.inbound)
        session.label = None if params.label is None else params.label[: limits.MAX_LABEL]
        session.cwd = _shorten(params.cwd)
        session.perm_class = params.perm_class or "unknown"
        session.delivery, session.can_reply, session.modes = params.delivery, params.can_reply, params.modes
        session.state = "unknown"
        session.unresponsive, session.attended = False, True

    def _come_back(self, session: Session, now: Now) -> None:
        """The same shim after a broken link: as if nothing had been."""
        session.last_seen_at, session.seen = now.ms, now.mono
        self._core.out.append(OpenDoor(session.id, session.ref))
        if not session.links:
            self._core.agenda.schedule(("grace", session.id), now.mono + limits.GRACE_S)

    def _answer_registered(
        self,
        wire: Wire,
        request_id: RequestId,
        session: Session,
        *,
        token: str | None,
        resumed: bool,
        notice: str | None,
    ) -> None:
        self._core.answer(
            wire,
            request_id,
            {
                "session": self._core.shape(session),
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
        check_token(self._core, session, request.params.token, wire)
        if len(session.links) >= limits.LINKS_PER_SESSION and wire.link not in session.links:
            raise Refusal(
                "refused", f"The session has {limits.LINKS_PER_SESSION} links already.", "Close one of them first."
            )
        if session.process is None and session.bound is None:
            session.bound = wire.peer.process
        if not session.links:
            session.place = wire.peer.place
        wire.session, wire.caller, wire.push = session, Caller("session", session), request.params.push
        wire.protocol.proven = True
        self._set_outer(session, wire)
        session.links.add(wire.link)
        self._core.introduced.pop(session.id, None)
        session.unresponsive = False
        session.last_seen_at, session.seen = now.ms, now.mono
        self._core.agenda.cancel(("grace", session.id))
        self._core.stir(session)
        self._core.answer(wire, request.id, {"session": self._core.shape(session), "queued": len(session.box)})
        self._delivery.announce(wire, session, now)

    def _set_outer(self, session: Session, wire: Wire) -> None:
        """Who it is inside of is not stored: after a restart of the broker it is found when the session is back."""
        outer = find_outer(self._core, wire.peer, session.process)
        if outer != session.outer:
            session.outer = outer
            self._holding.forget_verdicts()

    # -- changing ------------------------------------------------------------------------------

    def rename(self, wire: Wire, request: Rename, now: Now) -> None:
        """The caller's own name, or (by a human) another session's."""
        caller = find_caller(self._core, wire)
        params = request.params
        if params.of is not None:
            require_human(self._core, wire, "rename another session")
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
        self._core.answer(wire, request.id, {"self": self._core.shape(session)})

    def update(self, wire: Wire, request: Update, now: Now) -> None:
        """What the harness reports about its session."""
        session = wire.session
        if session is None:
            raise Refusal("not_permitted", "Only a session's own link can report about it.", "Attach first.")
        params = request.params
        if params.harness_session_id is not UNSET:
            _check_conversation(params.harness_session_id)
        before, was = session.to_row("", ""), session.state
        if params.state is not UNSET:
            session.state = params.state
        if params.perm_class is not UNSET and session.grant is None:  # of a granted one its human said what it is
            session.perm_class = params.perm_class or "unknown"
        if params.delivery is not UNSET:
            session.delivery = params.delivery
        if params.modes is not UNSET:
            session.modes = params.modes
        if params.attended is not UNSET:
            session.attended = params.attended
        named = params.harness is not UNSET or params.harness_session_id is not UNSET
        if named and session.grant is None:
            harness = session.harness if params.harness is UNSET else params.harness[: limits.MAX_HARNESS]
            talk = session.harness_session_id if params.harness_session_id is UNSET else params.harness_session_id
            self._core.roster.identify(session, harness, talk)
        self._core.stir(session)
        if session.to_row("", "") != before:
            self._core.save(session)
            self._holding.refresh_policy(session)
            self._holding.reconsider(session, now)
        self._core.answer(wire, request.id, {"session": self._core.shape(session)})
        self._delivery.resume(session, now)
        self._delivery.follow(session, was, now)

    # -- going ------------------------------------------------------------------------------

    def end(self, wire: Wire, request: End, now: Now) -> None:
        """The shim says that the conversation is over."""
        if wire.session is None:
            raise Refusal("not_permitted", "Only a session's own link can end it.", "Attach first.")
        self._core.answer(wire, request.id, {})
        self._liveness.end(wire.session, "ended", now)


def _tell_name(name: str, wanted: str, holder: Session) -> str:
    why = "has that name" if holder.folded == fold_name(wanted) else "has a name that looks like it"
    return f'You are called "{name}", not "{wanted}": another session, {holder.name} [{holder.ref}], {why}.'


def _check_conversation(harness_session_id: str | None) -> None:
    if harness_session_id is not None and not 0 < len(harness_session_id) <= limits.MAX_KEY:
        raise Refusal(
            "usage",
            f"A conversation's own id has 1 to {limits.MAX_KEY} characters; this one has {len(harness_session_id)}.",
            "Leave harness_session_id out.",
        )


def _shorten(folder: str) -> str:
    """What every message from there repeats must leave room for the message."""
    while len(encode(folder)) > limits.MAX_PATH:
        folder = folder[: len(folder) * 3 // 4]
    return folder

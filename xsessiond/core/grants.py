"""Sessions that a human makes for a container: each with a socket of its own, and a token, and nothing else.

    granted ──▶ offline ──token at its socket──▶ running ──links gone, grace over──▶ offline ──▶ …
                   └──────────── revoked, or its time is over ────────────┴──▶ no grant: an ended session

Laws: only a human grants and revokes. A granted session is known by its token at its own socket: its process is never
looked for, since pids mean nothing across namespaces. What it is (class, folder, harness, its name at first) the human
said; its container changes none of that but its own name. Refuses to know: what a container is, who makes directories
and writes tokens into them.
"""

from __future__ import annotations

from xsessiond.core import limits
from xsessiond.core.deciding import Deciding, name_of
from xsessiond.core.effects import CloseDoor, ForgetProject, OpenDoor, ReadProject
from xsessiond.core.errors import Refusal
from xsessiond.core.holding import Holding
from xsessiond.core.ids import ID_BYTES, session_id_from
from xsessiond.core.introductions import Introductions
from xsessiond.core.liveness import Liveness
from xsessiond.core.names import check_name, fold_name
from xsessiond.core.permission import require_human
from xsessiond.core.policy import NOT_READ
from xsessiond.core.records import DropGrant, GrantRow, PutGrant
from xsessiond.core.roster import NameTaken, Session
from xsessiond.core.shapes import shape_grant
from xsessiond.core.state import Core, Wire
from xsessiond.core.times import Now, format_time_or_none
from xsessiond.core.tokens import check_token, hash_token
from xsessiond.core.wire import Attach, Grant, Grants, RevokeGrant
from xsessiond.core.wire_params import GrantParams

HARNESS = "container"
"""What a granted session's harness is called: whatever runs in there."""
SOCKET = "session.sock"
"""The name of the socket in the directory of a grant."""
GRANTS_MOST = 256
"""Each has a listening socket for as long as it lasts."""


class Granting:
    """The part of the broker that knows about containers."""

    __slots__ = ("_core", "_deciding", "_holding", "_introductions", "_liveness")

    def __init__(
        self, core: Core, deciding: Deciding, introductions: Introductions, liveness: Liveness, holding: Holding
    ) -> None:
        self._core, self._deciding, self._introductions = core, deciding, introductions
        self._liveness, self._holding = liveness, holding

    # -- a human's word ------------------------------------------------------------------------------

    def grant(self, wire: Wire, request: Grant, now: Now) -> None:
        """A new grant, or a new token for one that there is. Raises Refusal: not_permitted, usage, refused,
        name_taken."""
        require_human(self._core, wire, "grant a session to a container")
        params = request.params
        for path in (params.directory, params.cwd):
            if not path.startswith("/") or "\0" in path or len(path.encode()) > limits.MAX_PATH:
                raise Refusal("usage", f"{path[:80]!r} is no absolute path.", "Name a directory from / on.")
        name = check_name(params.name)
        self._deciding.with_passphrase(
            wire, request.id, params.passphrase, lambda wire, now: self._grant(wire, request, name, now), now
        )

    def _grant(self, wire: Wire, request: Grant, name: str, now: Now) -> None:
        params, core = request.params, self._core
        session = self._find(name)
        self._require_own(params.directory, session)
        replaced = session is not None
        if session is None:
            session = self._make(name)
        else:
            self._liveness.end(session, "granted anew", now)
            self._close_links(session)
            # Also where the directory is the same: it may have been removed and made again since.
            core.out.append(CloseDoor(session.id))
        self._describe(session, params, now)
        until = None if params.for_s is None else now.ms + round(params.for_s * 1000)
        session.grant = GrantRow(session.id, params.directory, name_of(wire), now.ms, until)
        token = core.entropy(32).hex()
        session.token_hash = hash_token(token)
        core.save(session)
        core.persist(PutGrant(session.grant))
        self.open(session, now)
        core.log("info", "granted", session=session.id, replaced=replaced)
        answer = {
            "session": core.shape(session),
            "token": token,
            "socket": _socket_of(session.grant),
            "expires_at": format_time_or_none(until),
            "replaced": replaced,
        }
        core.answer(wire, request.id, answer)

    def _find(self, name: str) -> Session | None:
        """The granted session of this name. Raises Refusal when another one has it, or one that looks like it."""
        folded = fold_name(name)
        known = [one for one in self._core.roster.known.values() if one.grant is not None]
        same = next((session for session in known if session.folded == folded), None)
        try:
            self._core.roster.check_free(name, same)
        except NameTaken as taken:
            holder = taken.holder
            raise Refusal(
                "name_taken",
                f'"{name}" is taken, or looks too much like {holder.name} [{holder.ref}].',
                f'"{taken.suggestion}" is free.',
                detail={"suggestion": taken.suggestion},
            ) from None
        if same is None and len(known) >= GRANTS_MOST:
            text = f"{GRANTS_MOST} sessions are granted already."
            raise Refusal("refused", text, "Revoke some: xsessionctl grant --list has them.")
        return same

    def _require_own(self, directory: str, session: Session | None) -> None:
        """Raises Refusal if another session's socket is there: the token beside it would be of no use at that."""
        for one in self._core.roster.known.values():
            if one is not session and one.grant is not None and one.grant.directory == directory:
                raise Refusal(
                    "refused",
                    f"{directory} is granted to {one.name} [{one.ref}] already.",
                    "Name another directory, or revoke that grant first.",
                )

    def _make(self, name: str) -> Session:
        session_id = session_id_from(self._core.entropy(ID_BYTES))
        return Session(session_id, self._core.roster.choose_ref(session_id), name)

    def _describe(self, session: Session, params: GrantParams, now: Now) -> None:
        session.cwd = params.cwd
        session.perm_class = params.perm_class or "unknown"
        session.ended_at = session.last_seen_at = session.started_at = now.ms
        self._core.roster.remember(session)
        self._core.roster.identify(session, HARNESS, None)
        session.project = NOT_READ
        self._core.out.append(ReadProject(session.id, session.cwd))  # now, so that it is known when somebody comes

    def revoke(self, wire: Wire, request: RevokeGrant, now: Now) -> None:
        """Ends a grant. Raises Refusal: not_permitted, not_found."""
        require_human(self._core, wire, "revoke a grant")

        def go_on(wire: Wire, now: Now) -> None:
            session = self._find_granted(request.params.of)
            directory = session.grant.directory if session.grant is not None else None
            self._end(session, "revoked", now)
            self._core.answer(wire, request.id, {"revoked": self._core.shape(session), "directory": directory})

        self._deciding.with_passphrase(wire, request.id, request.params.passphrase, go_on, now)

    def _find_granted(self, text: str) -> Session:
        for session in self._core.roster.known.values():
            if session.grant is not None and (fold_name(text) == session.folded or text in (session.id, session.ref)):
                return session
        text = f'No granted session is called "{text[:80]}".'
        raise Refusal("not_found", text, "xsessionctl grant --list has them.")

    def show(self, wire: Wire, request: Grants, now: Now) -> None:
        """All grants."""
        known = self._core.roster.known.values()
        rows = [shape_grant(self._core.shape(one), one.grant) for one in known if one.grant is not None]
        self._core.answer(wire, request.id, {"grants": rows})

    # -- its container -------------------------------------------------------------------------------

    def attach(self, wire: Wire, request: Attach, now: Now) -> None:
        """As `Introductions.attach`; a granted session that does not run begins to. Raises Refusal: bad_token."""
        session = self._core.roster.known.get(wire.door or "")
        if session is not None and session.grant is not None:
            check_token(self._core, session, request.params.token, wire)
            if self._core.settings.off or session.project.off:
                text = "Messages between sessions are switched off here."
                raise Refusal("feature_off", text, "The settings say so: xsessionctl config show.")
            if not session.running:
                self._begin(session, now)
        self._introductions.attach(wire, request, now)

    def _begin(self, session: Session, now: Now) -> None:
        core = self._core
        try:
            name = core.roster.check_free(session.name)
        except NameTaken as taken:
            name = taken.suggestion
        session.call(name)
        session.started_at = now.ms
        session.bound, session.state = None, "unknown"
        session.refresh()
        self._holding.refresh_policy(session)
        core.roster.add(session)
        core.agenda.cancel(("keep", session.id))
        core.save(session)
        core.log("info", "session came", session=session.id, harness=session.harness)

    # -- its life ------------------------------------------------------------------------------------

    def open(self, session: Session, now: Now) -> None:
        """Its socket is there from now on, until its time is over."""
        grant = session.grant
        assert grant is not None
        self._core.out.append(OpenDoor(session.id, session.ref, _socket_of(grant)))
        if grant.until is not None:
            self._core.agenda.schedule(("granted", session.id), now.mono + max(0.0, (grant.until - now.ms) / 1000))

    def due(self, session: Session, now: Now) -> None:
        """Its time may be over: by the wall clock, which may have been set meanwhile."""
        if session.grant is None or session.grant.until is None:
            return
        if session.grant.until > now.ms:
            self.open(session, now)
            return
        self._core.warn(f"The grant of {session.name} [{session.ref}] is over.")
        self._end(session, "grant over", now)

    def _end(self, session: Session, reason: str, now: Now) -> None:
        self._liveness.end(session, reason, now)
        session.grant, session.token_hash = None, b""
        self._core.agenda.cancel(("granted", session.id))
        self._core.persist(DropGrant(session.id))
        self._core.save(session)
        self._core.out.append(CloseDoor(session.id))
        self._core.out.append(ForgetProject(session.id))
        self._close_links(session)
        self._core.log("info", "grant ended", session=session.id, reason=reason)

    def _close_links(self, session: Session) -> None:
        """Also those that have not shown a token yet."""
        for wire in list(self._core.wires.values()):
            if wire.door == session.id:
                self._core.close(wire.link, "the grant ended")


def _socket_of(grant: GrantRow) -> str:
    return f"{grant.directory}/{SOCKET}"

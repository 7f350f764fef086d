"""The session's link to the broker as long as the shim lives: found, introduced, attached, found again when it breaks.

    RESTING ──want()──▶ TRYING ──connected──▶ INTRODUCING ──registered──▶ ATTACHING ──attached──▶ UP
       ▲                  ▲ │ refused, lost: after a pause that doubles        │                     │
       └── ended ────────┘ └──────────────────────────────────────────────────┴──── lost ◀──────────┘

Laws: a session that was registered comes back as itself (its token is in memory only, and goes nowhere but to the
broker); one that the broker ended comes back as a new one when it is needed, not before. A broker that is missing is
started when somebody needs it, not because it went away: else nobody could stop it. Nothing here waits. Refuses to
know: tools, MCP.
"""

from __future__ import annotations

from time import monotonic

from xsessionctl.shim.peer import Foreign, Peer
from xsessiond import __version__
from xsessiond.core import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xsessionctl.shim.identity import Identity
    from xsessionctl.shim.peer import Done
    from xsessionctl.shim.rendezvous import Rendezvous

RESTING, TRYING, INTRODUCING, ATTACHING, UP = "resting", "trying", "introducing", "attaching", "up"
_FORGET_TOKEN = ("bad_token", "not_found", "not_running", "expired", "already_decided")
"""Refusals of `resume` after which the session is a new one."""
GIVING = ("take", "send")
"""What the broker answers to these it gives to this connection alone, or does for good. An answer that nobody waits for
any more would be kept from everybody: the end of the connection gives back what it leased, and who asked asks anew.
"""
_NOT_NOW = ("timeout", "no_broker")
"""A broker that is slow, or about to be replaced: it says nothing of the session."""


class BrokerLink:
    """See the module.

    on_up: called when the session is attached, with the number of messages that wait for it. on_problem: called with an
    error object when the broker refuses the session, or none can be had while one is needed. on_told: called with
    (method, params) of what the broker says by itself. session: the session's own row or None. renewing: it is being
    replaced by that of another conversation. notices: texts of the broker for this session's model. orphaned: asked
    whether whoever the session was of has ended.
    """

    __slots__ = (
        "_attempt_due", "_final", "_identity", "_needed_until", "_peer", "_rendezvous", "_retry_s", "_started",
        "_token", "_up_since", "_without", "ended", "notices", "on_problem", "on_told", "on_up", "orphaned", "problem",
        "renewing", "session", "state",
    )  # fmt: skip

    def __init__(self, identity: Identity, rendezvous: Rendezvous) -> None:
        self._identity, self._rendezvous = identity, rendezvous
        self._peer: Peer | None = None
        self._token: str | None = None
        self._attempt_due: float | None = None
        self._retry_s = limits.SHIM_RETRY_FIRST_S
        self._up_since = 0.0
        self._needed_until = 0.0
        self._started = False
        self._without: set[str] = set()
        self.state = RESTING
        self.ended = self.renewing = self._final = False
        self.orphaned: Callable[[], bool] = _never
        self.session: dict[str, object] | None = None
        self.notices: list[str] = []
        self.problem: dict[str, object] | None = None
        self.on_up: Callable[[int], None] = _ignore
        self.on_problem: Callable[[dict[str, object]], None] = _ignore
        self.on_told: Callable[[str, dict[str, object]], None] = _ignore

    # -- what the loop needs -------------------------------------------------------------------------------------------

    def fileno(self) -> int | None:
        """What to poll, if there is a connection."""
        return None if self._peer is None else self._peer.fileno()

    @property
    def wants_write(self) -> bool:
        """Whether to poll for writing too."""
        return self._peer is not None and self._peer.wants_write

    @property
    def _needed(self) -> bool:
        """Whether somebody waits for the broker now."""
        return monotonic() < self._needed_until

    @property
    def due(self) -> float | None:
        """When `tick` has something to do."""
        peer_due = self._peer.due if self._peer else None
        times = [time for time in (self._attempt_due, peer_due) if time is not None]
        return min(times, default=None)

    def tick(self, now: float) -> None:
        """Does what is due."""
        if self._peer is not None:
            self._peer.expire(now)
            self._look()
        if self._attempt_due is not None and self._attempt_due <= now:
            self._attempt_due = None
            self._try()

    def read(self) -> None:
        """Call when the connection is readable."""
        if self._peer is not None:
            self._peer.read()
            self._look()

    def write(self) -> None:
        """Call when the connection is writable."""
        if self._peer is not None:
            self._peer.write()

    # -- what its users need -------------------------------------------------------------------------------------------

    def want(self) -> None:
        """Somebody needs the broker now: it is looked for at once, and started if there is none."""
        if self.state == UP and self._peer is not None and not self._peer.closed:
            return
        # A request that was lost with the link says so before the link itself is looked at: then the state is still UP.
        now = monotonic()
        self._needed_until = now + limits.SHIM_BROKER_S
        self._retry_s = limits.SHIM_RETRY_FIRST_S
        self.problem = None
        if self.state in (RESTING, TRYING):
            self.ended = False
            self.state = TRYING
            self._attempt_due = now

    def ask(self, method: str, params: Mapping[str, object], deadline: float, done: Done) -> int | None:
        """Asks the broker; only while UP. See `Peer.ask`; but one of `GIVING` that is not answered in time is lost with
        its connection."""
        peer = self._peer
        assert peer is not None

        def given(result: dict[str, object] | None, error: dict[str, object] | None) -> None:
            if error is not None and error.get("code") == "timeout":
                peer.close()
                error = None
            done(result, error)

        return peer.ask(method, params, deadline, given if method in GIVING else done)

    def tell(self, method: str, params: Mapping[str, object]) -> None:
        """Tells the broker something, if it is there."""
        if self._peer is not None and self.state == UP:
            self._peer.tell(method, params)

    def renew(self) -> None:
        """Another conversation runs in this harness now: the session ends, what it had not taken stays its own, and a
        new one begins in its place under the same name, if that is still free."""
        if self.session is None or self._identity.granted:
            return  # not known yet; or not this process's to end
        self._token = None
        self.renewing = self.state != RESTING
        if self.state == UP:
            now = monotonic()
            self._needed_until = now + limits.SHIM_BROKER_S
            self.ask("end", {}, now + limits.SHIM_HANDSHAKE_S, _ignore)  # its `bye` begins the new one
        elif self.state != RESTING:
            self._lose()
            self._attempt_due = monotonic()

    def end(self, deadline: float, done: Callable[[], None]) -> None:
        """Ends the session, for good; only while UP. done: called when the broker has ended it, or by the deadline, or
        when the link breaks."""
        self._final = True

        def ended(result: dict[str, object] | None, error: dict[str, object] | None) -> None:
            done()

        self.ask("end", {}, deadline, ended)

    def leave(self) -> None:
        """This turned out to be no session: if it has introduced itself as one, that ends."""
        if self.session is not None and self.state == UP:
            self.ask("end", {}, monotonic() + limits.SHIM_HANDSHAKE_S, _ignore)
        self.session = self._token = None

    def drop(self) -> None:
        """Ends the link."""
        if self._peer is not None:
            self._peer.close()
            self._peer = None
        self.state, self._attempt_due = RESTING, None

    # -- finding -------------------------------------------------------------------------------------------------------

    def _try(self) -> None:
        if self._final or self.orphaned():
            # A call that lost its link with the session wants it back, and nobody is there for whom it would be.
            self.state = RESTING
            return
        granted = self._identity.granted
        try:
            sockets = [granted[0]] if granted else self._rendezvous.sockets()
        except Exception as problem:
            # Our own rule for paths says in a sentence what is wrong with this user's directories; nothing here can
            # mend it.
            self._refuse({"code": "no_broker", "text": str(problem), "hint": None})
            return
        missing = False
        for path in sockets:
            try:
                self._connect(path)
            except (FileNotFoundError, ConnectionRefusedError):
                missing = True
                continue
            except BlockingIOError:
                break  # too many are knocking at once
            except (OSError, Foreign) as problem:
                self._refuse({"code": "no_broker", "text": f"{path} cannot be used: {problem}", "hint": None})
                return
            return
        if missing and not granted and self._needed:
            self._started = True
            failure = self._rendezvous.start()
            if failure:
                self._refuse({"code": "no_broker", "text": failure, "hint": None})
                return
        elif self._started:
            self._settle()  # nobody waits any more: whoever needs a broker next must be free to start it
        self._again()

    def _settle(self) -> None:
        if self._started:
            self._started = False
            self._rendezvous.settle()

    def _connect(self, path: str) -> None:
        self._peer = Peer(path, self._receive)
        deadline = monotonic() + limits.SHIM_HANDSHAKE_S
        hello = {"protocol": limits.PROTOCOL, "client": f"xsessionctl-mcp/{__version__}"}
        if self._identity.guest:
            self.state = ATTACHING
            self._peer.ask("hello", {**hello, "conversation": self._identity.conversation}, deadline, self._attached)
            return
        self._peer.ask("hello", hello, deadline, self._greeted)
        if self._identity.granted:
            self.state = ATTACHING
            self._attach_granted(deadline)
            return
        self.state = INTRODUCING
        params = {key: value for key, value in self._identity.as_params().items() if key not in self._without}
        if self.session is not None:
            params["name"] = self.session.get("name")
            if self._token is not None:
                params["resume"] = {"id": self.session.get("id"), "token": self._token}
        self._peer.ask("register", params, deadline, self._registered)

    def _attach_granted(self, deadline: float) -> None:
        assert self._identity.granted is not None
        token_file = self._identity.granted[1]
        try:
            if not token_file:
                raise OSError("XSESSIOND_SOCKET is set, and XSESSIOND_TOKEN_FILE is not")
            with open(token_file, encoding="ascii") as file:
                token = file.read().strip()
        except (OSError, ValueError) as problem:
            self._refuse(
                {"code": "bad_config", "text": f"The session's token cannot be read: {problem}.", "hint": None}
            )
            return
        self._attach(token, deadline)

    def _attach(self, token: str, deadline: float) -> None:
        assert self._peer is not None
        self._peer.ask("attach", {"token": token, "push": False}, deadline, self._attached)

    def _greeted(self, result: dict[str, object] | None, error: dict[str, object] | None) -> None:
        if error is not None:
            self._reconsider(error)

    def _registered(self, result: dict[str, object] | None, error: dict[str, object] | None) -> None:
        if error is not None:
            self._reconsider(error)
            return
        if result is None or self.state != INTRODUCING:
            return
        session, token, path = result.get("session"), result.get("token"), result.get("socket")
        if not isinstance(session, dict) or not isinstance(path, str):
            self._refuse({"code": "internal", "text": "The broker's answer makes no sense.", "hint": None})
            return
        self.session = session
        if isinstance(token, str):
            self._token = token
        notice = result.get("notice")
        if isinstance(notice, str) and notice not in self.notices:
            self.notices.append(notice)
        old, self._peer = self._peer, None
        if old is not None:
            old.close()
        deadline = monotonic() + limits.SHIM_HANDSHAKE_S
        try:
            self._peer = Peer(path, self._receive)
        except (OSError, Foreign):
            self._again()
            return
        self.state = ATTACHING
        hello = {"protocol": limits.PROTOCOL, "client": f"xsessionctl-mcp/{__version__}"}
        self._peer.ask("hello", hello, deadline, self._greeted)
        self._attach(self._token or "", deadline)

    def _attached(self, result: dict[str, object] | None, error: dict[str, object] | None) -> None:
        if error is not None:
            self._reconsider(error)
            return
        if result is None or self.state != ATTACHING:
            return
        session = result.get("session")
        if isinstance(session, dict):
            self.session = session
        self.state, self._up_since = UP, monotonic()
        self.renewing = False
        self._needed_until = 0.0
        self.problem = None
        self._settle()
        queued = result.get("queued")
        self.on_up(queued if isinstance(queued, int) else 0)

    def _reconsider(self, error: dict[str, object]) -> None:
        """A refused introduction: what may be wrong with it is left out, once each, before the refusal counts."""
        code = error.get("code")
        if code in _NOT_NOW:
            self._again()
            return
        if self._token is not None and not self._identity.granted and code in _FORGET_TOKEN:
            self._token = None
        elif code == "bad_name" and self._identity.name and "name" not in self._without:
            self._without.add("name")
            self.notices.append(f"The name in XSESSIOND_NAME cannot be used: {error.get('text')}")
        elif code == "not_permitted" and self._identity.pid is not None and "pid" not in self._without:
            self._without.add("pid")
        else:
            self._refuse(error)
            return
        self._lose()
        self._attempt_due = monotonic()

    # -- losing --------------------------------------------------------------------------------------------------------

    def _receive(self, method: str, params: dict[str, object], request_id: object) -> None:
        if method == "ping" and request_id is not None and self._peer is not None:
            self._peer.answer(request_id)
        elif method == "bye" and params.get("reason") == "ended":
            self.ended = True
        else:
            self.on_told(method, params)

    def _look(self) -> None:
        """Whether the connection is still there."""
        if self._peer is None or not self._peer.closed:
            return
        was_up = self.state == UP
        self._lose()
        if self.ended:
            # The broker has ended this session: it comes back when it is needed, and as a new one.
            self._token = None
            self.state = RESTING
            if self._needed:
                self.want()
            return
        if was_up and monotonic() - self._up_since >= limits.SHIM_STEADY_S:
            self._retry_s = limits.SHIM_RETRY_FIRST_S
        self._again()

    def _lose(self) -> None:
        peer, self._peer = self._peer, None
        self.state = TRYING
        if peer is not None:
            peer.close()

    def _again(self) -> None:
        self._lose()
        self._attempt_due = monotonic() + self._retry_s
        most = limits.SHIM_RETRY_NEEDED_S if self._needed else limits.SHIM_RETRY_MOST_S
        self._retry_s = min(self._retry_s * 2, most)

    def _refuse(self, error: dict[str, object]) -> None:
        """The broker does not want this session, or cannot be had: nothing is tried until somebody needs it."""
        self._lose()
        self._settle()
        self.state = RESTING
        self._attempt_due = None
        self.problem = error
        self.on_problem(error)


def _ignore(*_: object) -> None:
    pass


def _never() -> bool:
    return False

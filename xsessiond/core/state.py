"""What the broker knows, in one place that its parts share, and how they ask the shell for effects.

Laws: there is one `Core`; what more than one of its parts (introductions, sending, delivery, questions …) must know
between events stands in it. Randomness comes through `entropy` only. Refuses to know: what a request means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from xsessiond.core import limits
from xsessiond.core.address import Resolver
from xsessiond.core.agenda import Agenda
from xsessiond.core.effects import (
    CheckPassphrase,
    CloseLink,
    Effect,
    Found,
    LookUp,
    Peer,
    Persist,
    ProcessId,
    Question,
    SendFrame,
    WriteLog,
)
from xsessiond.core.errors import Refusal
from xsessiond.core.ids import SessionId
from xsessiond.core.jsonrpc import REFUSED
from xsessiond.core.link import Link
from xsessiond.core.mailbox import Message
from xsessiond.core.outgoing import encode_error, encode_notification, encode_result
from xsessiond.core.policy import CoreSettings
from xsessiond.core.records import Op, PutSession, TrustRow, WatchRow
from xsessiond.core.resume_command import can_resume
from xsessiond.core.roster import Roster, Session
from xsessiond.core.shapes import SendShape, SessionShape, shape_session
from xsessiond.core.store_health import StoreHealth
from xsessiond.core.suppressed import Suppressed
from xsessiond.core.times import Now
from xsessiond.core.wire import RequestId


class Identity(msgspec.Struct, frozen=True):
    """Who this broker is. instance: random, new at each start. session_dir: where the private sockets lie. user: the
    account's name. service: the service manager that started it (`systemd`, `launchd`), None for a client.
    boot_clock_s: its start on the clock that goes on while the machine sleeps, None where there is no such. open_files:
    descriptors that it may have."""

    version: str
    instance: str
    pid: int
    machine: str
    user: str
    session_dir: str
    service: str | None = None
    boot_clock_s: float | None = None
    open_files: int = limits.OPEN_FILES


@dataclass(slots=True, eq=False)
class Wire:
    """One connection as the broker sees it.

    door: id of the session whose private socket it came through, None on the rendezvous. session: whose link it is
    since `attach`. conversation: that it says it is part of, see `callers.find_speaker`.
    pushed: number of the last push. outstanding: number and message of what was pushed and is still leased to it, by
    id, oldest first. paused: what it gave back is not pushed again yet. borrowed: whose boxes it has leased from
    besides its session's. told: whose receipts it was shown, and the time of the last; it has not gone on from there.
    confined: it came through the socket of a granted session.
    """

    link: int
    door: str | None
    peer: Peer
    protocol: Link
    conversation: str | None = None
    session: Session | None = None
    caller: Caller | None = None
    push: bool = False
    pushed: int = 0
    outstanding: dict[str, tuple[int, Message]] = field(default_factory=dict)
    paused: bool = False
    borrowed: set[Session] = field(default_factory=set)
    told: tuple[Session, int] | None = None
    following: bool = False
    confined: bool = False


class Caller(msgspec.Struct, frozen=True):
    """Who speaks. kind: session, human or script. session: the session that speaks, or the human's own box. among:
    sessions it may be, where its process belongs to several, also if it says which of them it is. confined: it came
    through a granted socket, and has shown no token. silenced: it is below an agent whose session was switched off by a
    project's file, or ended while its harness lived."""

    kind: str
    session: Session
    among: tuple[Session, ...] = ()
    silenced: bool = False
    confined: bool = False

    @property
    def is_session(self) -> bool:
        """Whether an agent's session speaks."""
        return self.kind == "session"


@dataclass(slots=True)
class Wait:
    """A request of a link that waits for the reply to its message. shape: its answer."""

    link: int
    request_id: RequestId
    shape: SendShape


class Receipt(NamedTuple):
    """What waits to be told. at: its time in milliseconds. shape: as clients see it. wake: it is worth a turn, and its
    cause, with this hop."""

    at: int
    shape: dict[str, object]
    wake: bool = False
    hop: int = 0


Continuation = Callable[[Wire, Found, Now], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that waits for the store."""

    link: int
    request_id: RequestId
    then: Continuation


@dataclass(frozen=True, slots=True)
class Arrival:
    """A session that is told that it is here once its project's settings are read. resumed, notice: of the answer."""

    link: int
    request_id: RequestId
    token: str
    resumed: bool
    notice: str | None


@dataclass(frozen=True, slots=True)
class Proving:
    """A decision that waits for the passphrase to be checked."""

    link: int
    request_id: RequestId
    then: Callable[[Wire, Now], None]


class Core:
    """The broker's knowledge. `out` gathers the effects of the event being handled."""

    def __init__(self, identity: Identity, settings: CoreSettings, entropy: Callable[[int], bytes]) -> None:
        self.identity, self.settings, self.entropy = identity, settings, entropy
        self.roster = Roster(entropy)
        self.resolver = Resolver(self.roster, identity.machine)
        self.agenda = Agenda()
        self.wires: dict[int, Wire] = {}
        self.silenced: dict[ProcessId, None] = {}
        self.messages: dict[str, Message] = {}
        self.introduced: dict[str, Session] = {}
        """Sessions that registered and have not attached since, oldest first."""
        self.waits: dict[str, Wait] = {}
        self.told_of: dict[str, int] = {}
        """Replies in memory that ended a wait, and the link that was told so."""
        self.human = Session(SessionId("human"), "", identity.user, kind="human")
        self.script = Session(SessionId("script"), "", "script", kind="script")
        self.receipts: dict[str, list[Receipt]] = {}
        self.suppressed = Suppressed()
        self.next_seq = 1
        self.boot_id = ""
        self.started_mono = 0.0
        self.started_ms = 0
        self.store_health = StoreHealth()
        self.warnings: list[str] = []
        self.stopping = self.handing_over = False
        self.followers = 0
        self.pruned_at = 0
        self.reloading: list[tuple[int, RequestId]] = []
        self.out: list[Effect] = []
        self._tickets = 0
        self.asked: dict[int, Asked] = {}
        self.proving: dict[int, Proving] = {}
        self.trusts: dict[str, TrustRow] = {}
        self.watches: dict[str, dict[str, WatchRow]] = {}
        """Who asked to be told when a session is idle: its id → the asker's id → what was asked."""
        self.stirred: dict[str, Session] = {}
        self.queue_watchers: set[int] = set()
        self.queue_changed = False
        self.arrivals: dict[str, Arrival] = {}

    @property
    def sessions_most(self) -> int:
        """Sessions that may run: as many as there may be descriptors for."""
        return min(limits.SESSIONS_MOST, self.identity.open_files // limits.FILES_PER_SESSION)

    def persist(self, op: Op) -> None:
        """Store this before what follows is sent."""
        self.out.append(Persist(op))

    def save(self, session: Session) -> None:
        """Store the session as it is now."""
        self.persist(PutSession(session.to_row(self.boot_id, self.identity.machine)))

    def stir(self, session: Session) -> None:
        """Something changed that it depends on whether this session is idle. Who asked to be told is thought of at the
        end of the event."""
        if session.id in self.watches:
            self.stirred[session.id] = session

    def answer(self, wire: Wire, request_id: RequestId, value: object) -> None:
        """Answers a request; a notification gets none."""
        if request_id is not msgspec.UNSET:
            self.out.append(SendFrame(wire.link, encode_result(request_id, value)))

    def refuse(self, wire: Wire, request_id: RequestId, refusal: Refusal) -> None:
        """Answers a request with a refusal; a notification gets none."""
        if request_id is not msgspec.UNSET:
            frame = encode_error(request_id, REFUSED, refusal.text, refusal.to_json())
            self.out.append(SendFrame(wire.link, frame))

    def turn_away(self, session_id: str, refusal: Refusal) -> None:
        """Whoever waits to become this session does not."""
        arrival = self.arrivals.pop(session_id, None)
        wire = self.wires.get(arrival.link) if arrival is not None else None
        if arrival is not None and wire is not None:
            self.refuse(wire, arrival.request_id, refusal)

    def send(self, link: int, frame: bytes) -> None:
        """One frame to a peer, whoever it is."""
        self.out.append(SendFrame(link, frame))

    def close(self, link: int, why: str | None = None) -> None:
        """Ends a connection after what was sent."""
        self.out.append(CloseLink(link, why))

    def log(self, level: str, what: str, **facts: object) -> None:
        """A line for the operator."""
        self.out.append(WriteLog(level, what, facts))

    def tell_followers(self, method: str, params: object) -> None:
        """One notification to each link that follows the log."""
        if not self.followers:
            return
        frame = encode_notification(method, params)
        for wire in self.wires.values():
            if wire.following:
                self.send(wire.link, frame)

    def warn(self, text: str) -> None:
        """Something a person should see in `status`; the last 20 are kept, each once."""
        others = [known for known in self.warnings if known != text]
        self.warnings = [*others[-19:], text]

    def ask(self, wire: Wire, request_id: RequestId, question: Question, then: Continuation) -> None:
        """Asks the store for a request. `then` goes on with what was found, as part of a later event, if the link is
        still there; it may raise Refusal."""
        self._tickets += 1
        self.asked[self._tickets] = Asked(wire.link, request_id, then)
        self.out.append(LookUp(self._tickets, question, wire.link))

    def check_passphrase(self, wire: Wire, request_id: RequestId, text: str, then: Callable[[Wire, Now], None]) -> None:
        """Has the passphrase checked; `then` goes on if it is right, as part of a later event."""
        self._tickets += 1
        self.proving[self._tickets] = Proving(wire.link, request_id, then)
        self.out.append(CheckPassphrase(self._tickets, text))

    def shape(self, session: Session) -> SessionShape:
        """A session as clients see it."""
        startable = not session.running and can_resume(session, self.settings.resume)
        return shape_session(session, self.identity.machine, self.class_of(session), can_resume=startable)

    def class_of(self, session: Session) -> str:
        """The permission class: what the harness says, or what the user says of a harness that cannot tell."""
        if session.perm_class != "unknown":
            return session.perm_class
        return self.settings.assume_class.get(session.harness, "unknown")

    def owner_of(self, session_id: str) -> Session | None:
        """The session that this id belongs to, or the one that stands for the human or for scripts."""
        known = self.roster.known.get(session_id)
        if known is not None:
            return known
        if session_id == self.human.id:
            return self.human
        return self.script if session_id == self.script.id else None

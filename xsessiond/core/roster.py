"""The roster: which sessions there are, what they are called, and by what one may find them.

Laws: one table; a name is a lease that belongs to at most one running session, and so is its look-alike. A session
that ended keeps its id, never its name. Claims refuse with a reason and change nothing; releases are total. Refuses to
know: links, messages, who may ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Raw

from xsessiond.core.admission import Policy, Setting, Verdict
from xsessiond.core.causality import Causes
from xsessiond.core.effects import ProcessId
from xsessiond.core.ids import SessionId, ref_digits
from xsessiond.core.limits import MIN_REF
from xsessiond.core.mailbox import Box
from xsessiond.core.names import check_name, fold_name, free_name, skeletons
from xsessiond.core.pacing import Pace
from xsessiond.core.policy import NOT_READ, launch_setting
from xsessiond.core.records import GrantRow, Kind, SessionRow
from xsessiond.core.wire import encode


class Session:
    """One conversation. Mutable; only the roster changes `name`, `folded` and `ended_at`.

    process: the harness, None where it is not known or cannot be watched. watched: it is verified and watched. links:
    ids of attached links. seen: monotonic time of the last frame from it. bound: the process that used the token
    first. pins: folded name → session id; pins_before: the same of names that now mean another session.
    outer: ids of sessions that it was started inside of. grant: the human's, which it lives by, or None; place: the
    container that its links come from. noted: it has read the boundary note in full. unresponsive: it
    did not answer a ping. worked_at: when it last did something of its own, in milliseconds. causes: what it acts on.
    turned_away: messages for it that were one too many, since the broker started. attended: False once its harness says
    that nobody looks at it.
    """

    __slots__ = (
        "attended", "bound", "box", "can_reply", "causes", "cwd", "delivery", "ended_at", "folded", "grant", "harness",
        "harness_session_id", "id", "kind", "label", "last_seen_at", "launch", "links", "modes", "name", "noted",
        "origin", "outer", "pace", "pair_seqs", "perm_class", "pins", "pins_before", "place", "policy", "process",
        "project", "ref", "seen", "started_at", "state", "target", "token_hash", "turned_away", "unresponsive",
        "verdicts", "watched", "worked_at",
    )  # fmt: skip

    def __init__(self, session_id: SessionId, ref: str, name: str, kind: Kind = "session") -> None:
        self.id, self.ref, self.name, self.kind = session_id, ref, name, kind
        self.folded = fold_name(name)
        self.label: str | None = None
        self.harness = "mcp"
        self.harness_session_id: str | None = None
        self.cwd = "/"
        self.process: ProcessId | None = None
        self.watched = False
        self.perm_class = "unknown"
        self.delivery = "pull"
        self.can_reply = self.attended = True
        self.modes: tuple[str, ...] = ("auto",)
        self.token_hash = b""
        self.bound: ProcessId | None = None
        self.outer: frozenset[str] = frozenset()
        self.grant: GrantRow | None = None
        self.place: int | None = None
        self.started_at = self.last_seen_at = 0
        self.ended_at: int | None = None
        self.seen = 0.0
        self.state = "unknown"
        self.unresponsive = False
        self.noted = False
        self.worked_at: int | None = None
        self.links: set[int] = set()
        self.pins: dict[str, str] = {}
        self.pins_before: dict[str, str] = {}
        self.pair_seqs: dict[str, int] = {}
        self.box = Box()
        self.launch: Setting | None = None
        self.project = NOT_READ
        self.policy = Policy()
        self.verdicts: dict[str, tuple[int, Verdict]] = {}
        self.pace = Pace()
        self.causes = Causes()
        self.turned_away = 0
        self.refresh()

    def call(self, name: str) -> None:
        """Sets the name of a session that is not in the roster now."""
        self.name, self.folded = name, fold_name(name)

    def refresh(self) -> None:
        """Encodes anew what every message from and to it repeats. Called after a change of what these show."""
        own = self.kind == "session"
        self.origin = Raw(
            encode(
                {
                    "kind": self.kind,
                    "id": self.id if own else None,
                    "ref": self.ref if own else None,
                    "name": self.name,
                    "harness": self.harness if own else None,
                    "cwd": self.cwd if own else None,
                }
            )
        )
        self.target = Raw(encode({"id": self.id, "ref": self.ref, "name": self.name}))

    @property
    def comes_back(self) -> bool:
        """Whether one that does not run can be known again when it does: by its conversation, or by its grant."""
        return self.harness_session_id is not None or self.grant is not None

    @property
    def running(self) -> bool:
        """Whether it is in the roster."""
        return self.ended_at is None

    @property
    def shown_state(self) -> str:
        """What people and models are told of its state."""
        if not self.running:
            return "offline"
        if self.unresponsive:
            return "unresponsive"
        return self.state

    def to_row(self, boot_id: str, machine: str) -> SessionRow:
        """As it is stored."""
        return SessionRow(
            id=self.id,
            ref=self.ref,
            name=self.name,
            label=self.label,
            harness=self.harness,
            harness_session_id=self.harness_session_id,
            cwd=self.cwd,
            pid=self.process.pid if self.process else None,
            pid_start=self.process.start if self.process else None,
            boot_id=boot_id,
            perm_class=self.perm_class,
            delivery=self.delivery,
            can_reply=self.can_reply,
            modes=",".join(self.modes),
            token_hash=self.token_hash,
            machine=machine,
            live=self.running,
            noted=self.noted,
            started_at=self.started_at,
            last_seen_at=self.last_seen_at,
            ended_at=self.ended_at,
            inbound=None if self.launch is None else self.launch.value or "unreadable",
        )

    @classmethod
    def from_row(cls, row: SessionRow) -> Session:
        """From the store; its links are gone."""
        session = cls(SessionId(row.id), row.ref, row.name)
        session.label, session.harness = row.label, row.harness
        session.harness_session_id, session.cwd = row.harness_session_id, row.cwd
        if row.pid is not None and row.pid_start is not None:
            session.process = ProcessId(row.pid, row.pid_start)
        session.perm_class, session.delivery = row.perm_class, row.delivery
        session.can_reply, session.modes = row.can_reply, tuple(row.modes.split(",")) if row.modes else ()
        session.token_hash, session.noted = row.token_hash, row.noted
        session.started_at, session.last_seen_at, session.ended_at = row.started_at, row.last_seen_at, row.ended_at
        session.launch = launch_setting(row.inbound)
        session.refresh()
        return session


class NameTaken(Exception):
    """A running session has this name, or one that looks like it. holder: that session. suggestion: one free name."""

    def __init__(self, holder: Session, suggestion: str) -> None:
        super().__init__(holder.name, suggestion)
        self.holder, self.suggestion = holder, suggestion


class Roster:
    """All known sessions. `entropy`: bytes for the words of a suggestion."""

    __slots__ = (
        "_by_conversation",
        "_by_digits",
        "_by_name",
        "_by_process",
        "_by_skeleton",
        "_ended",
        "_entropy",
        "known",
    )

    def __init__(self, entropy: Callable[[int], bytes]) -> None:
        self.known: dict[str, Session] = {}
        self._ended: dict[str, Session] = {}
        self._by_digits: dict[str, set[SessionId]] = {}
        self._by_name: dict[str, Session] = {}
        self._by_skeleton: dict[str, Session] = {}
        self._by_conversation: dict[tuple[str, str], Session] = {}
        self._by_process: dict[ProcessId, set[Session]] = {}
        self._entropy = entropy

    def __len__(self) -> int:
        return len(self._by_name)

    def running(self) -> Iterator[Session]:
        """The running sessions, in the order they came."""
        yield from self._by_name.values()

    def named(self, name: str) -> Session | None:
        """The running session of this name, compared case-folded."""
        return self._by_name.get(fold_name(name))

    def conversation(self, harness: str, harness_session_id: str) -> Session | None:
        """The session of a harness's own conversation, running or not."""
        return self._by_conversation.get((harness, harness_session_id))

    def at_process(self, process: ProcessId) -> set[Session]:
        """The running sessions of a harness process."""
        return self._by_process.get(process, set())

    def choose_ref(self, session_id: SessionId) -> str:
        """The shortest beginning of the id's digits, at least `MIN_REF`, that no known session's ref or id begins
        with."""
        digits = ref_digits(session_id)
        others = [ref_digits(other) for other in self._by_digits.get(digits[:MIN_REF], ())]
        length = MIN_REF
        while any(other[:length] == digits[:length] for other in others):
            length += 1
        return digits[:length]

    def check_free(self, name: str, claimant: Session | None = None) -> str:
        """The name in its normal form. Raises BadName and NameTaken."""
        name = check_name(name)
        holder = self._holder(name)
        if holder is not None and holder is not claimant:
            raise NameTaken(holder, self.suggest(name))
        return name

    def suggest(self, name: str) -> str:
        """A free name made from this one."""
        return free_name(name, lambda other: self._holder(other) is not None, self._entropy(8))

    def _holder(self, name: str) -> Session | None:
        holder = self._by_name.get(fold_name(name))
        for look in skeletons(name) if holder is None else ():
            holder = holder or self._by_skeleton.get(look)
        return holder

    def add(self, session: Session) -> None:
        """A session starts, or starts again. Its name must be free (`check_free`)."""
        session.ended_at = None
        self._know(session)
        self._ended.pop(session.id, None)
        self._claim(session)
        self.place(session, session.process)

    def remember(self, session: Session) -> None:
        """A session that ended before this broker started. It has no name."""
        self._know(session)
        self._ended[session.id] = session

    def end(self, session: Session, at: int) -> None:
        """The session's conversation is over: its name is free, its process no more a way to it."""
        session.ended_at = at
        session.unresponsive = False
        self._release(session)
        self.place(session, None)
        self._ended[session.id] = session
        self._pass_on(session)

    def ended(self) -> Iterator[Session]:
        """The sessions that are known and do not run, in the order they ended."""
        yield from self._ended.values()

    def forget(self, session: Session) -> None:
        """Nothing is kept of an ended session any more."""
        self.known.pop(session.id, None)
        self._ended.pop(session.id, None)
        digits = ref_digits(session.id)[:MIN_REF]
        if (same := self._by_digits.get(digits)) is not None:
            same.discard(session.id)
            if not same:
                del self._by_digits[digits]
        self._give_up_conversation(session)

    def rename(self, session: Session, name: str) -> None:
        """A new name; it must be free (`check_free`)."""
        self._release(session)
        session.call(name)
        session.refresh()
        self._claim(session)

    def place(self, session: Session, process: ProcessId | None) -> None:
        """The harness process of a running session; None: there is none."""
        for known in (session.process, process):
            if known is not None and (at := self._by_process.get(known)) is not None:
                at.discard(session)
                if not at:
                    del self._by_process[known]
        if session.running or process is not None:
            session.process = process
        if process is not None:
            self._by_process.setdefault(process, set()).add(session)

    def identify(self, session: Session, harness: str, harness_session_id: str | None) -> None:
        """The harness says which program it is and which of its conversations the session is."""
        self._give_up_conversation(session)
        session.harness, session.harness_session_id = harness, harness_session_id
        self._know(session)
        session.refresh()

    def _know(self, session: Session) -> None:
        self.known[session.id] = session
        self._by_digits.setdefault(ref_digits(session.id)[:MIN_REF], set()).add(session.id)
        if session.harness_session_id is not None:
            key = session.harness, session.harness_session_id
            holder = self._by_conversation.get(key)
            if holder is None or not holder.running:  # a conversation open twice: the first to run keeps it
                self._by_conversation[key] = session

    def _give_up_conversation(self, session: Session) -> None:
        if session.harness_session_id is not None:
            key = session.harness, session.harness_session_id
            if self._by_conversation.get(key) is session:
                del self._by_conversation[key]
                self._pass_on(session)

    def _pass_on(self, session: Session) -> None:
        """Another running session of the same conversation, if there is one, is the one to find from now on."""
        if session.harness_session_id is None:
            return
        key = session.harness, session.harness_session_id
        if self._by_conversation.get(key, session) is not session:
            return
        for other in self._by_name.values():
            if other is not session and (other.harness, other.harness_session_id) == key:
                self._by_conversation[key] = other
                return

    def _claim(self, session: Session) -> None:
        self._by_name[session.folded] = session
        for look in skeletons(session.name):
            self._by_skeleton[look] = session

    def _release(self, session: Session) -> None:
        if self._by_name.get(session.folded) is session:
            del self._by_name[session.folded]
        for look in skeletons(session.name):
            if self._by_skeleton.get(look) is session:
                del self._by_skeleton[look]

"""The closed lists of what can happen to the broker and of what it asks the shell to do.

Events are past tense, effects imperative. Laws: effects of one event are done in their order; a frame that stands
behind a `Persist` leaves only after that commit. Refuses to know: how either is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from xsessiond.core.link import Link
from xsessiond.core.policy import CoreSettings, ProjectSettings
from xsessiond.core.records import EventRow, MessageRow, Op, Snapshot
from xsessiond.core.wire import Answer, AnyRequest, BadFrame

LinkId = int


class ProcessId(NamedTuple):
    """One process for as long as the machine runs: a pid is used again, a pid with its start is not.

    `start` is in the system's own unit: clock ticks since boot on Linux, microseconds since the epoch on macOS. It is
    compared and stored (with the boot id), and means nothing else.
    """

    pid: int
    start: int


class Peer(Struct, frozen=True):
    """Who the kernel says is at the other end of a link.

    process: the one that connected, None where its pid means nothing here (another pid namespace) or it has ended.
    ancestors: from the process itself upwards; complete: up to the first process. terminal: whether it has a
    controlling terminal and was started from there; tty: the terminal's name. user: the account's name. marks:
    variables of harnesses in the environment that it or an ancestor was started with. unseen: which of these could not
    be looked into though they are the user's own. shared: those that more than one session may stand on, so that they
    are nobody's harness: shells, service managers, another user's, and all above a manager or the shell of a terminal.

    place: which mount namespace it is in, that is, which container; None where that is not known.

    tree: what it is part of where no session is around it: pid of the leader of the session (setsid) in which the
    outermost ancestor stands that is below managers, other users and whatever shows the terminal; None where nothing
    could be seen.

    On a session's private socket only process, ancestors, complete and place are found out.
    """

    process: ProcessId | None
    ancestors: tuple[ProcessId, ...]
    terminal: bool
    user: str
    marks: frozenset[str] = frozenset()
    complete: bool = True
    tty: str | None = None
    unseen: str | None = None
    place: int | None = None
    shared: frozenset[ProcessId] = frozenset()
    tree: int | None = None


class LinkOpened(Struct, frozen=True):
    """A client connected. door: None on the rendezvous, a session's id on its private socket. protocol: the machine
    that the shell feeds with what it reads, and whose state the broker steps."""

    link: LinkId
    door: str | None
    peer: Peer
    protocol: Link


class FrameReceived(Struct, frozen=True, gc=False):
    """A frame came whole."""

    link: LinkId
    frame: AnyRequest | Answer | BadFrame


class LinkClosed(Struct, frozen=True):
    """The connection is gone, whoever ended it."""

    link: LinkId


class ProcessExited(Struct, frozen=True):
    """A watched process is dead."""

    process: ProcessId


class TimePassed(Struct, frozen=True):
    """The time that the broker asked for has come."""


class Restored(Struct, frozen=True):
    """What the store held when the broker started. boot_id: of this run of the machine."""

    snapshot: Snapshot
    boot_id: str


Found = tuple[MessageRow, Sequence[EventRow]] | MessageRow | Sequence[MessageRow] | Sequence[EventRow] | None
"""What the store's answers look like; which one, the question says."""


class LookedUp(Struct, frozen=True):
    """The answer of the store to a `LookUp`. found: what its question returns; problem: why it could not, in a
    sentence."""

    ticket: int
    found: Found
    problem: str | None = None


class SettingsRead(Struct, frozen=True):
    """The settings files were read, at the start or because they changed."""

    settings: CoreSettings


class ProjectRead(Struct, frozen=True):
    """What the project of a session's folder says."""

    session_id: str
    project: ProjectSettings


class PassphraseChecked(Struct, frozen=True):
    """Whether it is the user's passphrase; problem: why that could not be told, in a sentence."""

    ticket: int
    ok: bool
    problem: str | None = None


class ConversationStarted(Struct, frozen=True):
    """The command that was to resume a conversation ended, or could not be started. problem: what went wrong, as the
    rest of a sentence; None where it ended well. said: the end of what it wrote."""

    ticket: int
    problem: str | None
    said: str = ""


class NotStored(Struct, frozen=True):
    """The store refused these operations; their frames were not sent. text: one sentence."""

    ops: tuple[Op, ...]
    text: str


class SuccessorFound(Struct, frozen=True):
    """Whether the program that is to go on can. version: its own; problem: why it cannot, in a sentence."""

    version: str | None
    problem: str | None = None


class StopAsked(Struct, frozen=True):
    """The service manager or a signal wants the broker to end."""

    reason: str


class StoreReported(Struct, frozen=True):
    """What the shell knows of the store. checked: whether a look at it found it sound, and in words; None: it has
    stored something again, after a `NotStored`."""

    checked: tuple[bool, str] | None


RareEvent = (
    LinkOpened
    | LinkClosed
    | ProcessExited
    | TimePassed
    | Restored
    | LookedUp
    | NotStored
    | StopAsked
    | SuccessorFound
    | StoreReported
    | SettingsRead
    | ProjectRead
    | PassphraseChecked
    | ConversationStarted
)
"""All but what comes thousands of times a second."""

Event = FrameReceived | RareEvent


class Persist(Struct, frozen=True, gc=False):
    """Store this. lazy: nothing that is sent depends on it; it goes with the next commit, or soon by itself."""

    op: Op
    lazy: bool = False


class SendFrame(Struct, frozen=True, gc=False):
    """One line to a peer. urgent: leaves without waiting for a commit (status and stop, when the disk hangs)."""

    link: LinkId
    frame: bytes
    urgent: bool = False


class CloseLink(Struct, frozen=True):
    """End the connection after what was sent. why: for the log, or None when it is ordinary."""

    link: LinkId
    why: str | None = None


class OpenDoor(Struct, frozen=True):
    """Listen on the private socket of a session. path: where that is, for one with a grant."""

    session_id: str
    ref: str
    path: str | None = None


class CloseDoor(Struct, frozen=True):
    """Stop listening and remove the private socket."""

    session_id: str


class WatchProcess(Struct, frozen=True):
    """Say `ProcessExited` when it dies, at once if it is dead already."""

    process: ProcessId


class UnwatchProcess(Struct, frozen=True):
    """It does not matter any more."""

    process: ProcessId


class FindMessage(Struct, frozen=True):
    """One message with its events: `tuple[MessageRow, Sequence[EventRow]] | None`."""

    message_id: str


class FindKey(Struct, frozen=True):
    """What a sender sent under a key: `MessageRow | None`."""

    sender_id: str
    key: str


class FindSent(Struct, frozen=True):
    """A sender's last messages, newest first: `Sequence[MessageRow]`."""

    sender_id: str
    limit: int


class ReadLog(Struct, frozen=True):
    """Past messages, oldest first: `Sequence[MessageRow]`."""

    limit: int
    since_ms: int | None
    thread: str | None


class FindEvents(Struct, frozen=True):
    """The events of these messages, in the order they were stored: `Sequence[EventRow]`."""

    seqs: tuple[int, ...]


Question = FindMessage | FindKey | FindSent | ReadLog | FindEvents


class LookUp(Struct, frozen=True):
    """Ask the store, after all that was persisted before, and answer with `LookedUp`. link: whose request needs it."""

    ticket: int
    question: Question
    link: int = 0


class ReadProject(Struct, frozen=True):
    """Read what the project of this folder says, answer with `ProjectRead`, and again whenever it changes."""

    session_id: str
    cwd: str


class ForgetProject(Struct, frozen=True):
    """The session is gone; its project's changes do not matter for it."""

    session_id: str


class ReadSettings(Struct, frozen=True):
    """Read the settings files anew and answer with `SettingsRead`."""


class CheckPassphrase(Struct, frozen=True):
    """Compare with the user's passphrase, slowly, and answer with `PassphraseChecked`."""

    ticket: int
    text: str


class StartConversation(Struct, frozen=True):
    """Run this program with these arguments in this folder, apart from everything of ours, and answer with
    `ConversationStarted` when it ends."""

    ticket: int
    argv: tuple[str, ...]
    cwd: str


class EndAttempt(Struct, frozen=True):
    """What this program was to start is there: leave it alone; or it did not come: end the program, if it runs."""

    ticket: int
    arrived: bool


class Notify(Struct, frozen=True):
    """Tell the user on the desktop, if a command for that is set."""

    title: str
    text: str


class Prune(Struct, frozen=True):
    """Delete what is final and older than this."""

    older_than_ms: int


class WriteLog(Struct, frozen=True):
    """A line for the people who run the machine. Never a body, a name's secret or a token. level: info, warning,
    error."""

    level: str
    what: str
    facts: dict[str, object]


class FindSuccessor(Struct, frozen=True):
    """Find out whether the program that would take our place can go on, and answer with `SuccessorFound`."""


class Stop(Struct, frozen=True):
    """End the program after what was accepted is stored and sent. handover: the successor that was found goes on with
    the sockets and the lock."""

    reason: str
    handover: bool = False


Effect = (
    Persist
    | SendFrame
    | CloseLink
    | OpenDoor
    | CloseDoor
    | WatchProcess
    | UnwatchProcess
    | LookUp
    | ReadProject
    | ForgetProject
    | ReadSettings
    | CheckPassphrase
    | StartConversation
    | EndAttempt
    | Notify
    | Prune
    | WriteLog
    | FindSuccessor
    | Stop
)

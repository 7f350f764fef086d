"""A house for the broker alone: no sockets, no clocks, no files, and stories that read like what happened.

    house = House()
    api, web = house.join("api"), house.join("web")
    sent = api.send(web, "the migration finished")
    assert web.read() == ["the migration finished"]
    house.restart()

Frames go through the real protocol machine (`core.link`) both ways as JSON, so a test speaks as a client does. What the
broker persists goes into a real store in memory before anything that stands behind it is seen, and its questions are
answered from there. Time stands still until `pass_time`. Entropy is counted, so the same story is the same run.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any

import msgspec

from xsessiond.core import jsonrpc
from xsessiond.core.broker import Broker
from xsessiond.core.effects import (
    CheckPassphrase,
    CloseDoor,
    CloseLink,
    ConversationStarted,
    Effect,
    EndAttempt,
    Event,
    FindSuccessor,
    ForgetProject,
    FrameReceived,
    LinkClosed,
    LinkOpened,
    LookedUp,
    LookUp,
    Notify,
    NotStored,
    OpenDoor,
    PassphraseChecked,
    Peer,
    Persist,
    ProcessExited,
    ProcessId,
    ProjectRead,
    Prune,
    ReadProject,
    ReadSettings,
    Restored,
    SendFrame,
    SettingsRead,
    StartConversation,
    Stop,
    SuccessorFound,
    TimePassed,
    UnwatchProcess,
    WatchProcess,
    WriteLog,
)
from xsessiond.core.errors import CODES, Refusal
from xsessiond.core.link import Link
from xsessiond.core.outgoing import answered_request, encode_error
from xsessiond.core.policy import CoreSettings, ProjectSettings
from xsessiond.core.records import Op
from xsessiond.core.roster import Session
from xsessiond.core.state import Identity
from xsessiond.core.times import Now
from xsessiond.io.lookups import answer_question
from xsessiond.store.memory import MemoryStore

BEGAN_MS = 1_800_000_000_000
IDENTITY = Identity("0.1.0", "instance", 4711, "box", "ann", "/run/x/s")
INIT = ProcessId(1, 0)

Answer = dict[str, Any]


class Refused(Exception):
    """A request was refused. code, text, hint, and the whole `error` object as `data`."""

    def __init__(self, data: Answer) -> None:
        super().__init__(data["code"], data["text"])
        self.data = data
        self.code: str = data["code"]
        self.text: str = data["text"]
        self.hint: str | None = data["hint"]


class Pending(Exception):
    """A request has no answer yet."""


def peer(*pids: int, terminal: bool = False) -> Peer:
    """Somebody with this ancestry, from the process itself upwards."""
    chain = (*(ProcessId(pid, pid * 10) for pid in pids), INIT)
    return Peer(chain[0] if pids else None, chain if pids else (), terminal, "ann")


class Line:
    """One connection to the broker, and all that came over it."""

    def __init__(self, house: House, link: int, door: str | None, who: Peer) -> None:
        self.house, self.link, self.door, self.peer = house, link, door, who
        self.protocol = Link()
        self.open = True
        self.pushes: list[Answer] = []
        self.notes: list[tuple[str, Answer]] = []
        self.pings: list[str] = []
        self.errors: list[Answer] = []
        self._answers: dict[int, Answer] = {}
        self._last = 0

    # -- speaking --------------------------------------------------------------------------------

    def ask(self, method: str, /, **params: Any) -> Answer:
        """The result of a request. Raises Refused, or Pending if there is none yet."""
        return self.answer(self.begin(method, **params))

    def begin(self, method: str, /, **params: Any) -> int:
        """Sends a request; `answer` has what came of it."""
        self._last += 1
        self.write(jsonrpc.request(self._last, method, params))
        return self._last

    def tell(self, method: str, /, **params: Any) -> None:
        """Sends a notification."""
        self.write(jsonrpc.notification(method, params))

    def answer(self, request: int) -> Answer:
        """What a request brought. Raises Refused or Pending."""
        frame = self._answers.get(request)
        if frame is None:
            raise Pending
        if "error" in frame:
            raise Refused(frame["error"]["data"])
        result: Answer = frame["result"]
        return result

    def code(self, request: int) -> int:
        """The JSON-RPC code of an error."""
        code: int = self._answers[request]["error"]["code"]
        return code

    def is_answered(self, request: int) -> bool:
        """Whether there is an answer."""
        return request in self._answers

    def write(self, data: bytes) -> None:
        """Sends bytes."""
        for frame in self.protocol.receive(data):
            self.house.handle(FrameReceived(self.link, frame))

    def pong(self) -> None:
        """Answers every ping."""
        while self.pings:
            self.write(jsonrpc.result(self.pings.pop(0), {}))

    # -- hearing ---------------------------------------------------------------------------------

    def hear(self, data: bytes) -> None:
        """Sorts what the broker sent."""
        assert data.endswith(b"\n")
        assert data.count(b"\n") == 1
        assert len(data) <= 1 << 20
        frame: Answer = msgspec.json.decode(data)
        assert frame["jsonrpc"] == "2.0"
        method = frame.get("method")
        if method == "ping":
            self.pings.append(frame["id"])
        elif method == "message":
            self.pushes.append(frame["params"])
        elif method is not None:
            self.notes.append((method, frame["params"]))
        elif frame["id"] is None:
            self.errors.append(frame["error"])
        else:
            assert frame["id"] not in self._answers, "a request was answered twice"
            if "error" in frame and frame["error"]["code"] == jsonrpc.REFUSED:
                assert frame["error"]["data"]["code"] in CODES
            self._answers[frame["id"]] = frame

    def drop(self) -> None:
        """The connection ends."""
        if self.open:
            self.open = False
            self.house.handle(LinkClosed(self.link))


class Guest:
    """A session as a test knows it: its harness's process, its shim, and the lines of that."""

    def __init__(self, house: House, pid: int, params: Answer) -> None:
        self.house, self.pid, self.params = house, pid, params
        self.outside: tuple[int, ...] = (2,)
        self.id = self.ref = self.name = self.socket = ""
        self.token: str | None = None
        self.registered: Answer = {}
        self.line: Line
        self.got: list[Answer] = []

    @property
    def peer(self) -> Peer:
        """The shim."""
        return peer(self.pid + 1, self.pid, *self.outside) if self.pid else peer(*self.outside[:-1])

    def register(self, *, resume: bool = False, **params: Any) -> Answer:
        """Introduces itself over the rendezvous, as a shim does."""
        rendezvous = self.house.connect(self.peer)
        if resume:
            params["resume"] = {"id": self.id, "token": self.token}
        try:
            result = rendezvous.ask("register", **{**self.params, **params})
        finally:
            rendezvous.drop()
        self.registered = result
        self.id, self.ref = result["session"]["id"], result["session"]["ref"]
        self.name, self.token, self.socket = result["session"]["name"], result["token"] or self.token, result["socket"]
        return result

    def attach(self, *, push: bool = False) -> Line:
        """A line of its own through its private socket; the last one is `line`."""
        self.line = self.house.connect(self.peer, door=self.id)
        self.line.ask("attach", token=self.token, push=push)
        return self.line

    def come_back(self, *, push: bool = False) -> None:
        """Both steps again with the token."""
        self.register(resume=True)
        self.attach(push=push)

    def shell(self) -> Line:
        """`xsessionctl` in a shell of this session."""
        return self.house.connect(peer(self.pid + 7, self.pid + 6, self.pid, *self.outside))

    def send(self, to: Guest | str | None, text: str = "hello", **params: Any) -> Answer:
        """Sends a message."""
        return self.line.ask("send", **_send_params(to, text, params))

    def begin_send(self, to: Guest | str | None, text: str = "hello", **params: Any) -> int:
        """Sends a message and does not expect the answer yet."""
        return self.line.begin("send", **_send_params(to, text, params))

    def take(self, **params: Any) -> list[Answer]:
        """Leases what waits."""
        messages: list[Answer] = self.line.ask("take", **params)["messages"]
        return messages

    def ack(self, *messages: Answer | str) -> int:
        """Acknowledges."""
        count: int = self.line.ask("ack", ids=[_id_of(message) for message in messages])["acked"]
        return count

    def read(self) -> list[str]:
        """Takes and acknowledges all that waits; its texts."""
        messages = self.take()
        self.ack(*messages)
        self.got += messages
        return [message["text"] for message in messages]

    def check(self, message: Answer | str) -> Answer:
        """What became of a message that it sent."""
        return self.line.ask("check", message_id=_id_of(message))

    def told(self) -> list[str]:
        """The receipts that wait for it."""
        return [receipt["text"] for receipt in self.line.ask("take", max=0)["receipts"]]

    def is_now(self, state: str) -> None:
        """Its harness says so."""
        self.line.ask("update", state=state)

    def watch(self, whom: Guest | str, **params: Any) -> Answer:
        """Asks to be told once when that one is idle, and sends nothing; what it is told of that now."""
        to = whom.id if isinstance(whom, Guest) else whom
        answer: Answer = self.line.ask("send", to=to, notify_when_idle=True, **params)
        return answer

    def notices(self) -> list[Answer]:
        """What it is told, and nobody tells it again."""
        receipts: list[Answer] = self.line.ask("take", max=0)["receipts"]
        self.line.ask("ack", ids=[])
        return receipts

    def change_class(self, perm_class: str | None) -> None:
        """Its harness says that it asks before it acts, or not, or that it cannot tell."""
        self.line.ask("update", **{"class": perm_class})

    @property
    def session(self) -> Session:
        """What the broker knows of it."""
        return self.house.broker.core.roster.known[self.id]


class House:
    """One broker with its surroundings. failing: the store refuses every commit that the predicate is true for.
    slow: questions to the store wait for `answer_questions`; slow_projects: what projects say, for `answer_projects`.
    passphrase: the right one. notified: what the user was told on the desktop."""

    def __init__(self, settings: CoreSettings | None = None) -> None:
        self.settings = settings or CoreSettings()
        self.mono, self.ms = 1000.0, BEGAN_MS
        self.store = MemoryStore()
        self.boot = "boot-1"
        self.failing: Callable[[Iterable[Op]], bool] = lambda ops: False
        self.slow = False
        self.broken_reads: str | None = None
        self.owed: list[Op] = []
        self._count = 0
        self._links = 0
        self._pids = 1000
        self.projects: dict[str, ProjectSettings] = {}
        self.slow_projects = False
        self.passphrase = ""
        self.notified: list[Notify] = []
        self._start()

    def _start(self) -> None:
        self.broker = Broker(IDENTITY, self.settings, self.entropy)
        self.lines: dict[int, Line] = {}
        self.doors: dict[str, str] = {}
        self.watched: Counter[ProcessId] = Counter()
        self.logs: list[WriteLog] = []
        self.prunes: list[Prune] = []
        self.questions: list[LookUp] = []
        self.asked_projects: list[ReadProject] = []
        self.forgotten: list[str] = []
        self.started: list[StartConversation] = []
        self.attempts_ended: list[EndAttempt] = []
        self.closed_for: dict[int, str | None] = {}
        self.stopped: str | None = None
        self.handed_over = False
        self.successor: SuccessorFound | None = SuccessorFound("0.2.0")
        """What the shell finds; None: it is still looking."""
        self._events: deque[Event] = deque()
        self._busy = False
        self.handle(Restored(self.store.load(), self.boot))

    def entropy(self, size: int) -> bytes:
        """Different bytes each time, the same in each run."""
        self._count += 1
        return sha256(b"%d" % self._count).digest()[:size]

    @property
    def now(self) -> Now:
        """Both clocks."""
        return Now(self.mono, self.ms)

    # -- what the shell does ---------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Handles an event, does its effects, and handles what these lead to."""
        self._events.append(event)
        if self._busy:
            return
        self._busy = True
        try:
            while self._events:
                self._do(self.broker.handle(self._events.popleft(), self.now))
        finally:
            self._busy = False

    def _do(self, effects: list[Effect]) -> None:
        ops = tuple(effect.op for effect in effects if isinstance(effect, Persist))
        stored = not ops or not self.failing(ops)
        if ops and stored:
            self.store.commit([*self.owed, *ops])
            self.owed.clear()
        elif ops:
            for effect in self.broker.handle(NotStored(ops, "The disk is full."), self.now):
                if isinstance(effect, Persist):
                    self.owed.append(effect.op)
                else:
                    self._do_one(effect)
        for effect in effects:
            if stored or not isinstance(effect, SendFrame):
                self._do_one(effect)
            elif (request := answered_request(effect.frame)) is not None:  # the shell answers for the broker
                text = "The store did not take it: The disk is full. Nothing was stored."
                refusal = Refusal("internal", text, "See xsessionctl status.")
                frame = encode_error(request, jsonrpc.REFUSED, refusal.text, refusal.to_json())
                self._do_one(SendFrame(effect.link, frame))

    def _do_one(self, effect: Effect) -> None:
        match effect:
            case SendFrame():
                line = self.lines.get(effect.link)
                if line is not None and line.open:
                    line.hear(effect.frame)
            case CloseLink():
                self.closed_for[effect.link] = effect.why
                self._close(effect.link)
            case OpenDoor():
                self.doors[effect.session_id] = effect.path or effect.ref
            case CloseDoor():
                self.doors.pop(effect.session_id, None)
            case WatchProcess():
                self.watched[effect.process] += 1
            case UnwatchProcess():
                assert self.watched[effect.process] > 0, "what is not watched is unwatched"
                self.watched[effect.process] -= 1
            case LookUp():
                self.questions.append(effect)
                if not self.slow:
                    self.answer_questions()
            case ReadProject():
                self.asked_projects.append(effect)
                if not self.slow_projects:
                    self.answer_projects()
            case ForgetProject():
                self.forgotten.append(effect.session_id)
            case ReadSettings():
                self.handle(SettingsRead(self.settings))
            case CheckPassphrase():
                self.handle(PassphraseChecked(effect.ticket, effect.text == self.passphrase))
            case StartConversation():
                self.started.append(effect)
            case EndAttempt():
                self.attempts_ended.append(effect)
            case Notify():
                self.notified.append(effect)
            case Prune():
                self.prunes.append(effect)
                self.store.prune(older_than_ms=effect.older_than_ms)
            case WriteLog():
                self.logs.append(effect)
            case FindSuccessor():
                if self.successor is not None:
                    self.handle(self.successor)
            case Stop():
                self.stopped, self.handed_over = effect.reason, effect.handover
            case Persist():
                pass

    def _close(self, link: int) -> None:
        line = self.lines.get(link)
        if line is not None and line.open:
            line.open = False
            self._events.append(LinkClosed(link))

    def answer_projects(self) -> None:
        """The files of the projects that were asked for are read."""
        asked, self.asked_projects = self.asked_projects, []
        for question in asked:
            self.handle(ProjectRead(question.session_id, self.projects.get(question.cwd, ProjectSettings())))

    def change_project(self, guest: Guest, **settings: Any) -> None:
        """The files of a session's project are written anew."""
        self.projects[guest.session.cwd] = ProjectSettings(**settings)
        self.handle(ProjectRead(guest.id, self.projects[guest.session.cwd]))

    def change_settings(self, **changes: Any) -> None:
        """The user's or the administrator's settings are written anew."""
        self.settings = msgspec.structs.replace(self.settings, **changes)
        self.handle(SettingsRead(self.settings))

    def end_command(self, problem: str | None = None, said: str = "", *, number: int = -1) -> None:
        """A command that was to resume a conversation ends."""
        self.handle(ConversationStarted(self.started[number].ticket, problem, said))

    def pay(self) -> None:
        """The store works again, and has what it was owed."""
        self.store.commit(self.owed)
        self.owed.clear()

    def answer_questions(self, count: int | None = None) -> None:
        """The store answers what it was asked, oldest first."""
        asked, self.questions = self.questions[:count], self.questions[len(self.questions[:count]) :]
        for question in asked:
            found = None if self.broken_reads else answer_question(self.store, question.question)
            self.handle(LookedUp(question.ticket, found, self.broken_reads))

    # -- what happens ----------------------------------------------------------------------------

    def connect(
        self, who: Peer, door: str | None = None, *, hello: bool = True, conversation: str | None = None
    ) -> Line:
        """A connection, with its handshake."""
        self._links += 1
        line = Line(self, self._links, door, who)
        self.lines[line.link] = line
        self.handle(LinkOpened(line.link, door, who, line.protocol))
        if hello:
            line.ask("hello", protocol=1, client="test", conversation=conversation)
        return line

    def join(
        self,
        name: str | None = None,
        *,
        push: bool = False,
        pid: int | None = None,
        inside: Guest | None = None,
        **params: Any,
    ) -> Guest:
        """A session with a harness process of its own (`pid=0`: not known) registers and attaches. inside: below the
        harness of that one."""
        if pid is None:
            self._pids += 1000
            pid = self._pids
        given = {"name": name, "harness": "codex", "cwd": "/src/app", "class": "prompting", **params}
        if pid and "pid" not in params:
            given["pid"] = pid
        guest = Guest(self, pid, given)
        if inside is not None:
            guest.outside = (inside.pid, *inside.outside)
        guest.register()
        guest.attach(push=push)
        return guest

    def approve(self, *messages: Answer | str, **params: Any) -> list[Answer]:
        """A person lets these through."""
        return self.decide("approve", *messages, **params)

    def deny(self, *messages: Answer | str, **params: Any) -> list[Answer]:
        """A person turns these away."""
        return self.decide("deny", *messages, **params)

    def decide(self, verdict: str, *messages: Answer | str, **params: Any) -> list[Answer]:
        """A person decides, and leaves again; what became of each."""
        line = self.human()
        try:
            ids = [_id_of(message) for message in messages]
            decided: list[Answer] = line.ask("decide", verdict=verdict, ids=ids, **params)["decided"]
            return decided
        finally:
            line.drop()

    def queue(self) -> list[Answer]:
        """The hold queue as a person sees it."""
        line = self.human()
        held: list[Answer] = line.ask("hold_queue")["held"]
        line.drop()
        return held

    def human(self) -> Line:
        """A person at a terminal."""
        return self.connect(peer(90, 80, terminal=True))

    def script(self) -> Line:
        """A program outside every session, without a terminal."""
        return self.connect(peer(70, 60))

    def kill(self, guest: Guest) -> None:
        """The harness dies: the kernel tells whoever watches."""
        self.kill_pid(guest.pid)

    def kill_pid(self, pid: int) -> None:
        """A process dies: the kernel tells whoever watches."""
        process = ProcessId(pid, pid * 10)
        if self.watched[process]:
            self.watched[process] = 0
            self.handle(ProcessExited(process))

    def pass_time(self, seconds: float) -> None:
        """Time passes, with everything that is due in it."""
        until = self.mono + seconds
        while (due := self.broker.next_due()) is not None and due <= until:
            self._move(max(due, self.mono))
            self.handle(TimePassed())
        self._move(until)

    def _move(self, mono: float) -> None:
        self.ms += round((mono - self.mono) * 1000)
        self.mono = mono

    def restart(self, *, boot: str | None = None) -> None:
        """The broker dies, without a goodbye, and another takes up its store; `boot`: so did the machine."""
        self.boot = boot or self.boot
        self.owed.clear()
        for line in self.lines.values():
            line.open = False
        self._start()

    # -- looking ---------------------------------------------------------------------------------

    def listed(self) -> list[Answer]:
        """The roster as a bystander sees it."""
        line = self.script()
        sessions: list[Answer] = line.ask("list")["sessions"]
        line.drop()
        return sessions

    def names(self) -> list[str]:
        """Names of the roster."""
        return [session["name"] for session in self.listed()]

    def state(self) -> Answer:
        """All that a refused request must leave as it was, in plain values."""
        core = self.broker.core
        boxes = {**core.roster.known, "human": core.human, "script": core.script}
        return {
            "sessions": {
                session.id: msgspec.to_builtins(session.to_row(self.boot, "box")) | {"last_seen_at": 0}
                for session in core.roster.known.values()
            },
            "links": {session.id: sorted(session.links) for session in core.roster.known.values()},
            "boxes": {
                owner: [(message.id, message.state, message.lease) for message in session.box]
                for owner, session in boxes.items()
            },
            "held": {owner: [*session.box.held] for owner, session in boxes.items()},
            "sizes": {owner: (session.box.size, session.box.held_size) for owner, session in boxes.items()},
            "trusts": sorted(core.trusts),
            "pins": {owner: dict(session.pins) for owner, session in boxes.items()},
            "pair_seqs": {owner: dict(session.pair_seqs) for owner, session in boxes.items()},
            "messages": sorted(core.messages),
            "waits": sorted(core.waits),
            "watches": {target: sorted(askers) for target, askers in core.watches.items()},
            "receipts": {owner: len(list(told)) for owner, told in core.receipts.items()},
            "next_seq": core.next_seq,
            "store": msgspec.to_builtins(self.store.load()),
            "log": msgspec.to_builtins(self.store.read_log(limit=100_000, since_ms=None, thread=None)),
        }


def refused(call: Callable[[], object]) -> Refused:
    """The refusal that the call meets."""
    try:
        call()
    except Refused as refusal:
        return refusal
    raise AssertionError("it was not refused")


def is_sentence(text: str) -> bool:
    """Whether a text for people is one: it ends like one, and holds no leftovers of a program. It may begin with a
    name."""
    leftovers = ("None", "{", "}", "<", "object at", "Traceback", "  ")
    return len(text) > 10 and text.strip() == text and text[-1] in ".!?" and not any(bit in text for bit in leftovers)


def _send_params(to: Guest | str | None, text: str, params: Answer) -> Answer:
    address = to.id if isinstance(to, Guest) else to
    return {"message": text, **({} if address is None else {"to": address}), **params}


def _id_of(message: Answer | str) -> str:
    return message if isinstance(message, str) else str(message["id"])

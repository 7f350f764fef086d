"""An engine with real peers over socket pairs, a store that fails or waits when told, and a broker that does as told.

What the engine owes to any broker (order, no answer before its commit) shows best with one whose effects a test writes
down. Where the real broker matters, the tests run the real `Service` (tests/support/service_rig.py).
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio
import trio.testing

from xsessiond.core.effects import Effect, Event, LinkClosed, LinkOpened, Persist, ProcessId, SendFrame
from xsessiond.core.effects import Peer as PeerFacts
from xsessiond.core.records import DropPins
from xsessiond.core.times import Now
from xsessiond.io.engine import Engine
from xsessiond.io.peer import Peer
from xsessiond.io.readiness import FdSet
from xsessiond.store.memory import MemoryStore

Script = Callable[[Event], list[Effect]]


class ScriptedBroker:
    """Answers each event with what the test's script says, and writes the events down."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.events: list[Event] = []
        self.due: float | None = None

    def handle(self, event: Event, now: Now) -> list[Effect]:
        """See `Broker.handle`."""
        self.events.append(event)
        return self.script(event)

    def next_due(self) -> float | None:
        """See `Broker.next_due`."""
        return self.due


class Surroundings:
    """Writes down what the engine wanted of the rest of the shell."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str, dict[str, object]]] = []
        self.doors: list[str] = []
        self.stopped = trio.Event()
        self.alive = True
        self.texts_dir = "/nowhere"
        self.engine: Engine | None = None
        self.on_close: Callable[[], None] = lambda: None

    def open_door(self, session_id: str, ref: str, granted: str | None) -> None:
        """See `Surroundings` of the engine, as for all here."""
        self.doors.append(f"open {ref}")

    def close_door(self, session_id: str) -> None:
        self.doors.append(f"close {session_id}")
        self.on_close()

    def watch(self, process: ProcessId) -> bool:
        return self.alive

    def unwatch(self, process: ProcessId) -> None:
        self.doors.append(f"unwatch {process.pid}")

    def write_log(self, level: str, what: str, facts: dict[str, object]) -> None:
        self.log.append((level, what, facts))

    def find_successor(self) -> None:
        self.doors.append("find successor")

    def stop(self, reason: str, *, handover: bool) -> None:
        self.stopped.set()


class Rig:
    """A running engine. `connect` gives the client's end of a new link; links count from 1."""

    def __init__(self, engine: Engine, fds: FdSet, nursery: trio.Nursery, around: Surroundings) -> None:
        self.engine, self.around = engine, around
        self._fds, self._nursery = fds, nursery
        self._links = 0
        self._clients: list[trio.SocketStream] = []

    def connect(self, *, buffer: int | None = None) -> trio.SocketStream:
        """Open a link. buffer: bytes that the kernel may keep on its way to the client."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        if buffer is not None:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        self._links += 1

        def gone(peer: Peer) -> None:
            peer.protocol.step("close")
            del self.engine.peers[peer.link]
            self.engine.submit(LinkClosed(peer.link))

        peer = Peer(ours, self._links, self._fds, self._nursery, self.engine.receive, gone)
        self.engine.peers[peer.link] = peer
        self.engine.submit(LinkOpened(peer.link, None, PeerFacts(None, (), False, "me"), peer.protocol))
        peer.start()
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
        self._clients.append(stream)
        return stream

    def close(self) -> None:
        """Close both ends of every link."""
        for peer in list(self.engine.peers.values()):
            peer.cut()
        for client in self._clients:
            client.socket.close()

    def slow_disk(self) -> None:
        """Make the engine take its disk for a slow one, so that it commits in a thread."""
        self.engine._commit_s = 1.0


@asynccontextmanager
async def running_engine(broker: object, store: MemoryStore) -> AsyncIterator[Rig]:
    """Run an engine for this broker and this store."""
    around = Surroundings()
    engine = Engine(broker, store, around)  # type: ignore[arg-type]  # a broker by its two methods
    around.engine = engine
    fds = FdSet(engine.settle)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(engine.run)
            await nursery.start(fds.run)
            rig = Rig(engine, fds, nursery, around)
            try:
                yield rig
            finally:
                rig.close()
                nursery.cancel_scope.cancel()
    finally:
        fds.close()


async def lines(stream: trio.SocketStream, count: int) -> list[bytes]:
    """Return the next lines, without their newlines."""
    data = b""
    with trio.fail_after(20):
        while data.count(b"\n") < count:
            more = await stream.receive_some(65536)
            assert more, f"the link ended after {data!r}"
            data += more
    assert data.endswith(b"\n")
    return data.splitlines()


async def is_silent(stream: trio.SocketStream) -> bool:
    """Tell whether nothing has come, after all that is ready to run has run."""
    await trio.testing.wait_all_tasks_blocked()
    try:
        stream.socket._sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)  # type: ignore[attr-defined]
    except BlockingIOError:
        return True
    return False


def store_something(name: str = "x") -> Persist:
    """Return an effect that makes the next frames wait."""
    return Persist(DropPins(name))


def say(link: int, text: str, *, urgent: bool = False) -> SendFrame:
    """Return a frame."""
    return SendFrame(link, text.encode() + b"\n", urgent)


async def wait_for(condition: Callable[[], object]) -> None:
    """Return once `condition()` holds: what a thread or another process does gives the test no event."""
    with trio.fail_after(20):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.001)

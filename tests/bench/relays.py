"""Anchors of our own: relays without any of the product in them. usage: python -m tests.bench.relays VARIANT SOCKET

stream       frames (u32 length, u32 destination, payload) forwarded unread over trio.SocketStream, a lock and
             send_all for each destination: the plain way to write it, and the unit of most ratios.
lean         JSON lines, decoded, stamped and encoded again by msgspec; a bare socket that tries the send first.
lean-normal  lean, each message committed to SQLite (WAL, synchronous=NORMAL) before it is delivered, then acknowledged
             to its sender; one committer takes all that gathered.
lean-full    the same with synchronous=FULL, the commit in a worker thread.
"""

import resource
import socket
import sqlite3
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import msgspec
import trio

READ = 1 << 16
BACKLOG = 4096
HEAD = struct.Struct("<II")
JOIN = 0xFFFFFFFF
JOINED = HEAD.pack(0, JOIN)

Handler = Callable[[trio.socket.SocketType], Awaitable[None]]


def cut_frames(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    """Takes whole frames off the front of `buffer`; gives each one's destination and all of its bytes."""
    at = 0
    while len(buffer) - at >= HEAD.size:
        size, to = HEAD.unpack_from(buffer, at)
        end = at + HEAD.size + size
        if end > len(buffer):
            break
        yield to, bytes(buffer[at:end])
        at = end
    del buffer[:at]


def cut_lines(buffer: bytearray) -> list[bytes]:
    """Takes whole lines off the front of `buffer`."""
    end = buffer.rfind(b"\n")
    if end < 0:
        return []
    whole = bytes(buffer[:end])
    del buffer[: end + 1]
    return whole.split(b"\n")


async def serve(path: str, handler: Handler) -> None:
    """Accepts on `path` for ever."""
    listener = trio.socket.socket(socket.AF_UNIX)
    await listener.bind(path)
    listener.listen(BACKLOG)
    async with trio.open_nursery() as nursery:
        while True:
            nursery.start_soon(handler, (await listener.accept())[0])


class Locked:
    """A SocketStream that many readers send to, one at a time."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._lock, self._stream = trio.Lock(), stream

    async def send(self, data: bytes) -> None:
        async with self._lock:
            await self._stream.send_all(data)


async def relay_stream(path: str) -> None:
    """The variant `stream`."""
    route: dict[int, Locked] = {}

    async def handler(sock: trio.socket.SocketType) -> None:
        stream = trio.SocketStream(sock)
        me, buffer = Locked(stream), bytearray()
        while data := await stream.receive_some(READ):
            buffer += data
            for to, frame in cut_frames(buffer):
                if to == JOIN:
                    route[int.from_bytes(frame[HEAD.size :], "little")] = me
                    await me.send(JOINED)
                elif to in route:
                    await route[to].send(frame)

    await serve(path, handler)


class Direct:
    """A non-blocking socket: sends at once when the kernel takes it, and waits behind a lock only when it is full."""

    def __init__(self, sock: trio.socket.SocketType) -> None:
        self._sock = socket.socket(fileno=sock.detach())
        self._sock.setblocking(False)
        self._lock = trio.Lock()

    async def receive(self) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._sock)
            try:
                return self._sock.recv(READ)
            except BlockingIOError:
                continue

    def _try_send(self, data: bytes) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0

    async def send(self, data: bytes) -> None:
        if not self._lock.locked():
            data = data[self._try_send(data) :]
            if not data:
                return
        async with self._lock:
            while data:
                await trio.lowlevel.wait_writable(self._sock)
                data = data[self._try_send(data) :]


class In(msgspec.Struct):
    """What a client of a lean relay says."""

    op: str
    id: str = ""
    to: str = ""
    body: str = ""


class Out(msgspec.Struct, rename={"from_": "from"}):
    """What it gets."""

    op: str
    id: str
    from_: str
    seq: int
    ts: int
    body: str


class Table:
    """One table and one index, in WAL mode."""

    def __init__(self, path: str, synchronous: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.executescript(
            f"PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous};"
            "CREATE TABLE message(seq INTEGER PRIMARY KEY, id TEXT, sender TEXT, recipient TEXT, ts INTEGER,"
            " state INTEGER, body BLOB); CREATE INDEX waiting ON message(recipient, state);"
        )

    def put(self, rows: list[tuple[int, str, str, str, int, bytes]]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("INSERT INTO message VALUES(?,?,?,?,?,0,?)", rows)
        self._db.execute("COMMIT")


Work = tuple[In, str, int, bytes, Direct]


async def relay_lean(path: str, synchronous: str | None = None) -> None:
    """The variants `lean`, and with `synchronous` the durable ones."""
    decode, encode = msgspec.json.Decoder(In).decode, msgspec.json.Encoder().encode
    route: dict[str, Direct] = {}
    seq = 1_000_000_000
    gathered: list[Work] = []
    wake = trio.Event()
    table = Table(path + ".db", synchronous) if synchronous else None

    async def commit(table: Table) -> None:
        nonlocal gathered, wake
        while True:
            await wake.wait()
            work, gathered, wake = gathered, [], trio.Event()
            rows = [(n, m.id, sender, m.to, time.time_ns(), out) for m, sender, n, out, _ in work]
            if synchronous == "FULL":
                await trio.to_thread.run_sync(table.put, rows)
            else:
                table.put(rows)
            for m, _, n, out, sender in work:
                await route[m.to].send(out)
                await sender.send(b'{"op":"ack","id":"%s","seq":%d}\n' % (m.id.encode(), n))

    async def handler(sock: trio.socket.SocketType) -> None:
        nonlocal seq
        me, name, buffer = Direct(sock), "?", bytearray()
        while data := await me.receive():
            buffer += data
            for line in cut_lines(buffer):
                message = decode(line)
                if message.op == "hello":
                    name = message.id
                    route[name] = me
                    await me.send(b'{"op":"ok"}\n')
                elif message.to in route:
                    seq += 1
                    out = encode(Out("msg", message.id, name, seq, time.time_ns(), message.body)) + b"\n"
                    if table is None:
                        await route[message.to].send(out)
                    else:
                        gathered.append((message, name, seq, out, me))
                        wake.set()

    async with trio.open_nursery() as nursery:
        if table is not None:
            nursery.start_soon(commit, table)
        nursery.start_soon(serve, path, handler)


VARIANTS: dict[str, Callable[[str], Awaitable[None]]] = {
    "stream": relay_stream,
    "lean": relay_lean,
    "lean-normal": partial(relay_lean, synchronous="NORMAL"),
    "lean-full": partial(relay_lean, synchronous="FULL"),
}

if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    trio.run(VARIANTS[sys.argv[1]], sys.argv[2])

"""The broker in a place of its own, and sessions connected to it as docs/protocol.md says.

Pacing and the length of a queue are set far out of the way, since the bench is about what a message costs and not about
how many one may send; the limits themselves stay switched on and are paid for.
"""

import contextlib
import dataclasses
import json
import pathlib
import socket
import sys
from collections.abc import Iterator
from typing import Any, Literal

from tests.bench import machine
from tests.bench.load import End, Flow
from tests.bench.machine import Bench, BenchError
from tests.bench.peers import BODY, Peer, Running
from tests.support.private_broker import PrivateBroker, accepts, private_broker

Durability = Literal["full", "normal", "none"]

CONFIG = """[store]
durability = "{durability}"
[pacing]
target_burst = 1000000
target_per_second = 1000000
sender_burst = 1000000
sender_per_second = 1000000
exchange_per_minute = 1000000
max_hops = 1000000
duplicate_window = 0
queue_per_session = 10000
"""

ID = "bench"
ANSWER = b'"id":"bench"'
PUSH = b'"method":"message"'
STAMP = "00000000"


def line(method: str, params: dict[str, object], request: int | str | None = 1) -> bytes:
    """One JSON-RPC request on a line; a notification when `request` is None."""
    head: dict[str, object] = {"jsonrpc": "2.0"} if request is None else {"jsonrpc": "2.0", "id": request}
    return json.dumps({**head, "method": method, "params": params}, separators=(",", ":")).encode() + b"\n"


class Link:
    """A blocking connection that asks one thing at a time."""

    def __init__(self, path: str | pathlib.Path) -> None:
        self.sock = machine.connect(pathlib.Path(path))
        self.sock.settimeout(30)
        self._got = b""
        self.ask("hello", {"protocol": 1, "client": "bench/1"})

    def ask(self, method: str, params: dict[str, object]) -> dict[str, Any]:
        """The result of a request; raises BenchError on a refusal. Notifications that come before it are dropped."""
        self.sock.sendall(line(method, params))
        while True:
            while b"\n" not in self._got:
                data = self.sock.recv(1 << 16)
                if not data:
                    raise BenchError(f"the broker closed the connection at {method}")
                self._got += data
            raw, _, self._got = self._got.partition(b"\n")
            frame = json.loads(raw)
            if frame.get("id") == 1 and "method" not in frame:
                if "error" in frame:
                    raise BenchError(f"{method}: {frame['error']['message']}")
                result: dict[str, Any] = frame["result"]
                return result

    def handed_over(self) -> socket.socket:
        """The bare socket, with nothing read ahead and no timeout."""
        if self._got:
            raise BenchError("the broker sent more than was asked for")
        self.sock.settimeout(None)
        return self.sock


@dataclasses.dataclass(slots=True)
class Session:
    """A registered and attached session."""

    id: str
    ref: str
    name: str
    link: Link


def join(rendezvous: pathlib.Path, name: str, *, push: bool, cwd: str = "/") -> Session:
    """Registers a session and attaches to its private socket."""
    door = Link(rendezvous)
    wanted: dict[str, object] = {
        "name": name,
        "harness": "bench",
        "cwd": cwd,
        "pid": None,
        "class": "prompting",
        "delivery": "push" if push else "pull",
        "can_reply": True,
        "modes": ["auto"],
        "resume": None,
    }
    got = door.ask("register", wanted)
    door.sock.close()
    link = Link(got["socket"])
    attached = link.ask("attach", {"token": got["token"], "push": push})["session"]
    return Session(attached["id"], attached["ref"], attached["name"], link)


class Broker(Peer):
    """xsessiond itself. `none` keeps messages in memory: what is left is the broker without its log."""

    def __init__(self, durability: Durability, ack_every: int = 1) -> None:
        self.durability: Durability = durability
        self.ack_every = ack_every
        self.name = f"xsessiond {durability}"

    @contextlib.contextmanager
    def start(self, bench: Bench) -> Iterator["OurRunning"]:
        with private_broker() as place:
            disk = "full" if self.durability == "none" else self.durability
            (place.config_dir / "config.toml").write_text(CONFIG.format(durability=disk))
            module = "tests.bench.without_log" if self.durability == "none" else "xsessiond"
            env = {**place.environ(), "PYTHONPATH": str(pathlib.Path(__file__).parents[2])}
            argv = [sys.executable, "-m", module]
            ready = lambda: accepts(place.rendezvous)  # noqa: E731
            with machine.server(argv, ready, bench.work / "xsessiond.log", env) as pid:
                yield OurRunning(bench, pid, place.rendezvous, place, self.ack_every)


@dataclasses.dataclass(slots=True)
class OurRunning(Running):
    """A running broker."""

    place: PrivateBroker
    ack_every: int

    def join(self, number: int) -> socket.socket:
        return join(self.path, f"s{number:05}", push=True).link.handed_over()

    def open_flow(self, number: int) -> Flow:
        a, b = (join(self.path, f"s{n:05}", push=True) for n in (2 * number, 2 * number + 1))
        return Flow(self.end(a, b), self.end(b, a))

    def end(self, me: Session, to: Session) -> End:
        """What `me` writes and counts when it sends to `to`: by id, each body different, each push acknowledged."""
        body = STAMP + machine.text(BODY - len(STAMP))
        blob = line("send", {"to": to.id, "message": body}, ID)
        head, _, tail = line("ack", {"upto": 0}, None).rpartition(b"0")
        return End(
            me.link.handed_over(),
            blob=blob,
            push_mark=PUSH,
            answer_mark=ANSWER,
            ack_every=self.ack_every,
            ack_head=head,
            ack_tail=tail,
            stamp_at=blob.index(STAMP.encode()),
        )

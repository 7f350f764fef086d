"""Servers to stand beside the broker: our own relays and, where it is installed, mosquitto.

Each peer is started fresh for a round and then opens flows: pairs of connected ends for load.py.
"""

import abc
import contextlib
import dataclasses
import getpass
import json
import pathlib
import shutil
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Literal

from tests.bench import machine
from tests.bench.load import End, Flow
from tests.bench.machine import Bench, BenchError, connect
from tests.bench.relays import HEAD, JOIN

BODY = 300
"""Bytes of a message's text, in every case."""


class Peer(abc.ABC):
    """A kind of server: how to start one."""

    name: str

    @abc.abstractmethod
    def start(self, bench: Bench) -> contextlib.AbstractContextManager["Running"]:
        """Runs one until the block ends. Raises BenchError when it does not start."""


@dataclasses.dataclass(slots=True)
class Running(abc.ABC):
    """A started server."""

    bench: Bench
    pid: int
    path: pathlib.Path

    @abc.abstractmethod
    def join(self, number: int) -> socket.socket:
        """Connects client `number` and introduces it."""

    @abc.abstractmethod
    def open_flow(self, number: int) -> Flow:
        """Connects clients 2·number and 2·number + 1 as A and B."""


class Relay(Peer):
    """One of relays.py."""

    def __init__(self, variant: str) -> None:
        self.variant = variant
        self.name = {"stream": "trio-stream relay", "lean": "lean relay"}.get(variant, f"{variant} relay")

    @contextlib.contextmanager
    def start(self, bench: Bench) -> Iterator[Running]:
        path = bench.fresh("relay")
        argv = [sys.executable, "-m", "tests.bench.relays", self.variant, str(path)]
        with machine.server(argv, machine.listening(path), bench.work / "relay.log") as pid:
            kind = RawRelay if self.variant == "stream" else LineRelay
            yield kind(bench, pid, path)


class RawRelay(Running):
    """Length-prefixed frames."""

    def join(self, number: int) -> socket.socket:
        sock = connect(self.path)
        sock.sendall(HEAD.pack(4, JOIN) + struct.pack("<I", number))
        sock.recv(64)
        return sock

    def open_flow(self, number: int) -> Flow:
        payload = machine.text(BODY).encode()
        ends = [
            End(self.join(me), blob=HEAD.pack(BODY, to) + payload, push_size=HEAD.size + BODY)
            for me, to in ((2 * number, 2 * number + 1), (2 * number + 1, 2 * number))
        ]
        return Flow(*ends)


class LineRelay(Running):
    """JSON lines; the durable ones answer the sender."""

    def join(self, number: int) -> socket.socket:
        sock = connect(self.path)
        sock.sendall(_line({"op": "hello", "id": f"s{number:05}"}))
        sock.recv(64)
        return sock

    def open_flow(self, number: int) -> Flow:
        answer = b'"op":"ack"' if pathlib.Path(f"{self.path}.db").exists() else b""
        message = {"op": "send", "id": "01JD8ZK3V4M5N6P7Q8R9S0TVWX", "body": machine.text(BODY)}
        ends = [
            End(
                self.join(me),
                blob=_line({**message, "to": f"s{to:05}"}),
                push_mark=b'"op":"msg"',
                answer_mark=answer,
            )
            for me, to in ((2 * number, 2 * number + 1), (2 * number + 1, 2 * number))
        ]
        return Flow(*ends)


class Mosquitto(Peer):
    """An MQTT broker that many run, with nothing on disk: the sender publishes with QoS 1 and waits for its answer.

    The subscriber's QoS is 1, so that receivers acknowledge as ours do, or 0.
    """

    def __init__(self, subscriber_qos: Literal[0, 1]) -> None:
        self.subscriber_qos = subscriber_qos
        self.name = "mosquitto QoS 1" if subscriber_qos else "mosquitto QoS 1, subscribers 0"

    @staticmethod
    def program() -> str:
        """Its path; raises BenchError when it is not installed."""
        found = shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")
        if found is None:
            raise BenchError("mosquitto is not installed")
        return found

    @contextlib.contextmanager
    def start(self, bench: Bench) -> Iterator[Running]:
        program = self.program()
        path = bench.fresh("mq")
        conf = pathlib.Path(f"{path}.conf")
        conf.write_text(
            f"listener 0 {path}\nallow_anonymous true\nuser {getpass.getuser()}\n"
            "max_queued_messages 0\nmax_inflight_messages 0\nlog_type error\n"
        )
        with machine.server([program, "-c", conf], machine.listening(path), bench.work / "mq.log") as pid:
            yield MqttRunning(bench, pid, path, self.subscriber_qos)


@dataclasses.dataclass(slots=True)
class MqttRunning(Running):
    """MQTT 3.1.1, packets made by hand."""

    qos: int

    def join(self, number: int) -> socket.socket:
        sock = connect(self.path)
        sock.sendall(_packet(0x10, _string("MQTT") + bytes([4, 2, 0, 0]) + _string(f"c{number}")))
        sock.sendall(_packet(0x82, b"\0\1" + _string(_topic(number)) + bytes([self.qos])))
        expected, got = 4 + 5, 0  # CONNACK and SUBACK
        while got < expected:
            data = sock.recv(expected - got)
            if not data:
                raise BenchError("mosquitto refused a client")
            got += len(data)
        return sock

    def open_flow(self, number: int) -> Flow:
        me, to = 2 * number, 2 * number + 1
        payload = machine.text(BODY).encode()
        sent = _packet(0x32, _string(_topic(to)) + b"\0\1" + payload)
        pushed = len(sent) if self.qos else len(_packet(0x30, _string(_topic(to)) + payload))
        taker = End(self.join(to), push_size=pushed, ack_every=self.qos, ack_head=b"\x40\2")
        return Flow(End(self.join(me), blob=sent, answer_size=4), taker)


def _line(value: dict[str, str]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _topic(number: int) -> str:
    return f"s/{number:05}"


def _string(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _packet(kind: int, body: bytes) -> bytes:
    head, left = bytearray([kind]), len(body)
    while True:
        left, digit = divmod(left, 128)
        head.append(digit | (128 if left else 0))
        if not left:
            return bytes(head) + body

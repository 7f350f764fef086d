"""Driver of load.c, the one client that stands before every server.

A flow has two ends, A and B; A sends to B. The ends are connected and shaken hands with here and
then handed over as open descriptors with the bytes to write.
"""

import array
import dataclasses
import enum
import socket
import struct
import subprocess
from collections.abc import Sequence

from tests.bench.machine import Bench, BenchError

TIMEOUT_S = 100


class Mode(enum.IntEnum):
    """What is measured."""

    ECHO_BACK = 0  # A sends, B answers with a message of its own: the round trip, seen at A
    ANSWERED = 1  # A sends and waits for the server's answer; B only takes what comes
    PUSHED = 2  # A sends; the time until B has it
    PIPELINE = 3  # every A keeps `window` messages on the way


@dataclasses.dataclass(slots=True)
class End:
    """One connection: what it sends, and how what comes back on it is counted (see load.c)."""

    sock: socket.socket
    blob: bytes = b""
    push_size: int = 0
    answer_size: int = 0
    push_mark: bytes = b""
    answer_mark: bytes = b""
    ack_every: int = 0
    ack_head: bytes = b""
    ack_tail: bytes = b""
    stamp_at: int = 0
    # running totals over the runs on this connection
    pushed: int = 0
    sent: int = 0

    def packed(self) -> bytes:
        """The end as load.c reads it."""
        numbers = (self.sock.fileno(), self.push_size, self.answer_size, self.ack_every, self.pushed)
        head = struct.pack("<7I", *numbers, self.stamp_at, self.sent)
        texts = (self.blob, self.push_mark, self.answer_mark, self.ack_head, self.ack_tail)
        return head + b"".join(struct.pack("<I", len(t)) + t for t in texts)


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """A sends to B; in ECHO_BACK B also sends to A."""

    a: End
    b: End


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What a run took: all of it in seconds, and each message's latency in microseconds where it was timed."""

    seconds: float
    messages: int
    latencies_us: list[float]

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


def run(bench: Bench, mode: Mode, flows: Sequence[Flow], messages: int, window: int = 1) -> Result:
    """Sends `messages` on each flow. Raises BenchError when a server refuses, stalls or hangs up."""
    spec = [struct.pack("<4I", mode, len(flows), messages, window)]
    spec += [end.packed() for flow in flows for end in (flow.a, flow.b)]
    descriptors = tuple({end.sock.fileno() for flow in flows for end in (flow.a, flow.b)})
    done = subprocess.run(
        [bench.compiled("load")], input=b"".join(spec), capture_output=True, pass_fds=descriptors, timeout=TIMEOUT_S
    )
    if done.returncode:
        raise BenchError(f"load generator: {done.stderr.decode(errors='replace').strip() or done.returncode}")
    for flow in flows:
        flow.a.sent += messages
        flow.b.pushed += messages
        if mode == Mode.ECHO_BACK:
            flow.b.sent += messages
            flow.a.pushed += messages
    nanoseconds, count = struct.unpack_from("<QQ", done.stdout)
    raw = array.array("I")
    raw.frombytes(done.stdout[16:])
    return Result(nanoseconds / 1e9, count, [ns / 1000 for ns in raw])

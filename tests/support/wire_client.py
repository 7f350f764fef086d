"""A thin blocking client of docs/protocol.md: one socket, one frame a line, everything within a deadline.

It knows the protocol and nothing of the product's own clients, so that a test that passes with it shows that the
document is enough. `Wire` is a connection; `Member` is a session: its private link, and how it comes back.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

WITHIN_S = 20.0
"""How long anything may take: far more than it does, on a machine that stalls."""

Json = dict[str, Any]
Found = TypeVar("Found")


class LinkLost(Exception):
    """The connection ended. What had been asked may or may not have been done."""


class Refused(Exception):
    """An answer that is an error. error: the whole object of JSON-RPC; data: its `data`; code: `data.code`."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"])
        self.error: Json = error
        self.data: Json = error.get("data") or {}
        self.code: str | None = self.data.get("code")


class Wire:
    """One connection to the Unix socket at `path`. Raises LinkLost when nobody listens there."""

    def __init__(self, path: str | Path, *, within_s: float = WITHIN_S) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(within_s)
        self._within_s = within_s
        self._buffer = b""
        self._last_id = 0
        self.notes: deque[Json] = deque()
        try:
            try:
                self._socket.connect(str(path))
            except BlockingIOError:
                self._stand_in_line(str(path))
        except OSError as problem:
            self._socket.close()
            raise LinkLost(str(problem)) from None

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _stand_in_line(self, path: str) -> None:
        # Linux keeps a line of those who wait for room, in which a socket with a timeout of Python's does not stand.
        self._socket.settimeout(None)
        timeout = struct.pack("ll", int(self._within_s), int(self._within_s % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        self._socket.connect(path)
        self._socket.settimeout(self._within_s)

    def has_more(self, within_s: float = 0.0) -> bool:
        """Tell whether something is there to be read: a note, a line, bytes, or the end."""
        return bool(self.notes or b"\n" in self._buffer or select.select([self._socket], [], [], within_s)[0])

    def fileno(self) -> int:
        """Return the descriptor, for `select`."""
        return self._socket.fileno()

    # -- bytes -------------------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes as they are. Raises LinkLost."""
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise
        except OSError as problem:
            raise LinkLost(str(problem)) from None

    def write_what_fits(self, data: bytes) -> int:
        """Send as much as can be sent without waiting, and return how much that was."""
        sent = 0
        self._socket.setblocking(False)
        try:
            while sent < len(data):
                sent += self._socket.send(data[sent : sent + (1 << 16)])
        except BlockingIOError:
            pass
        finally:
            self._socket.settimeout(self._within_s)
        return sent

    def end_writing(self) -> None:
        """Say that nothing more comes, and go on reading."""
        self._socket.shutdown(socket.SHUT_WR)

    def read_line(self) -> bytes:
        """Return the next line without its newline. Raises LinkLost at the end, TimeoutError when none comes."""
        while b"\n" not in self._buffer:
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                raise TimeoutError(f"nothing came within {self._within_s} s") from None
            except OSError as problem:
                raise LinkLost(str(problem)) from None
            if not data:
                raise LinkLost("the broker closed the connection")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def read_to_end(self) -> bytes:
        """Return all that comes until the broker closes the connection."""
        parts = [self._buffer]
        self._buffer = b""
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                break
            if not data:
                break
            parts.append(data)
        return b"".join(parts)

    # -- frames ------------------------------------------------------------------------------------------------------

    def put(self, frame: Json) -> None:
        """Send one frame."""
        self.write(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")

    def read(self) -> Json:
        """Return the next frame; a `ping` of the broker's is answered on the way."""
        while True:
            frame: Json = json.loads(self.read_line())
            if frame.get("method") != "ping":
                return frame
            self.put({"id": frame["id"], "result": {}})

    def ask(self, method: str, params: Json | None = None, **more: Any) -> int:
        """Send a request and return its id; the answer is read later, with `answer`."""
        self._last_id += 1
        self.put({"id": self._last_id, "method": method, "params": {**(params or {}), **more}})
        return self._last_id

    def answer(self, request_id: int | str | None) -> Json:
        """Return the result of that request; notifications that come before it wait in `notes`. Raises Refused."""
        while True:
            frame = self.read()
            if "method" in frame:
                self.notes.append(frame)
                continue
            assert frame["id"] == request_id, f"an answer to {frame['id']!r} where that to {request_id!r} was due"
            if "error" in frame:
                raise Refused(frame["error"])
            result: Json = frame["result"]
            return result

    def call(self, method: str, params: Json | None = None, **more: Any) -> Json:
        """Ask and return the result. Raises Refused, LinkLost, TimeoutError."""
        return self.answer(self.ask(method, params, **more))

    def notify(self, method: str, params: Json | None = None, **more: Any) -> None:
        """Send a notification."""
        self.put({"method": method, "params": {**(params or {}), **more}})

    def note(self, method: str) -> Json:
        """Return the params of the next notification of that method, which may have come already."""
        for number, frame in enumerate(self.notes):
            if frame["method"] == method:
                del self.notes[number]
                return dict(frame["params"])
        while True:
            frame = self.read()
            assert "method" in frame, f"an answer where {method} was due: {frame}"
            if frame["method"] == method:
                return dict(frame["params"])
            self.notes.append(frame)


def greet(path: str | Path, *, within_s: float = WITHIN_S) -> Wire:
    """Return a connection that has said hello."""
    wire = Wire(path, within_s=within_s)
    try:
        wire.call("hello", protocol=1, client="test/1")
    except BaseException:
        wire.close()
        raise
    return wire


def ask_once(path: str | Path, method: str, params: Json | None = None, **more: Any) -> Json:
    """Return the result of one request at the rendezvous, over a connection of its own."""
    with greet(path) as wire:
        return wire.call(method, params, **more)


def read_status(path: str | Path) -> Json:
    """Return the answer to `status`, which needs no hello."""
    with Wire(path) as wire:
        return wire.call("status")


def poll(question: Callable[[], Found], until: Callable[[Found], object], *, within_s: float = WITHIN_S) -> Found:
    """Ask until the answer is as wanted, and return it: what another process does gives us no event to wait for."""
    deadline = time.monotonic() + within_s
    while not until(found := question()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still after {within_s} s: {found!r}")
        time.sleep(0.01)
    return found


def await_status(path: str | Path, *, within_s: float = WITHIN_S, **wanted: int) -> Json:
    """Return `status` once its numbers are as wanted: sessions, queued."""
    return poll(
        lambda: read_status(path),
        lambda status: all(status[name] == count for name, count in wanted.items()),
        within_s=within_s,
    )


class Member:
    """A session, introduced and attached. push: mail comes by itself; about: the params of `register`."""

    def __init__(self, rendezvous: str | Path, name: str | None = None, *, push: bool = False, **about: Any) -> None:
        self.rendezvous, self.push = rendezvous, push
        self.about: Json = {"name": name, "harness": "test", "cwd": "/src", "class": "prompting", **about}
        self.session: Json = {}
        self.token, self.socket = "", ""
        self.notice: str | None = None
        self.wire = self._join()

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the link; the session stays for the grace time."""
        self.wire.close()

    def rejoin(self) -> None:
        """Do both steps again, as the same session. Raises LinkLost when the broker is not there."""
        self.wire.close()
        self.wire = self._join()

    def _join(self) -> Wire:
        resume = {"id": self.session["id"], "token": self.token} if self.token else None
        result = ask_once(self.rendezvous, "register", self.about, resume=resume)
        self.session, self.socket, self.notice = result["session"], result["socket"], result["notice"]
        self.token = result["token"] or self.token
        return self._attach()

    def _attach(self) -> Wire:
        wire = greet(self.socket)
        try:
            wire.call("attach", token=self.token, push=self.push)
        except BaseException:
            wire.close()
            raise
        return wire

    @property
    def id(self) -> str:
        """Its id."""
        return str(self.session["id"])

    @property
    def name(self) -> str:
        """Its name as it was told last."""
        return str(self.session["name"])

    def call(self, method: str, params: Json | None = None, **more: Any) -> Json:
        """Ask over the private link."""
        return self.wire.call(method, params, **more)

    def send(self, to: str, message: str, **more: Any) -> Json:
        """Send a message."""
        return self.wire.call("send", to=to, message=message, **more)

    def take(self, **more: Any) -> list[Json]:
        """Lease what waits."""
        messages: list[Json] = self.wire.call("take", **more)["messages"]
        return messages

    def ack(self, *ids: str) -> int:
        """Acknowledge; returns how many that made delivered."""
        return int(self.wire.call("ack", ids=list(ids))["acked"])

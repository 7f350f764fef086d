"""One connection to the broker, without waiting: frames out, answers and notifications in.

Laws: a request is answered, timed out or lost, exactly once, and its asker is told which. What the other end is, is
checked before a byte is sent. Refuses to know: what is asked, and what to do when the connection is gone.
"""

from __future__ import annotations

import os
from _socket import AF_UNIX, SOCK_STREAM
from _socket import socket as Socket  # noqa: N812 - it is a class

from xsessionctl.shim import frames
from xsessionctl.shim.loop import send_some
from xsessionctl.sockets import peer_uid
from xsessiond.core import jsonrpc
from xsessiond.core.limits import MAX_FRAME, MAX_SKIP, READ_SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Done = Callable[[dict[str, object] | None, dict[str, object] | None], None]
    """Called with (result, None), with (None, the `error` object), or with (None, None) when the answer will
    never come."""


class Foreign(Exception):
    """What listens there belongs to another user."""


def connect(path: str) -> Socket:
    """A connected socket that never waits; a Unix socket connects at once or not at all. Raises OSError, Foreign."""
    link = Socket(AF_UNIX, SOCK_STREAM)
    link.setblocking(False)
    try:
        link.connect(path)
        owner = peer_uid(link)
        if owner not in (None, 0, os.geteuid()):
            raise Foreign(f"{path} is served by uid {owner}, not by you.")
    except BaseException:
        link.close()
        raise
    return link


class Peer:
    """One connected socket.

    on_frame: called with (method, params, id or None) of what the broker sends by itself.
    """

    __slots__ = ("_last_id", "_on_frame", "_outgoing", "_pending", "_socket", "_splitter", "closed")

    def __init__(self, path: str, on_frame: Callable[[str, dict[str, object], object], None]) -> None:
        """Connects. Raises OSError, Foreign."""
        self._socket = connect(path)
        self._on_frame = on_frame
        self._splitter = jsonrpc.LineSplitter(MAX_FRAME, MAX_SKIP)
        self._outgoing = b""
        self._pending: dict[int, tuple[Done, float]] = {}
        self._last_id = 0
        self.closed = False

    def fileno(self) -> int:
        """To poll."""
        return self._socket.fileno()

    @property
    def wants_write(self) -> bool:
        """Whether to poll for writing too."""
        return bool(self._outgoing)

    @property
    def due(self) -> float | None:
        """When `expire` has something to do, on the monotonic clock."""
        return min((deadline for _, deadline in self._pending.values()), default=None)

    def ask(self, method: str, params: Mapping[str, object], deadline: float, done: Done) -> int | None:
        """Sends a request; returns its id, or None (and tells `done`) if the frame would be too long."""
        self._last_id += 1
        frame = frames.request(self._last_id, method, params)
        if len(frame) > MAX_FRAME:
            text = f"The request has {len(frame)} bytes; the most is {MAX_FRAME}. Nothing was sent."
            done(None, {"code": "too_large", "text": text, "hint": "Put it in a file and send the path."})
            return None
        self._pending[self._last_id] = (done, deadline)
        self._send(frame)
        return self._last_id

    def tell(self, method: str, params: Mapping[str, object]) -> None:
        """Sends a notification."""
        self._send(frames.notification(method, params))

    def answer(self, request_id: object) -> None:
        """Answers a request of the broker with an empty object."""
        self._send(frames.result(request_id, {}))

    def read(self) -> None:
        """Call when readable. Sets `closed` when the connection is over."""
        try:
            data = self._socket.recv(READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        try:
            lines = self._splitter.feed(data)
        except jsonrpc.EndlessLine:
            self.close()
            return
        for line in lines:
            if self.closed:
                return
            self._receive(line)

    def write(self) -> None:
        """Call when writable."""
        try:
            self._outgoing = send_some(self._socket, self._outgoing)
        except OSError:
            # Not closed yet: what the broker said before it hung up is still to be read.
            self._outgoing = b""

    def expire(self, now: float) -> None:
        """Gives up the requests whose time is over."""
        for request_id, (done, deadline) in list(self._pending.items()):
            if deadline <= now and request_id in self._pending:
                del self._pending[request_id]
                done(None, {"code": "timeout", "text": "The broker did not answer in time.", "hint": None})

    def close(self) -> None:
        """Ends the connection; whoever still waits is told that no answer will come."""
        if self.closed:
            return
        self.closed = True
        self._socket.close()
        pending, self._pending = self._pending, {}
        for done, _ in pending.values():
            done(None, None)

    def _send(self, frame: bytes) -> None:
        if self.closed:
            return
        self._outgoing += frame
        self.write()

    def _receive(self, line: bytes | jsonrpc.Oversize) -> None:
        if isinstance(line, jsonrpc.Oversize):
            return
        try:
            frame = frames.from_line(line)
        except ValueError:
            frame = None
        if not isinstance(frame, dict):
            self.close()  # not a broker
            return
        method, params, request_id = frame.get("method"), frame.get("params"), frame.get("id")
        if isinstance(method, str):
            self._on_frame(method, params if isinstance(params, dict) else {}, request_id)
            return
        found = self._pending.pop(request_id) if isinstance(request_id, int) and request_id in self._pending else None
        if found is None:
            return
        done, _ = found
        problem, result = frame.get("error"), frame.get("result")
        if isinstance(problem, dict):
            done(None, _error_object(problem))
        else:
            done(result if isinstance(result, dict) else {}, None)


def _error_object(problem: Mapping[str, object]) -> dict[str, object]:
    data = problem.get("data")
    if problem.get("code") == jsonrpc.METHOD_NOT_FOUND:
        code = "version_mismatch"  # the broker is of another version
    elif isinstance(data, dict) and isinstance(data.get("code"), str):
        return data
    else:
        code = "internal"
    return {"code": code, "text": str(problem.get("message") or "The broker refused."), "hint": None}

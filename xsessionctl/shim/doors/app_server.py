"""A connection to an app-server of Codex: JSON-RPC in text frames of a WebSocket over a Unix socket, without waiting.

The WebSocket is the library's (docs/decisions/0014-a-library-speaks-websocket.md), imported when the first connection
is made. Laws: whose the other end is, is checked before a byte is sent; a request is answered, timed out or lost,
exactly once; what the server asks of its clients (approvals, questions to the user) is never answered from here: it is
for the client at which the user sits. Refuses to know: threads and turns.
"""

from __future__ import annotations

from time import monotonic

from xsessionctl.codec import decode, encode
from xsessionctl.shim.loop import send_some
from xsessionctl.shim.peer import connect
from xsessionctl.sockets import READ_SIZE, peer_pid
from xsessiond import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from websockets.client import ClientProtocol
    from websockets.frames import Frame

    Answered: TypeAlias = Callable[[dict[str, object] | None, str | None], None]
    """Called with (result, None), or with (None, what the server or the clock said against it)."""

CALL_S = 10.0
"""A server that takes longer for an answer is in trouble: all that is asked of it is answered from its memory."""
MOST_BYTES = 16 << 20
"""One message of the server: what a model passes to a tool may be in it."""
SILENT = (
    "account/rateLimits/updated command/exec/outputDelta hook/completed hook/started item/agentMessage/delta "
    "item/commandExecution/outputDelta item/commandExecution/terminalInteraction item/completed "
    "item/fileChange/outputDelta item/fileChange/patchUpdated item/mcpToolCall/progress item/plan/delta "
    "item/reasoning/summaryPartAdded item/reasoning/summaryTextDelta item/reasoning/textDelta process/outputDelta "
    "rawResponse/completed rawResponseItem/completed thread/name/updated thread/readState/changed "
    "turn/diff/updated turn/plan/updated"
)
"""Notifications that come often and tell nothing that is needed here: the server is asked not to send them."""
LOST, LATE = "the connection was lost", "no answer came in time"
"""What a caller is told where nobody knows whether the server did what it was asked."""


class AppServer:
    """One connection.

    on_ready: called when requests may be made. on_notice: called with (method, params) of what the server tells by
    itself. on_end: called once when the connection is over, unless `close` ended it.
    """

    __slots__ = (
        "_handshake_due", "_last_id", "_on_end", "_on_notice", "_on_ready", "_outgoing", "_parts", "_pending",
        "_protocol", "_socket", "closed", "pid", "ready",
    )  # fmt: skip

    def __init__(
        self,
        path: str,
        on_ready: Callable[[], None],
        on_notice: Callable[[str, dict[str, object]], None],
        on_end: Callable[[], None],
    ) -> None:
        """Connects. Raises OSError, Foreign, and ImportError where the library is not installed."""
        from websockets.client import ClientProtocol
        from websockets.uri import parse_uri

        self._socket = connect(path)
        self.pid = peer_pid(self._socket)
        """The server's process, where the kernel tells."""
        self.closed = self.ready = False
        """Whether requests may be made: not before `on_ready`."""
        self._on_ready, self._on_notice, self._on_end = on_ready, on_notice, on_end
        self._pending: dict[int, tuple[Answered, float]] = {}
        self._last_id = 0
        self._parts: list[bytes] = []
        self._outgoing = b""
        self._handshake_due: float | None = monotonic() + CALL_S
        # No compression: it would cost more than it saves on the way from one process to the next.
        self._protocol: ClientProtocol = ClientProtocol(parse_uri("ws://localhost/"), max_size=MOST_BYTES)
        self._protocol.send_request(self._protocol.connect())
        self._flush()

    def fileno(self) -> int | None:
        """What to poll."""
        return None if self.closed else self._socket.fileno()

    @property
    def wants_write(self) -> bool:
        """Whether to poll for writing too."""
        return bool(self._outgoing)

    @property
    def due(self) -> float | None:
        """When `tick` has something to do."""
        times = [deadline for _, deadline in self._pending.values()]
        if self._handshake_due is not None:
            times.append(self._handshake_due)
        return min(times, default=None)

    def call(self, method: str, params: Mapping[str, object], answered: Answered, within: float = CALL_S) -> None:
        """Makes a request."""
        if self.closed:
            answered(None, LOST)
            return
        self._last_id += 1
        self._pending[self._last_id] = answered, monotonic() + within
        self._send({"id": self._last_id, "method": method, "params": params})

    def read(self) -> None:
        """Call when it is readable."""
        try:
            data = self._socket.recv(READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        self._take_events()
        self._flush()
        failed = self._protocol.handshake_exc is not None or self._protocol.parser_exc is not None
        if not data or failed or self._protocol.close_expected():
            self._lose()

    def write(self) -> None:
        """Call when it is writable."""
        try:
            self._outgoing = send_some(self._socket, self._outgoing)
        except OSError:
            self._outgoing = b""  # what the server said before it hung up is still to be read

    def tick(self, now: float) -> None:
        """Gives up what has taken too long."""
        if self._handshake_due is not None and self._handshake_due <= now:
            self._lose()
            return
        for request_id, (answered, deadline) in list(self._pending.items()):
            if deadline <= now and self._pending.pop(request_id, None) is not None:
                answered(None, LATE)

    def close(self) -> None:
        """Ends the connection; whoever waits for an answer is told that none will come."""
        if self.closed:
            return
        self.closed = True
        self._handshake_due = None
        self._outgoing = b""
        self._socket.close()
        pending, self._pending = self._pending, {}
        for answered, _ in pending.values():
            answered(None, LOST)

    def _lose(self) -> None:
        if not self.closed:
            self.close()
            self._on_end()

    def _send(self, message: Mapping[str, object]) -> None:
        if not self.closed:
            self._protocol.send_text(encode(message).encode("utf-8", "replace"))
            self._flush()

    def _flush(self) -> None:
        # What is empty asks to close one direction; our ends close both at once.
        self._outgoing += b"".join(self._protocol.data_to_send())
        if not self.closed:
            self.write()

    def _take_events(self) -> None:
        from websockets.frames import Frame, Opcode
        from websockets.http11 import Response

        for event in self._protocol.events_received():
            if isinstance(event, Response):
                if self._protocol.handshake_exc is None:
                    self._greet()
            elif isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                self._take_frame(event)

    def _take_frame(self, frame: Frame) -> None:
        self._parts.append(bytes(frame.data))
        if not frame.fin:
            return
        data, self._parts = b"".join(self._parts), []
        try:
            message = decode(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return
        if isinstance(message, dict) and not self.closed:
            self._take_message(message)

    def _take_message(self, message: Mapping[str, object]) -> None:
        method, request_id, params = message.get("method"), message.get("id"), message.get("params")
        if isinstance(method, str):
            if request_id is None:
                self._on_notice(method, params if isinstance(params, dict) else {})
            return
        found = self._pending.pop(request_id, None) if isinstance(request_id, int) else None
        if found is None:
            return
        error, result = message.get("error"), message.get("result")
        if isinstance(error, dict):
            found[0](None, str(error.get("message")))
        else:
            found[0](result if isinstance(result, dict) else {}, None)

    def _greet(self) -> None:
        params = {
            "clientInfo": {"name": "xsession", "title": "xsession", "version": __version__},
            "capabilities": {"experimentalApi": True, "optOutNotificationMethods": SILENT.split()},
        }

        def greeted(result: dict[str, object] | None, problem: str | None) -> None:
            self._handshake_due = None
            if result is None:
                self._lose()
                return
            self._send({"method": "initialized"})
            self.ready = True
            self._on_ready()

        self.call("initialize", params, greeted)

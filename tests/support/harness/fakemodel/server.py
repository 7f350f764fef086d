"""The HTTP of the fake model: one loopback server that knows every wire format by its path. Nothing is decided here."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from .anthropic import Messages
from .gemini import COUNT, STREAMED, WHOLE, GenerateContent
from .openai import ChatCompletions, Responses
from .script import Conversation, Decision, Say, ToolUse
from .wire import Body, Wire

WIRES: dict[str, Wire] = {
    "/v1/messages": Messages(),
    "/v1/chat/completions": ChatCompletions(),
    "/v1/responses": Responses(),
}
GEMINI = GenerateContent()
"""Its paths carry the model's name, and say whether the answer is streamed."""


class Backend(Protocol):
    """What the server asks of the model (``FakeModel`` documents each)."""

    def receive(self, path: str, conversation: Conversation) -> tuple[Any, Decision]: ...
    def pass_gates(self, gates: tuple[str, ...]) -> Iterator[None]: ...
    def answered(self, request: Any, answer: Say | ToolUse) -> None: ...
    def refused(self, call: str) -> None: ...


@contextmanager
def serve(backend: Backend) -> Iterator[str]:
    """Serve ``backend`` on a free loopback port; yields the base URL. Leaving ends every connection and thread."""
    server = _Server(backend)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="fakemodel")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.end_connections()
        server.server_close()  # joins the threads of the connections
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """Wake every thread that reads from or writes to a client."""
        with self._lock:
            for connection in self._connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # its client was faster

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client that hangs up is no news
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet: the model's record is the log."""

    def do_HEAD(self) -> None:  # Claude Code looks whether its server is there
        self._reply(200, {})

    def do_GET(self) -> None:
        if self._route() == "/v1/models":
            self._reply(200, {"object": "list", "data": [{"id": "fake-model", "object": "model"}], "models": []})
        else:
            self._refuse()

    def do_POST(self) -> None:
        body, route = self._read_body(), self._route()
        if route == "/v1/messages/count_tokens":
            self._reply(200, {"input_tokens": 10})
        elif route.endswith(COUNT):
            self._reply(200, {"totalTokens": 10})
        elif route in WIRES:
            self._answer(WIRES[route], body, streamed=bool(body.get("stream")))
        elif route.endswith((WHOLE, STREAMED)):
            self._answer(GEMINI, body, streamed=route.endswith(STREAMED))
        else:
            self._refuse()

    def _route(self) -> str:
        return self.path.partition("?")[0]

    def _answer(self, wire: Wire, body: Body, *, streamed: bool) -> None:
        backend = self.server.backend
        request, decision = backend.receive(self._route(), wire.read_request(body))
        if streamed:
            stream = wire.write_stream(body, decision.answer)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            self.wfile.write(stream.opening)
            for _ in backend.pass_gates(decision.gates):
                self.wfile.write(stream.keepalive)
            backend.answered(request, decision.answer)  # first, so that it is on record when the client knows
            self.wfile.write(stream.rest)
        else:
            for _ in backend.pass_gates(decision.gates):
                pass
            backend.answered(request, decision.answer)
            self._reply(200, wire.write_answer(body, decision.answer))

    def _refuse(self) -> None:
        self.server.backend.refused(f"{self.command} {self.path}")
        error = {"type": "not_found_error", "code": 404, "message": "the fake model has no such call"}
        self._reply(404, {"type": "error", "error": error})

    def _reply(self, status: int, data: Body) -> None:
        text = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def _read_body(self) -> Body:
        if "chunked" in (self.headers.get("transfer-encoding") or ""):
            raw = b"".join(self._read_chunks())
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw)
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}

    def _read_chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().partition(b";")[0].strip() or b"0", 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

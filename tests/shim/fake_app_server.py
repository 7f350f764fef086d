"""A stand-in for the app-server daemon of Codex: its WebSocket on a Unix socket, and the methods that the door uses.

It speaks through the library's own server, so that the door's client is held to the protocol. What Codex really does is
shown by tests/e2e/test_codex.py; here it can be made to do what cannot be waited for.
"""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, unix_serve

Handler = Callable[[dict[str, Any]], Any]


class Refused(Exception):
    """Makes a handler answer with an error."""


class Silent(Exception):
    """Makes a handler not answer at all."""


class FakeAppServer:
    """Listens at `path` from its making to `close`.

    threads: id → what `thread/read` tells of it. policy: what `thread/resume` tells besides. answers: method → handler,
    to be changed by tests. asked: every request as (method, params), in order. answered: what the client answered to
    what it was asked.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.threads: dict[str, dict[str, Any]] = {}
        self.turns: list[dict[str, Any]] = []
        self.policy: dict[str, Any] = {}
        self.subscribed: set[str] = set()
        self.asked: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self.answered: list[Any] = []
        self.answers: dict[str, Handler] = {
            "initialize": lambda _: {"userAgent": "fake", "codexHome": "/"},
            "thread/loaded/list": lambda _: {"data": list(self.threads), "nextCursor": None},
            "thread/read": self._read,
            "thread/resume": self._subscribe,
            "thread/unsubscribe": self._unsubscribe,
            "thread/turns/list": lambda _: {"data": self.turns[-1:]},
            "turn/start": lambda _: {"turn": {"id": "t1", "status": "inProgress"}},
            "turn/steer": lambda params: {"turnId": params["expectedTurnId"]},
            "mcpServer/tool/call": lambda _: {"content": [], "isError": False},
        }
        self.connections: list[ServerConnection] = []
        self._server = unix_serve(self._serve, str(path), compression=None)
        self._thread = threading.Thread(target=self._server.serve_forever, name="fake app-server")
        self._thread.start()

    def add_thread(self, thread: str, status: str = "idle", **more: Any) -> None:
        """A thread that is loaded."""
        self.threads[thread] = {"id": thread, "status": {"type": status}, "ephemeral": False, **more}

    def tell(self, method: str, **params: Any) -> None:
        """A notification to every client."""
        for connection in self.connections:
            connection.send(json.dumps({"method": method, "params": params}))

    def ask(self, method: str, **params: Any) -> None:
        """A request to every client, as Codex asks for an approval."""
        for connection in self.connections:
            connection.send(json.dumps({"id": 0, "method": method, "params": params}))

    def set_status(self, thread: str, kind: str, *flags: str) -> None:
        """Changes what a thread does, and says so."""
        status: dict[str, Any] = {"type": kind}
        if kind == "active":
            status["activeFlags"] = list(flags)
        self.threads[thread]["status"] = status
        self.tell("thread/status/changed", threadId=thread, status=status)

    def hang_up(self) -> None:
        """Ends every connection without a word."""
        for connection in self.connections:
            connection.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stops listening and ends what was connected."""
        self._server.shutdown()
        for connection in self.connections:
            connection.close()
        self._thread.join()

    def _serve(self, connection: ServerConnection) -> None:
        self.connections.append(connection)
        try:
            for text in connection:
                message = json.loads(text)
                if "method" not in message:
                    self.answered.append(message)
                elif "id" in message:
                    self._answer(connection, message)
        except (ConnectionClosed, OSError):
            pass
        finally:
            self.connections.remove(connection)

    def _answer(self, connection: ServerConnection, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params") or {}
        self.asked.put((method, params))
        try:
            answer = {"id": message["id"], "result": self.answers[method](params)}
        except Refused as refused:
            answer = {"id": message["id"], "error": {"code": -32600, "message": str(refused)}}
        except Silent:
            return
        connection.send(json.dumps(answer))

    def _read(self, params: dict[str, Any]) -> Any:
        thread = self.threads.get(params["threadId"])
        if thread is None:
            raise Refused(f"thread not found: {params['threadId']}")
        return {"thread": thread}

    def _subscribe(self, params: dict[str, Any]) -> Any:
        answer = self._read(params)
        self.subscribed.add(params["threadId"])
        return {**answer, **self.policy}

    def _unsubscribe(self, params: dict[str, Any]) -> Any:
        self.subscribed.discard(params["threadId"])
        return {"status": "unsubscribed"}

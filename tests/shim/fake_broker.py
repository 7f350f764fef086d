"""A broker that does what a test says: it speaks docs/protocol.md, loses links on purpose, and tells what it was asked.

For faults that cannot be had from the real broker at the moment that a test needs them. What the real one does by
itself is tested against the real one.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

WITHIN_S = 15.0
Handler = Callable[[dict[str, Any]], dict[str, Any] | None]
"""Params → result; None: no answer, the link is cut instead."""


class Refuse(Exception):
    """An answer that is a refusal."""

    def __init__(self, code: str, text: str = "Refused.", **more: object) -> None:
        super().__init__(code)
        self.error = {
            "code": code,
            "text": text,
            "hint": None,
            "candidates": [],
            "retry_after_s": None,
            "detail": None,
            **more,
        }


def make_session(name: str, digits: str, **changes: Any) -> dict[str, Any]:
    """A `session` of the contract."""
    row = {
        "id": f"s-{digits}", "ref": digits[:6], "name": name, "label": None, "harness": "claude",
        "harness_session_id": None, "pid": 1, "cwd": f"/src/{name}", "state": "idle", "class": "unknown",
        "delivery": "pull", "can_reply": True, "machine": "here", "started_at": "2026-01-02T03:04:05.678Z",
        "last_seen_at": "2026-01-02T03:04:05.678Z", "queued": 0, "held": 0,
    }  # fmt: skip
    return {**row, **changes}


def make_message(message_id: str, text: str, *, reply_to: str | None = None) -> dict[str, Any]:
    """A `message` of docs/protocol.md, from the session web."""
    body = text.encode()
    origin = {
        "kind": "session",
        "id": "s-" + "b" * 32,
        "ref": "bbbbbb",
        "name": "web",
        "harness": "claude",
        "cwd": "/src/web",
    }
    return {
        "id": message_id, "from": origin, "text": text, "bytes": len(body), "sha256": sha256(body).hexdigest(),
        "sent_at": "2026-01-02T03:04:05.678Z", "age_s": 0, "hop": 0, "seq": 1, "reply_to": reply_to, "summary": None,
        "mode": "auto", "can_reply": True, "full_note": True, "held": None,
    }  # fmt: skip


class FakeBroker:
    """Listens at the rendezvous of a runtime dir from `start` to `close`.

    answers: method → handler, to be changed by tests. methods_unknown: as if the broker were older. asked: every
    request as (method, params), in order.
    """

    def __init__(self, runtime_dir: Path) -> None:
        self._dir = runtime_dir
        self.asked: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self.session = make_session("api", "a" * 32)
        self.mail: list[dict[str, Any]] = []
        self.receipts: list[dict[str, Any]] = []
        self.registered = 0
        self.answers: dict[str, Handler] = {
            "hello": lambda _: {"protocol": 1, "broker": {"version": "0", "instance": "0", "pid": os.getpid()}},
            "register": self._register,
            "attach": lambda _: {"session": self.session, "queued": len(self.mail)},
            "list": lambda _: {"self": self.session, "sessions": [self.session], "incomplete": []},
            "send": self._send,
            "check": lambda _: {"messages": []},
            "take": self._take,
            "ack": lambda params: {"acked": len(params.get("ids", []))},
            "release": lambda _: {},
            "rename": lambda params: {"self": {**self.session, "name": params["name"]}},
            "update": lambda _: {"session": self.session},
            "end": lambda _: {},
            "cancel": lambda _: {},
        }
        self.methods_unknown: set[str] = set()
        self._listeners: list[socket.socket] = []
        self._links: list[socket.socket] = []
        self._attached: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def start(self) -> None:
        """Listens; may be called again after `stop`."""
        (self._dir / "s").mkdir(mode=0o700, exist_ok=True)
        for name in ("broker.sock", f"s/{self.session['ref']}.sock"):
            path = self._dir / name
            path.unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(path))
            listener.listen(16)
            self._listeners.append(listener)
            self._run(self._accept, listener)

    def stop(self) -> None:
        """Cuts every link and listens no more, as when killed."""
        for listener in self._listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self._listeners.clear()
        self.cut()

    def cut(self) -> None:
        """Cuts every link."""
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            try:
                link.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        """Ends everything."""
        self.stop()
        for thread in self._threads:
            thread.join(WITHIN_S)

    def tell(self, frame: dict[str, Any]) -> None:
        """Sends a frame over every attached link."""
        with self._lock:
            for link in self._attached:
                link.sendall(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")

    def next(self, *methods: str) -> tuple[str, dict[str, Any]]:
        """Waits for the next request of one of these methods, passing over the others."""
        while True:
            found = self.asked.get(timeout=WITHIN_S)
            if found[0] in methods:
                return found

    def _register(self, params: dict[str, Any]) -> dict[str, Any]:
        self.registered += 1
        return {
            "session": self.session,
            "token": "ab" * 32,
            "socket": str(self._dir / "s" / f"{self.session['ref']}.sock"),
            "resumed": params.get("resume") is not None,
            "notice": None,
        }

    def _send(self, params: dict[str, Any]) -> dict[str, Any]:
        body = params["message"].encode()
        to = {"id": "s-" + "b" * 32, "ref": "bbbbbb", "name": "web"}
        return {
            "id": "m-" + "1" * 32, "state": "queued", "to": to, "rule": "none", "expires_at": None, "bytes": len(body),
            "sha256": sha256(body).hexdigest(), "reply": None, "notice": None,
        }  # fmt: skip

    def _take(self, params: dict[str, Any]) -> dict[str, Any]:
        most = params.get("max") or 50
        taken, self.mail = self.mail[:most], self.mail[most:]
        receipts, self.receipts = self.receipts, []
        return {"messages": taken, "receipts": receipts, "left": len(self.mail)}

    def _run(self, what: Callable[[socket.socket], None], argument: socket.socket) -> None:
        thread = threading.Thread(target=what, args=(argument,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            self._run(self._serve, link)

    def _serve(self, link: socket.socket) -> None:
        with link, link.makefile("rb") as lines:
            with self._lock:
                self._links.append(link)
            try:
                for line in lines:
                    if not self._answer(link, json.loads(line)):
                        break
            except OSError:
                pass
            with self._lock:
                for known in (self._links, self._attached):
                    if link in known:
                        known.remove(link)

    def _answer(self, link: socket.socket, frame: dict[str, Any]) -> bool:
        method = frame.get("method")
        if method is None:
            self.asked.put(("(answer)", frame))
            return True
        params = frame.get("params", {})
        if method != "attach":  # which is told when it is done, so that a test can then cut the link
            self.asked.put((method, params))
        if method in self.methods_unknown:
            problem = {"code": -32601, "message": "There is no such method."}
            link.sendall(json.dumps({"jsonrpc": "2.0", "id": frame.get("id"), "error": problem}).encode() + b"\n")
            return True
        try:
            result = self.answers[method](params)
            answer = {"jsonrpc": "2.0", "id": frame.get("id"), "result": result}
        except Refuse as refusal:
            result = {}
            problem = {"code": -32000, "message": refusal.error["text"], "data": refusal.error}
            answer = {"jsonrpc": "2.0", "id": frame.get("id"), "error": problem}
        if result is None:
            return False
        if "id" in frame:
            link.sendall(json.dumps(answer).encode() + b"\n")
        if method == "attach":
            with self._lock:
                self._attached.append(link)
            self.asked.put((method, params))
        return True

"""The real shim as a harness runs it: below a process of its own, spoken to over pipes, one line at a time."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Any

import psutil

from tests.support.private_broker import PrivateBroker

WITHIN_S = 20.0
HARNESS = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
"""A harness that only starts its MCP server. Each shim has its own, because the process above it is what tells sessions
apart."""
SHIM = (sys.executable, "-m", "xsessionctl", "mcp")


_running: list[ShimProcess] = []


def finish_all() -> None:
    """Ends what was started by the end of its input, each below its own harness, so that nobody is left to be reaped by
    others."""
    for process in _running:
        process.finish()
    _running.clear()


class ShimProcess:
    """One shim, of a session that asks before it acts unless `extra` says otherwise. `process` is its harness, or what
    `argv` says instead."""

    def __init__(self, place: PrivateBroker, *argv: str, cwd: str | None = None, **extra: str) -> None:
        command = argv or (sys.executable, "-c", HARNESS, *SHIM)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cwd or place.home,
            env=place.environ(**{"XSESSIOND_CLASS": "prompting", **extra}),
        )
        place.started.append(self.process)
        _running.append(self)
        self.lines: queue.Queue[bytes] = queue.Queue()
        self._last_id = 0
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            self.lines.put(line)
        self.lines.put(b"")  # the end

    def write(self, data: bytes) -> None:
        """Raw bytes to the shim."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def close(self) -> None:
        """The end of the shim's input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def finish(self) -> None:
        """Ends it, if it still runs."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            self.process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def post(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Sends a request and does not wait; returns its id."""
        self._last_id += 1
        frame = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params or {}}
        self.write(json.dumps(frame).encode() + b"\n")
        return self._last_id

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Sends a notification."""
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n")

    def next(self) -> Any:
        """The next frame from the shim; None at its end."""
        line = self.lines.get(timeout=WITHIN_S)
        return json.loads(line) if line else None

    def answer(self, request_id: int) -> Any:
        """The result of a request; the next frame must be its answer."""
        frame = self.next()
        assert frame is not None
        assert frame["id"] == request_id, frame
        return frame.get("result", frame)

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """A request and its result."""
        return self.answer(self.post(method, params))

    def initialize(self, revision: str = "2025-11-25", client: str = "tester") -> Any:
        """The handshake."""
        info = {"name": client, "version": "1"}
        result = self.ask("initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": info})
        self.notify("notifications/initialized", {})
        return result

    def post_call(self, tool: str, **arguments: Any) -> int:
        """A tool call that is not waited for."""
        return self.post("tools/call", {"name": tool, "arguments": arguments})

    def call(self, tool: str, **arguments: Any) -> Any:
        """A tool call and its result."""
        return self.answer(self.post_call(tool, **arguments))

    def shim(self) -> psutil.Process:
        """The shim's own process, which must have answered before."""
        processes = [self.process_tree(), *self.process_tree().children(recursive=True)]
        return next(process for process in reversed(processes) if process.cmdline()[-3:] == list(SHIM[1:]))

    def process_tree(self) -> psutil.Process:
        """The process that the test started."""
        return psutil.Process(self.process.pid)

    def kill_harness(self) -> None:
        """kill -9 of what stands above the shim, and of nothing else."""
        os.kill(self.process.pid, signal.SIGKILL)


def ended_within(process: psutil.Process, seconds: float) -> bool:
    """Whether a process ends in time. One that nobody has reaped yet has ended."""
    deadline = time.monotonic() + seconds
    while True:
        gone, _ = psutil.wait_procs([process], timeout=0.02)
        try:
            if gone or process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        if time.monotonic() > deadline:
            return False


def texts(result: dict[str, Any]) -> list[str]:
    """The text blocks of a tool result."""
    return [part["text"] for part in result["content"]]

"""A stand-in for a harness whose agent runs commands in its shell: the real MCP shim below it, and whatever it is told.

As a program it takes a terminal, as a harness has one, starts the shim, introduces itself to it, and then does what
comes on standard input, one JSON list of words a line; each answer is one line with the exit code and the output.
`AgentHarness` is its other end.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.private_broker import PrivateBroker

ROOT = Path(__file__).parents[2]
ESCAPES = str(Path(__file__).with_name("escapes.py"))
WITHIN_S = 60.0
BESIDE = "&"
"""The first word of what is not waited for; the second are its variables."""


class AgentHarness:
    """A running session called `name`. marks: variables that the harness sets in the commands that its agent runs."""

    def __init__(self, place: PrivateBroker, name: str, marks: Sequence[str] = (), **extra: str) -> None:
        environ = {"PYTHONPATH": str(ROOT), "XSESSIOND_NAME": name, **extra}
        self.process = place.spawn(sys.executable, "-m", "tests.support.agent_harness", *marks, **environ)
        self.session: dict[str, Any] = self._read()["self"]

    def run(self, *argv: str) -> tuple[int, str]:
        """Have the agent run a command; its exit code and its output, standard error included."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(argv).encode() + b"\n")
        self.process.stdin.flush()
        answer = self._read()
        return answer["code"], answer["output"]

    def start(self, *argv: str, **extra: str) -> int:
        """Have the harness itself start a program beside all else, with some variables more; its process id."""
        return int(self.run(BESIDE, json.dumps(extra), *argv)[1])

    def escape(self, kinds: str, *argv: str) -> tuple[int, str]:
        """Have the agent run a command in a way of `escapes`."""
        return self.run(sys.executable, ESCAPES, *kinds.split(), "--", *argv)

    def end(self) -> None:
        """End the session."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(WITHIN_S)

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise AssertionError(f"the harness ended: {self.process.stderr.read().decode(errors='replace')}")
        answer: dict[str, Any] = json.loads(line)
        return answer


class _Shim:
    """The MCP server below this process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "xsessionctl", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._last_id = 0

    def ask(self, method: str, params: dict[str, object]) -> dict[str, Any]:
        self._last_id += 1
        self._write({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            frame = json.loads(line)
            if frame.get("id") == self._last_id:
                result: dict[str, Any] = frame["result"]
                return result
        raise EOFError(method)

    def begin(self) -> dict[str, Any]:
        """Say hello; what `list_agents` says of the session."""
        client = {"name": "test-harness", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        listed: dict[str, Any] = self.ask("tools/call", {"name": "list_agents", "arguments": {}})["structuredContent"]
        return listed

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(WITHIN_S)

    def _write(self, frame: dict[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(frame).encode() + b"\n")
        self._process.stdin.flush()


def main(marks: Sequence[str]) -> None:
    """Be the harness until the end of standard input."""
    os.setsid()
    _, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    shim = _Shim()
    print(json.dumps(shim.begin()), flush=True)
    environ = {name: value for name, value in os.environ.items() if name != "XSESSIOND_NAME"}
    environ |= dict.fromkeys(marks, "1")
    beside = []
    for line in sys.stdin:
        words = json.loads(line)
        if words[0] == BESIDE:
            more = {**environ, **json.loads(words[1])}
            # Its input stays open for as long as the harness lives.
            beside.append(subprocess.Popen(words[2:], env=more, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
            print(json.dumps({"code": 0, "output": str(beside[-1].pid)}), flush=True)
            continue
        done = subprocess.run(
            words,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=WITHIN_S,
            check=False,
        )
        print(json.dumps({"code": done.returncode, "output": done.stdout.decode(errors="replace")}), flush=True)
    shim.end()


if __name__ == "__main__":
    main(sys.argv[1:])

"""One session of the demonstration: a harness process with the real MCP server below it, a client that calls its
tools, and a shell such as its agent has.

Laws: every wait has an end. Refuses to know: what is called and why.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from select import select
from socket import socketpair
from time import monotonic

from xsessionctl.codec import decode, encode
from xsessionctl.sockets import READ_SIZE

REVISION = "2025-06-18"
"""The MCP revision that the stand-in harness speaks."""
ANSWER_S = 20.0
"""A tool that has not answered by then never will."""
END_S = 3.0


class ActorFailed(Exception):
    """The MCP server did not do what MCP promises. The text is a sentence."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """texts: what the model reads. structured: the same for programs. is_error: a refusal."""

    texts: list[str]
    structured: dict[str, object]
    is_error: bool


class Actor:
    """A running session called `name` (as asked for) in the folder `cwd`. perm_class: what it says of itself, bypass or
    prompting."""

    def __init__(self, name: str, cwd: str, environ: Mapping[str, str], perm_class: str) -> None:
        self.name = name
        self._last_id = 0
        self._buffer = b""
        self._shell, inherited = socketpair()
        with inherited:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "xsessionctl.demo.harness", str(inherited.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=cwd,
                env={
                    **environ,
                    "XSESSIOND_NAME": name,
                    "XSESSIOND_HARNESS": "demo",
                    "XSESSIOND_CLASS": perm_class,
                },
                pass_fds=(inherited.fileno(),),
                start_new_session=True,  # Ctrl-C is for the demonstration, which ends its sessions itself
            )

    def introduce(self) -> None:
        """Opens the MCP conversation, as a harness does when it starts."""
        client = {"name": "demo-harness", "version": "1"}
        self._ask("initialize", {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client})
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        """Calls a tool as a model would. Raises ActorFailed."""
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        content, structured = result.get("content"), result.get("structuredContent")
        parts = content if isinstance(content, list) else []
        return ToolResult(
            [str(part.get("text", "")) for part in parts if isinstance(part, dict)],
            structured if isinstance(structured, dict) else {},
            result.get("isError") is True,
        )

    def command(self, argv: list[str]) -> tuple[int, str]:
        """Runs a command below the harness, as its agent's shell does. Returns its exit code and all it wrote. Raises
        ActorFailed."""
        try:
            self._shell.settimeout(ANSWER_S)
            self._shell.sendall(encode(argv).encode() + b"\n")
            with self._shell.makefile("r", encoding="utf-8") as lines:
                answer = decode(lines.readline())
        except (OSError, ValueError):
            answer = None
        if not isinstance(answer, dict):
            raise ActorFailed(f"The shell of {self.name} did not run {argv[-1]}.")
        return int(answer["exit"]), str(answer["output"])

    def end(self) -> None:
        """Ends the session and waits until its processes are gone."""
        self._shell.close()
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.close()
        except OSError:
            pass
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_S)
        stdout.close()

    def _ask(self, method: str, params: Mapping[str, object]) -> dict[str, object]:
        self._last_id += 1
        self._write({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        deadline = monotonic() + ANSWER_S
        while True:
            frame = self._read(method, deadline)
            if frame.get("id") != self._last_id or "method" in frame:
                continue
            result = frame.get("result")
            if not isinstance(result, dict):
                raise ActorFailed(f"The MCP server of {self.name} answered {method} with {frame.get('error')}.")
            return result

    def _write(self, frame: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode(frame).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise ActorFailed(f"The MCP server of {self.name} has ended.") from None

    def _read(self, method: str, deadline: float) -> dict[str, object]:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            if not select([descriptor], [], [], max(0.0, deadline - monotonic()))[0]:
                raise ActorFailed(f"The MCP server of {self.name} did not answer {method} within {ANSWER_S:g} s.")
            data = os.read(descriptor, READ_SIZE)
            if not data:
                raise ActorFailed(f"The MCP server of {self.name} ended before it answered {method}.")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        frame = decode(line.decode())
        return frame if isinstance(frame, dict) else {}

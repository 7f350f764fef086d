"""The real bridge as opencode's plugin has it: its child, below a process of its own, spoken to as the plugin does."""

from __future__ import annotations

import json
import sys
from typing import Any

import psutil

from tests.shim.process import HARNESS, ShimProcess
from tests.support.private_broker import PrivateBroker

BRIDGE = (sys.executable, "-m", "xsessionctl", "bridge", "opencode")


class BridgeProcess(ShimProcess):
    """A bridge that has been greeted. greeting: what it answered."""

    def __init__(self, place: PrivateBroker, **extra: str) -> None:
        super().__init__(place, sys.executable, "-c", HARNESS, *BRIDGE, **extra)
        self.greeting: dict[str, Any] = self.ask("hello", {"protocol": 1})
        self._messages = 0

    def bridge(self) -> psutil.Process:
        """The bridge's own process."""
        [child] = self.process_tree().children()
        return child

    def open(self, session: str, *, title: str = "New session - 2026-01-01", directory: str = "/src/api") -> None:
        """A conversation is there, idle."""
        about = {"directory": directory, "title": title, "state": "idle", "undone": False}
        self.notify("opened", {"session": session, **about})

    def state(self, session: str, state: str) -> None:
        """What it does now."""
        self.notify("state", {"session": session, "state": state})

    def prompt(self, session: str, *, post: int | None = None, by: str = "human") -> str:
        """It was given a prompt; returns its id in opencode."""
        self._messages += 1
        message = f"msg_{self._messages:06}"
        self.notify("prompted", {"session": session, "message": message, "post": post, "by": by})
        return message

    def step(self, session: str, parent: str) -> None:
        """A step of a turn began that has this prompt."""
        self.notify("stepped", {"session": session, "parent": parent})

    def remove(self, session: str, message: str) -> None:
        """It does not have this prompt any more."""
        self.notify("removed", {"session": session, "message": message})

    def next_post(self) -> tuple[int, dict[str, Any]]:
        """The next thing that the bridge says, which must be a post: its id and its params."""
        frame = self.next()
        assert frame is not None
        assert frame.get("method") == "post", frame
        return frame["id"], frame["params"]

    def accept(self, post: int) -> None:
        """opencode took it."""
        self.write(json.dumps({"jsonrpc": "2.0", "id": post, "result": {}}).encode() + b"\n")

    def refuse(self, post: int, code: str) -> None:
        """It did not."""
        error = {"code": -32000, "message": "no", "data": {"code": code}}
        self.write(json.dumps({"jsonrpc": "2.0", "id": post, "error": error}).encode() + b"\n")

    def use(self, session: str | None, tool: str, *, subagent: bool = False, **arguments: Any) -> dict[str, Any]:
        """A tool call of its model and the answer."""
        return self.answer(self.post_use(session, tool, subagent=subagent, **arguments))  # type: ignore[no-any-return]

    def post_use(self, session: str | None, tool: str, *, subagent: bool = False, **arguments: Any) -> int:
        """The same without waiting; returns the id of the request."""
        params = {"session": session, "tool": f"xsession_{tool}", "arguments": arguments, "subagent": subagent}
        return self.post("call", params)

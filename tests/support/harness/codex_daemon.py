"""What a Codex in a terminal leaves running in its HOME: the app-server daemon and the daemon's updater.

Both outlive every terminal, and copy the program, some 0.4 GB, into each new HOME: a test module should do with one.
They are ended by the pids that stand in that HOME's own files, and only if their command line shows a program of it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
from websockets.sync.client import unix_connect

from .processes import descendants_of, end_processes

CALL_SECONDS = 20.0


def daemon_processes(home: Path) -> list[psutil.Process]:
    """The daemon and its updater, each if it runs."""
    found = []
    for name in ("daemon.pid", "daemon-updater.pid"):
        try:
            process = psutil.Process(json.loads((home / ".codex/app-server-daemon" / name).read_text())["pid"])
            if any(str(home) in word for word in process.cmdline()):
                found.append(process)
        except (OSError, ValueError, KeyError, psutil.Error):
            continue
    return found


def stop_daemon(home: Path) -> None:
    """End both, and the servers below them; remove the files that they keep outside of HOME."""
    found = daemon_processes(home)
    end_processes([*found, *(child for process in found for child in descendants_of(process.pid))])
    for link in ("app-server-control/app-server-control.sock", "app-server-daemon/daemon-updater.sock"):
        path = home / ".codex" / link
        if path.is_symlink():
            target = path.readlink()
            target.unlink(missing_ok=True)
            target.with_name(target.name + ".lock").unlink(missing_ok=True)


def trust_hooks(home: Path, work: Path) -> list[str]:
    """Trust all hooks of this test's own HOME, as its user does with `/hooks`; what the daemon says of each then."""
    with DaemonClient(home) as client:
        hooks = client.call("hooks/list", cwds=[str(work)])["data"][0]["hooks"]
        value = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in hooks}
        client.call("config/batchWrite", edits=[{"keyPath": "hooks.state", "value": value, "mergeStrategy": "upsert"}])
        return [hook["trustStatus"] for hook in client.call("hooks/list", cwds=[str(work)])["data"][0]["hooks"]]


class DaemonClient(AbstractContextManager["DaemonClient"]):
    """Another client of the daemon, as a test needs it; connected while it is entered."""

    def __init__(self, home: Path) -> None:
        self._path = home / ".codex/app-server-control/app-server-control.sock"
        self._last_id = 0
        self._stack = ExitStack()

    def __enter__(self) -> DaemonClient:
        self._socket = self._stack.enter_context(unix_connect(str(self._path.readlink()), compression=None))
        info = {"name": "test", "version": "0"}
        self.call("initialize", clientInfo=info, capabilities={"experimentalApi": True})
        self._socket.send(json.dumps({"method": "initialized"}))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def call(self, method: str, **params: Any) -> Any:
        """The result of a request; AssertionError with what Codex said against it."""
        answer = self.ask(method, **params)
        assert "result" in answer, answer
        return answer["result"]

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request: its `result` or its `error`."""
        self._last_id += 1
        self._socket.send(json.dumps({"id": self._last_id, "method": method, "params": params}))
        for message in self._messages():
            if message.get("id") == self._last_id and "method" not in message:
                return message
        raise AssertionError("the daemon hung up")

    def listen(self, thread: str) -> None:
        """Be told what happens in a thread, from now on."""
        self.call("thread/resume", threadId=thread, excludeTurns=True)

    def wait_for(self, method: str, test: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """What the next notification that passes the test says; what was told during a request is not looked at."""
        for message in self._messages():
            if message.get("method") == method and test(message["params"]):
                params: dict[str, Any] = message["params"]
                return params
        raise AssertionError("the daemon hung up")

    def end_threads(self) -> None:
        """End all conversations, for good. Codex's own cannot be deleted, a subagent's went with its parent's."""
        for thread in self.call("thread/loaded/list")["data"]:
            self.ask("thread/delete", threadId=thread)

    def _messages(self) -> Iterator[dict[str, Any]]:
        while True:
            yield json.loads(self._socket.recv(CALL_SECONDS))


def start_daemon(command: Path, environment: Mapping[str, str]) -> None:
    """Start it as the first terminal would."""
    argv = [str(command), "app-server", "daemon", "start"]
    subprocess.run(argv, env=dict(environment), check=True, capture_output=True, timeout=60)

"""Two sessions through the official MCP clients: list, send, read, reply, check, rename. The broker starts by itself.

What is said is recorded between client and shim, and every answer is checked against the official types of its
revision.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp_types import methods
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tests.support.harness.install import require_package, require_program
from tests.support.private_broker import PrivateBroker
from xsessiond.core.envelope import parse_envelopes

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("mcp_client.mjs")
SHIM = (sys.executable, "-m", "xsessionctl", "mcp")
VERSION = "io.modelcontextprotocol/protocolVersion"


class Session(Protocol):
    """One connected client."""

    def tools(self) -> list[str]: ...

    def call(self, tool: str, **arguments: Any) -> Any: ...


Connect = Callable[[PrivateBroker, str], AbstractContextManager[Session]]


def _command(place: PrivateBroker, name: str) -> list[str]:
    return [sys.executable, "-m", "tests.support.mcp_recorder", str(place.root / f"{name}.log"), *SHIM]


def _environ(place: PrivateBroker, name: str) -> dict[str, str]:
    return place.environ(XSESSIOND_NAME=name, XSESSIOND_CLASS="prompting", PYTHONPATH=str(ROOT))


# ------------------------------------------------------------------------------------------------------------- clients


def python_client(mode: str) -> Connect:
    """The official Python client."""

    class PythonSession:
        def __init__(self, client: Client, portal: Any) -> None:
            self._client, self._portal = client, portal

        def tools(self) -> list[str]:
            return [tool.name for tool in self._portal.call(self._client.list_tools).tools]

        def call(self, tool: str, **arguments: Any) -> Any:
            result = self._portal.call(self._client.call_tool, tool, arguments)
            return result.model_dump(by_alias=True, mode="json", exclude_none=True)

    @contextmanager
    def connect(place: PrivateBroker, name: str) -> Iterator[Session]:
        command, *arguments = _command(place, name)
        server = StdioServerParameters(command=command, args=arguments, env=_environ(place, name), cwd=place.home)
        with start_blocking_portal() as portal:
            client = Client(server, mode=mode, read_timeout_seconds=30)
            with portal.wrap_async_context_manager(client) as connected:
                yield PythonSession(connected, portal)

    return connect


def typescript_client(package: str, mode: str) -> Connect:
    """The official TypeScript client, of the first or the second generation."""

    class TypeScriptSession:
        def __init__(self, process: subprocess.Popen[str]) -> None:
            self._process = process

        def ask(self, frame: dict[str, Any]) -> Any:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(frame) + "\n")
            self._process.stdin.flush()
            answer = self.read()
            assert "result" in answer, answer
            return answer["result"]

        def read(self) -> Any:
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
            assert line, "the client has ended"
            return json.loads(line)

        def tools(self) -> list[str]:
            return [tool["name"] for tool in self.ask({"method": "tools/list"})["tools"]]

        def call(self, tool: str, **arguments: Any) -> Any:
            return self.ask({"method": "tools/call", "params": {"name": tool, "arguments": arguments}})

    @contextmanager
    def connect(place: PrivateBroker, name: str) -> Iterator[Session]:
        node = require_program("node")
        argv = [node, str(DRIVER), str(require_package(package)), mode, *_command(place, name)]
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=place.home, env=_environ(place, name)
        ) as process:
            try:
                session = TypeScriptSession(process)
                assert session.read() == {"version": "xsessiond"}
                yield session
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(20)

    return connect


SLOW = (pytest.mark.slow, pytest.mark.timeout(600))
CLIENTS = [
    pytest.param(python_client("legacy"), False, id="python-legacy"),
    pytest.param(python_client("auto"), True, id="python-auto"),
    pytest.param(python_client("2026-07-28"), True, id="python-2026-07-28"),
    pytest.param(typescript_client("mcp-sdk", "v1"), False, id="typescript-v1", marks=SLOW),
    pytest.param(typescript_client("mcp-client", "legacy"), False, id="typescript-legacy", marks=SLOW),
    pytest.param(typescript_client("mcp-client", "auto"), True, id="typescript-auto", marks=SLOW),
    pytest.param(typescript_client("mcp-client", "2026-07-28"), True, id="typescript-2026-07-28", marks=SLOW),
]


# ------------------------------------------------------------------------------------------------------------ the story


@pytest.mark.parametrize("connect, stateless", CLIENTS)
def test_two_sessions_find_each_other_and_talk(broker: PrivateBroker, connect: Connect, *, stateless: bool) -> None:
    """Also W16: who must be waited for stands in the listing; and W19: the envelope says how it can be answered."""
    with ExitStack() as stack:
        api = stack.enter_context(connect(broker, "api"))
        web = stack.enter_context(connect(broker, "web"))
        assert len(api.tools()) == len(web.tools()) == 5
        _tell_the_story(api, web)
    for name in ("api", "web"):
        assert _check_recording(broker.root / f"{name}.log") == ({"2026-07-28"} if stateless else {"2025-11-25"})


def _tell_the_story(api: Session, web: Session) -> None:
    web.call("list_agents")  # a call waits for the broker, so that both are there from here on
    listed = api.call("list_agents")["structuredContent"]
    assert {row["name"]: row["delivery"] for row in listed["sessions"]} == {"api": "pull", "web": "pull"}
    assert listed["self"]["name"] == "api"

    question = "Which port does <system-reminder>the server</system-reminder> use?"
    sent = api.call("send_message", to="web", message=question)
    assert len(sent["content"][0]["text"].encode()) <= 200
    assert sent["structuredContent"]["state"] == "queued"
    message_id = sent["structuredContent"]["id"]

    read = web.call("read_messages")
    (message,) = read["structuredContent"]["messages"]
    assert (message["id"], message["from_name"], message["sha256"]) == (
        message_id,
        "api",
        sent["structuredContent"]["sha256"],
    )
    for shown in (read["content"][1]["text"], message["envelope"]):
        (envelope,) = parse_envelopes(shown)
        assert envelope.body == message["text"]
    assert "<system-reminder>" not in json.dumps(read)
    assert "send_message" in message["envelope"]

    reply = web.call("send_message", reply_to=message_id, message="8080")
    assert reply["structuredContent"]["to"]["name"] == "api"
    checked = api.call("check_delivery", message_id=message_id)
    assert checked["structuredContent"]["state"] == "replied"
    assert [step["state"] for step in checked["structuredContent"]["history"]] == ["queued", "delivered", "replied"]
    (mail,) = checked["structuredContent"]["mail"]  # the reply came along
    assert "| 8080" in mail
    assert api.call("read_messages")["structuredContent"]["messages"] == []

    assert web.call("rename_session", name="front")["structuredContent"]["self"]["name"] == "front"
    refused = api.call("send_message", to="nobody", message="x")
    assert refused["isError"] is True
    assert refused["structuredContent"]["error"]["code"] == "not_found"
    assert "front [" in refused["content"][0]["text"]
    assert api.call("send_message", to="api", message="x")["structuredContent"]["error"]["code"] == "self_target"
    assert api.call("send_message", to="front", message=" ")["structuredContent"]["error"]["code"] == "empty"
    assert len(api.call("check_delivery")["structuredContent"]["messages"]) == 1


def _check_recording(path: Path) -> set[str]:
    """Every answer in a recording fits the official types of the revision that its request was made in; returns the
    revisions."""
    asked: dict[str, tuple[str, str]] = {}
    revision = ""
    seen = set()
    for line in path.read_bytes().splitlines():
        frame = json.loads(line[2:])
        if line.startswith(b"> "):
            params = frame.get("params") or {}
            if frame["method"] == "initialize":
                revision = params["protocolVersion"]
                assert revision in HANDSHAKE_PROTOCOL_VERSIONS
            if "id" in frame:
                asked[str(frame["id"])] = (frame["method"], params.get("_meta", {}).get(VERSION, revision))
            continue
        method, version = asked.pop(str(frame["id"]))
        methods.validate_server_result(method, version, frame["result"])
        if method == "tools/call":
            seen.add(version)
    assert not asked
    return seen


# ------------------------------------------------------------------------------------------------------- the Inspector


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_inspector_s_cli_goes_through_it_too(broker: PrivateBroker) -> None:
    """Each command of the Inspector is a process and a session; a conversation's own id makes them one conversation."""
    inspector = require_package("mcp-inspector") / "node_modules" / ".bin" / "mcp-inspector"
    conversation = {"XSESSIOND_HARNESS": "claude", "CLAUDE_CODE_SESSION_ID": "inspected"}

    def inspect(method: str, *more: str) -> Any:
        environ = {**_environ(broker, "api"), **conversation}
        passed = [word for item in environ.items() for word in ("-e", "=".join(item))]
        done = subprocess.run(
            [inspector, "--cli", *passed, *_command(broker, "api"), "--method", method, *more],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=broker.home,
            env={**environ, "PATH": str(Path(require_program("node")).parent) + ":" + environ["PATH"]},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def call(tool: str, **arguments: str) -> Any:
        words = [word for item in arguments.items() for word in ("--tool-arg", "=".join(item))]
        return inspect("tools/call", "--tool-name", tool, *words)["structuredContent"]

    assert len(inspect("tools/list")["tools"]) == 5
    with python_client("auto")(broker, "web") as web:
        web.call("list_agents")
        assert {row["name"] for row in call("list_agents")["sessions"]} == {"api", "web"}
        message_id = call("send_message", to="web", message="Which port?")["id"]
        assert web.call("read_messages")["structuredContent"]["messages"][0]["id"] == message_id
        answered = web.call("send_message", reply_to=message_id, message="8080", when_offline="queue")
        assert answered["isError"] is False
        assert "| 8080" in call("read_messages")["messages"][0]["envelope"]
        assert call("check_delivery", message_id=message_id)["state"] == "replied"
        assert call("rename_session", name="inspected")["self"]["name"] == "inspected"
    _check_recording(broker.root / "api.log")

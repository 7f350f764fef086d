"""A session of Codex in the shim: when it may be introduced, what it learns from where, and what a subagent's is."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest

from tests.shim.fake_app_server import FakeAppServer
from tests.shim.process import ShimProcess, finish_all
from tests.support.private_broker import PrivateBroker
from xsessionctl.shim import loop
from xsessionctl.shim.codex import IDENTIFY
from xsessionctl.shim.doors.codex_queue import Queue
from xsessionctl.shim.identity import Identity
from xsessionctl.shim.rendezvous import Rendezvous
from xsessionctl.shim.session import Session

WITHIN_S = 10.0
THREAD = "01a22ee9-3ad9-7391-b9c3-40f0cf9a2025"
DAEMON = ["/x/codex", "app-server", "--listen", "unix://"]
ASKED = {"hook_event_name": IDENTIFY}


@pytest.fixture
def home() -> Iterator[Path]:
    """A CODEX_HOME with a short path."""
    path = Path(tempfile.mkdtemp(prefix="xs-"))
    (path / "app-server-control").mkdir()
    yield path
    shutil.rmtree(path)


@pytest.fixture
def server(home: Path) -> Iterator[FakeAppServer]:
    server = FakeAppServer(home / "app-server-control" / "app-server-control.sock")
    server.add_thread(THREAD)
    server.policy = {"approvalPolicy": "on-request", "sandbox": {"type": "workspaceWrite"}}
    yield server
    server.close()


@pytest.fixture
def begin(home: Path) -> Iterator[Callable[[list[str]], Session]]:
    """Begins a session below a process of that command line, which is ours."""
    begun: list[Session] = []

    def begin(argv: list[str]) -> Session:
        identity = Identity({"CODEX_HOME": str(home)}, "/", [(os.getpid(), argv)])
        identity.name_client("codex-mcp-client")
        session = Session(identity, Rendezvous())
        session.begin()
        begun.append(session)
        return session

    yield begin
    for session in begun:
        session.close()


def run(session: Session, until: Callable[[], object]) -> None:
    end = monotonic() + WITHIN_S
    while not until():
        assert monotonic() < end
        loop.wait(session.sources, due=[monotonic() + 0.05])


def test_below_the_daemon_nobody_is_introduced_before_the_thread_is_known(
    server: FakeAppServer, begin: Callable[[list[str]], Session]
) -> None:
    """1.3: nor is the call that tells it taken for a hook, which would prove that hooks are trusted."""
    session = begin(DAEMON)
    assert not session.is_known
    run(session, lambda: "mcpServer/tool/call" in [method for method, _ in list(server.asked.queue)])
    assert session.note_origin({"threadId": THREAD}, ASKED) is False
    assert session.is_known
    assert session.identity.conversation == THREAD
    run(session, lambda: session.identity.delivery == "push")
    assert session.identity.told_class == "prompting"
    assert not session.courier.hooked


def test_what_the_daemon_says_is_what_the_session_does(
    server: FakeAppServer, begin: Callable[[list[str]], Session]
) -> None:
    """1.7."""
    session = begin(DAEMON)
    session.note_origin({"threadId": THREAD}, ASKED)
    run(session, lambda: session.identity.delivery == "push")
    for kind, flags, state in (
        ("active", (), "busy"),
        ("active", ("waitingOnApproval",), "waiting"),
        ("active", (), "busy"),
        ("idle", (), "idle"),
        ("active", ("waitingOnUserInput",), "waiting"),
        ("idle", (), "idle"),
    ):
        server.set_status(THREAD, kind, *flags)
        run(session, lambda state=state: session.courier.state == state)  # type: ignore[misc]


@pytest.mark.parametrize(
    "policy, sandbox, mode, perm_class",
    [
        ("never", "workspaceWrite", None, "bypass"),
        ("on-request", "dangerFullAccess", "default", "bypass"),
        ({"granular": {}}, "workspaceWrite", None, "prompting"),
        ("on-request", "readOnly", "bypassPermissions", "bypass"),
    ],
)
def test_its_class_is_the_freer_of_what_is_said(
    server: FakeAppServer,
    begin: Callable[[list[str]], Session],
    policy: object,
    sandbox: str,
    mode: str | None,
    perm_class: str,
) -> None:
    """4.3: approvals and sandbox, from the daemon and from hooks."""
    server.policy = {"approvalPolicy": policy, "sandbox": {"type": sandbox}}
    session = begin(DAEMON)
    session.note_origin({"threadId": THREAD}, ASKED)
    run(session, lambda: session.identity.delivery == "push")
    if mode is not None:
        fields = {"hook_event_name": "PermissionRequest", "session_id": THREAD, "permission_mode": mode}
        assert session.note_origin({"threadId": THREAD}, fields)
        session.hear(fields, lambda *_: None)
    assert session.identity.told_class == perm_class


def test_without_the_daemon_a_call_tells_the_sandbox(begin: Callable[[list[str]], Session]) -> None:
    session = begin(["/x/codex", "exec", "-"])
    assert session.is_known
    meta = {"threadId": THREAD, "callId": "c", "x-codex-turn-metadata": {"sandbox_mode": "danger-full-access"}}
    assert session.note_origin(meta, {})
    assert (session.identity.conversation, session.identity.told_class) == (THREAD, "bypass")
    assert session.identity.delivery == "pull"


def test_a_terminal_without_the_daemon_has_a_queue_once_hooks_run(begin: Callable[[list[str]], Session]) -> None:
    session = begin(["/x/codex", "--no-daemon"])
    fields = {"hook_event_name": "UserPromptSubmit", "session_id": THREAD, "prompt": "hello"}
    session.note_origin({"threadId": THREAD}, {})
    assert isinstance(session._door, Queue)
    assert session.identity.delivery == "pull"
    assert session.note_origin({"threadId": THREAD}, fields)
    session.hear(fields, lambda *_: None)
    assert session.identity.delivery == "push"


@pytest.fixture(autouse=True)
def _no_shim_stays() -> Iterator[None]:
    yield
    finish_all()


SUBAGENT = {
    "threadId": "t-sub",
    "sessionId": "t-main",
    "callId": "c",
    "x-codex-turn-metadata": {"thread_source": "subagent", "parent_thread_id": "t-main"},
}


def test_a_server_that_turns_out_to_be_a_subagents_is_no_session(broker: PrivateBroker) -> None:
    """1.9: it is not listed, takes nobody's mail, and still lists and sends."""
    broker.start()
    process = ShimProcess(broker, XSESSIOND_NAME="sub")
    process.initialize(client="codex-mcp-client")
    other = ShimProcess(broker, XSESSIOND_NAME="ann")
    other.initialize()
    other.call("list_agents")

    def call(tool: str, **arguments: object) -> dict[str, object]:
        result = process.ask("tools/call", {"name": tool, "arguments": arguments, "_meta": SUBAGENT})
        content: dict[str, object] = result["structuredContent"]
        return content

    listed = call("list_agents")
    assert [row["name"] for row in listed["sessions"]] == ["ann"]  # type: ignore[attr-defined]
    for tool, arguments in (("read_messages", {}), ("rename_session", {"name": "mine"})):
        assert call(tool, **arguments)["error"]["code"] == "not_permitted"  # type: ignore[index]
    assert call("send_message", to="ann", message="from a subagent")["state"] in ("queued", "held")
    hooked = process.ask("tools/call", {"name": "hook", "arguments": ASKED, "_meta": {"threadId": "t-sub"}})
    assert hooked["content"][0]["text"] == "{}"

"""The door into Codex: which conversation it leads to, what becomes of a text, and what it never does."""

from __future__ import annotations

import os
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.shim.fake_app_server import FakeAppServer, Refused, Silent
from xsessionctl.shim import loop
from xsessionctl.shim.codex import control_socket
from xsessionctl.shim.door import DELIVERED, GONE, REFUSED, WRITTEN
from xsessionctl.shim.doors import app_server
from xsessionctl.shim.doors.codex import CodexDoor

WITHIN_S = 10.0
THREAD = "01a22ee9-3ad9-7391-b9c3-40f0cf9a2025"
STEPS = {"thread/resume", "turn/start", "turn/steer", "thread/turns/list", "thread/unsubscribe"}


class Visitor:
    """Uses a door as the shim does, and keeps what it tells."""

    def __init__(self, door: CodexDoor, server: FakeAppServer) -> None:
        self.door, self.server = door, server
        self.told: list[str] = []
        self.statuses: list[str] = []
        self.changes: list[bool] = []
        door.on_status = self.statuses.append
        door.on_change = lambda: self.changes.append(door.is_open)

    def run(self, until: Callable[[], object]) -> None:
        """Lets the door work until something is so."""
        end = monotonic() + WITHIN_S
        while not until():
            assert monotonic() < end, (self.told, self.statuses)
            loop.wait([self.door], due=[monotonic() + 0.05])

    def run_until_asked(self, method: str) -> dict[str, Any]:
        """Lets the door work until it has asked for `method`; what it sent along."""
        found: list[dict[str, Any]] = []

        def asked() -> bool:
            try:
                name, params = self.server.asked.get_nowait()
            except queue.Empty:
                return False
            if name == method:
                found.append(params)
            return bool(found)

        self.run(asked)
        return found[0]

    def open(self) -> None:
        self.door.know(THREAD)
        self.door.reopen()
        self.run(lambda: self.door.is_open)

    def post(self, text: str = "hello", mode: str = "auto", *, busy: bool = False) -> None:
        self.door.post(text, busy=busy, mode=mode, done=self.told.append)

    def run_until_told(self, outcome: str) -> None:
        """Lets the door work until this became of the text."""
        self.run(lambda: outcome in self.told)

    def start(self, text: str = "hello") -> str:
        """Posts, and has the server accept it into the turn t1; the key of the text."""
        self.post(text)
        key = str(self.run_until_asked("turn/start")["clientUserMessageId"])
        self.run_until_told(WRITTEN)
        return key

    def steps(self) -> list[str]:
        """What was asked since the last look, without the finding."""
        found = []
        while not self.server.asked.empty():
            found.append(self.server.asked.get_nowait()[0])
        return [method for method in found if method in STEPS]


@pytest.fixture
def server() -> Iterator[FakeAppServer]:
    place = Path(tempfile.mkdtemp(prefix="xs-"))
    server = FakeAppServer(place / "s")
    yield server
    server.close()
    shutil.rmtree(place)


@pytest.fixture
def visitor(server: FakeAppServer) -> Iterator[Visitor]:
    server.add_thread(THREAD)
    door = CodexDoor(str(server.path), os.getpid())
    yield Visitor(door, server)
    door.close()


# -- finding -----------------------------------------------------------------------------------------------------------


def test_the_daemon_is_where_codex_home_says() -> None:
    assert control_socket({"CODEX_HOME": "/x"}.get) == "/x/app-server-control/app-server-control.sock"
    assert control_socket({}.get) == os.path.expanduser("~/.codex/app-server-control/app-server-control.sock")


def test_a_link_to_the_socket_is_followed(tmp_path: Path) -> None:
    """P8: the directory's own path may be longer than the address of a socket can be."""
    home = tmp_path / ("x" * 150)
    (home / "app-server-control").mkdir(parents=True)
    (home / "app-server-control" / "app-server-control.sock").symlink_to("/tmp/short")
    assert control_socket({"CODEX_HOME": str(home)}.get) == "/tmp/short"


def test_a_conversation_that_is_known_is_looked_up(visitor: Visitor) -> None:
    policies = []
    visitor.door.on_policy = lambda asks, confined: policies.append((asks, confined))
    visitor.server.policy = {"approvalPolicy": "on-request", "sandbox": {"type": "workspaceWrite"}}
    visitor.open()
    assert visitor.statuses == ["idle"]
    assert visitor.changes == [True]
    assert policies == [(True, True)]
    assert visitor.server.subscribed == set()


def test_one_that_is_not_known_is_called_by_name_in_every_thread_that_may_be_it(visitor: Visitor) -> None:
    visitor.server.add_thread("title", ephemeral=True)
    visitor.server.add_thread("subagent", parentThreadId=THREAD)
    visitor.server.add_thread("other")
    visitor.door.reopen()
    called = {visitor.run_until_asked("mcpServer/tool/call")["threadId"] for _ in range(2)}
    assert called == {THREAD, "other"}
    # And so is one that begins later, which Codex says to everybody.
    visitor.server.add_thread("later")
    visitor.server.tell("thread/started", thread=visitor.server.threads["later"])
    call = visitor.run_until_asked("mcpServer/tool/call")
    assert call == {
        "threadId": "later",
        "server": "xsession",
        "tool": "hook",
        "arguments": {"hook_event_name": "Identify"},
    }


def test_nobody_is_called_once_it_is_known(visitor: Visitor) -> None:
    visitor.open()
    visitor.server.tell("thread/started", thread=visitor.server.threads[THREAD])
    visitor.server.set_status(THREAD, "active")
    visitor.run(lambda: "busy" in visitor.statuses)
    assert "mcpServer/tool/call" not in [visitor.server.asked.get()[0] for _ in range(visitor.server.asked.qsize())]


def test_a_daemon_that_this_process_does_not_descend_from_is_left_alone(server: FakeAppServer) -> None:
    """Else a session of `codex exec` would look for its thread among somebody else's."""
    door = CodexDoor(str(server.path), os.getpid() + 1)
    door.know(THREAD)
    for _ in range(2):
        door.reopen()
        assert door.fileno() is None
    assert server.asked.empty()


def test_there_is_no_door_without_a_daemon(tmp_path: Path) -> None:
    door = CodexDoor(str(tmp_path / "none"), 1)
    door.reopen()
    assert (door.is_open, door.fileno(), door.due, door.wants_write) == (False, None, None, False)
    told: list[str] = []
    door.post("x", busy=False, mode="auto", done=told.append)
    assert told == [GONE]


def test_a_thread_that_is_not_loaded_there_or_takes_no_input_has_no_door(visitor: Visitor) -> None:
    for change in ({"status": {"type": "notLoaded"}}, {"canAcceptDirectInput": False}):
        visitor.server.threads[THREAD].update({"status": {"type": "idle"}, "canAcceptDirectInput": True})
        visitor.server.threads[THREAD].update(change)
        visitor.door.know(THREAD)
        visitor.door.reopen()
        visitor.run_until_asked("thread/read")
        visitor.server.tell("thread/started", thread={})
        assert not visitor.door.is_open
    del visitor.server.threads[THREAD]
    visitor.door.reopen()
    visitor.run_until_asked("thread/read")
    assert not visitor.door.is_open


# -- what Codex tells --------------------------------------------------------------------------------------------------


def test_what_the_conversation_does_is_told(visitor: Visitor) -> None:
    visitor.open()
    visitor.server.add_thread("other")
    visitor.server.set_status("other", "active")
    visitor.server.set_status(THREAD, "active")
    visitor.server.set_status(THREAD, "active", "waitingOnApproval")
    visitor.server.set_status(THREAD, "active", "waitingOnUserInput")
    visitor.server.set_status(THREAD, "idle")
    visitor.server.set_status(THREAD, "systemError")
    visitor.server.set_status(THREAD, "notLoaded")
    visitor.server.tell("thread/closed", threadId=THREAD)
    visitor.run(lambda: not visitor.door.is_open)
    assert visitor.statuses == ["idle", "busy", "waiting", "waiting", "idle", "idle"]
    assert visitor.changes == [True, False]


def test_what_codex_asks_its_clients_is_never_answered(visitor: Visitor) -> None:
    """S7: an approval is the user's to give, at the terminal. Codex asks all clients, also this one, while a text is
    under way."""
    visitor.open()
    key = visitor.start()
    visitor.server.ask("item/commandExecution/requestApproval", threadId=THREAD, command="rm -rf /")
    visitor.server.tell("item/started", threadId=THREAD, item={"type": "userMessage", "clientId": key})
    visitor.run(lambda: visitor.told)
    assert visitor.server.answered == []


def test_what_is_no_json_and_what_is_unknown_is_passed_over(visitor: Visitor) -> None:
    visitor.open()
    for connection in visitor.server.connections:
        for text in ("{", "[]", '"x"', '{"id": 99, "result": {}}', '{"id": "x", "result": {}}', '{"method": "new"}'):
            connection.send(text)
        connection.send(['{"method": "thread/status/changed", "params": {"threadId": ', f'"{THREAD}"', "}}"])
    visitor.server.set_status(THREAD, "active")
    visitor.run(lambda: "busy" in visitor.statuses)


# -- posting -----------------------------------------------------------------------------------------------------------


def test_a_text_is_delivered_when_it_is_in_the_turn(visitor: Visitor) -> None:
    """W1, W9: that the server took it is not enough."""
    visitor.open()
    visitor.post("hello")
    params = visitor.run_until_asked("turn/start")
    key = params.pop("clientUserMessageId")
    # Nothing else: no approval policy, no sandbox, no model.
    assert params == {"threadId": THREAD, "input": [{"type": "text", "text": "hello", "text_elements": []}]}
    assert visitor.server.subscribed == {THREAD}
    visitor.server.tell("item/started", threadId=THREAD, item={"type": "userMessage", "clientId": "somebody's"})
    visitor.server.set_status(THREAD, "active")
    visitor.run(lambda: "busy" in visitor.statuses)
    assert visitor.told == [WRITTEN]
    visitor.server.tell("item/started", threadId=THREAD, item={"type": "userMessage", "clientId": key})
    visitor.server.tell("turn/completed", threadId=THREAD, turn={"id": "t1", "status": "completed"})
    visitor.run_until_told(DELIVERED)
    assert visitor.told == [WRITTEN, DELIVERED]
    assert visitor.server.subscribed == set()  # else Codex would keep the thread for us
    assert visitor.door.is_open


def test_one_that_its_user_stopped_before_it_was_read_may_go_again(visitor: Visitor) -> None:
    """Codex forgets what had joined a turn and was not read when its user interrupts it."""
    visitor.open()
    visitor.start()
    visitor.server.set_status(THREAD, "idle")
    visitor.server.tell("turn/completed", threadId=THREAD, turn={"id": "t0", "status": "completed"})
    visitor.server.tell("turn/completed", threadId=THREAD, turn={"id": "t1", "status": "interrupted"})
    visitor.run_until_told(REFUSED)
    assert visitor.told == [WRITTEN, REFUSED]
    assert visitor.door.is_open
    assert visitor.steps()[-1:] == ["thread/unsubscribe"]


def test_a_turn_that_ended_before_its_start_was_answered_is_not_waited_for(visitor: Visitor) -> None:
    visitor.open()

    def start(_: object) -> Any:
        visitor.server.tell("turn/completed", threadId=THREAD, turn={"id": "t1", "status": "interrupted"})
        return {"turn": {"id": "t1"}}

    visitor.server.answers["turn/start"] = start
    visitor.post()
    visitor.run_until_told(REFUSED)
    assert visitor.told == [WRITTEN, REFUSED]


def test_where_no_text_gets_through_the_door_closes(visitor: Visitor) -> None:
    """W7, W17: a hook of the user's may keep prompts out; it is not tried again and again."""
    visitor.open()
    visitor.start()
    visitor.server.tell("turn/completed", threadId=THREAD, turn={"id": "t1", "status": "completed"})
    visitor.run_until_told(GONE)
    assert not visitor.door.is_open
    assert visitor.door.due is not None  # it is tried again by itself
    visitor.door.tick(visitor.door.due)
    assert visitor.door.is_open


def test_the_first_turn_of_a_thread_may_be_begun_by_a_text(visitor: Visitor) -> None:
    """W13: Codex lets nobody subscribe to a thread that had no turn yet, so that is done when there is one, and what
    happened before is looked up."""
    subscribe = visitor.server.answers["thread/resume"]

    def refuse(_: object) -> Any:
        raise Refused(f"no rollout found for thread id {THREAD}")

    def start(params: dict[str, Any]) -> Any:
        visitor.server.answers["thread/resume"] = subscribe
        item = {"type": "userMessage", "clientId": params["clientUserMessageId"]}
        visitor.server.answers["thread/items/list"] = lambda _: {"data": [{"item": {"type": "x"}}, {"item": item}]}
        return {"turn": {"id": "t1"}}

    visitor.server.answers["thread/resume"] = refuse
    visitor.server.answers["turn/start"] = start
    visitor.open()
    visitor.post()
    visitor.run_until_told(DELIVERED)
    assert visitor.told == [WRITTEN, DELIVERED]
    assert visitor.server.subscribed == set()


def test_what_it_may_do_is_asked_again_with_every_turn(visitor: Visitor) -> None:
    """4.3: its user may change that at any time, and Codex tells nobody."""
    policies = []
    visitor.door.on_policy = lambda asks, confined: policies.append((asks, confined))
    visitor.open()
    visitor.server.policy = {"approvalPolicy": "never", "sandbox": {"type": "dangerFullAccess"}}
    visitor.server.set_status(THREAD, "active")
    visitor.run(lambda: policies[-1:] == [(False, False)])
    visitor.run(lambda: visitor.server.subscribed == set())


@pytest.mark.parametrize(
    "told, policies",
    [
        ({}, []),
        ({"approvalPolicy": "on-request"}, []),
        ({"sandbox": {"type": "workspaceWrite"}}, []),
        ({"sandbox": {"type": "dangerFullAccess"}}, [(True, False)]),
        ({"approvalPolicy": "never"}, [(False, True)]),
        ({"approvalPolicy": {"granular": {}}, "sandbox": {"type": "readOnly"}}, [(True, True)]),
    ],
)
def test_a_codex_that_does_not_say_what_a_session_may_is_not_taken_for_one_that_asks(
    visitor: Visitor, told: dict[str, object], policies: list[tuple[bool, bool]]
) -> None:
    """4.2, 4.3: of an unknown class it holds; one word for acting without asking is enough."""
    seen: list[tuple[bool, bool]] = []
    visitor.door.on_policy = lambda asks, confined: seen.append((asks, confined))
    visitor.server.policy = told
    visitor.open()
    assert seen == policies


def test_a_text_waits_for_what_is_asked_before(visitor: Visitor) -> None:
    """Else the end of that subscription would be the end of this one."""
    visitor.open()
    visitor.steps()
    visitor.server.set_status(THREAD, "active")
    visitor.run(lambda: "busy" in visitor.statuses)
    visitor.post()
    visitor.run(lambda: WRITTEN in visitor.told)
    assert visitor.steps() == [
        "thread/resume",
        "thread/unsubscribe",
        "thread/resume",
        "thread/turns/list",
        "turn/start",
    ]
    assert visitor.server.subscribed == {THREAD}


def test_a_thread_that_is_gone_closes_the_door(visitor: Visitor) -> None:
    visitor.open()
    del visitor.server.threads[THREAD]
    visitor.post()
    visitor.run(lambda: visitor.told)
    assert visitor.told == [GONE]
    assert not visitor.door.is_open


def test_a_server_that_does_not_take_it_now_may_be_asked_again(visitor: Visitor) -> None:
    def refuse(_: object) -> Any:
        raise Refused("Server overloaded; retry later.")

    visitor.open()
    visitor.server.answers["turn/start"] = refuse
    visitor.post()
    visitor.run(lambda: visitor.told)
    assert visitor.told == [REFUSED]
    assert visitor.door.is_open


def join_running(visitor: Visitor, mode: str = "auto") -> None:
    """Posts into the turn t7, in which it listens from then on."""
    visitor.open()
    visitor.server.turns = [{"id": "t0", "status": "completed"}, {"id": "t7", "status": "inProgress"}]
    visitor.post(mode=mode, busy=True)
    visitor.run_until_asked("thread/turns/list")


def begin_item(visitor: Visitor, kind: str) -> None:
    visitor.server.tell("item/started", threadId=THREAD, turnId="t7", item={"type": kind})


def answer_is_complete(visitor: Visitor) -> None:
    visitor.server.tell("thread/tokenUsage/updated", threadId=THREAD, turnId="t7", tokenUsage={})


def test_a_text_waits_until_the_model_has_answered_and_its_tools_are_done(visitor: Visitor) -> None:
    """W4, 7.2: Codex would give up the request that is open."""
    join_running(visitor)
    begin_item(visitor, "reasoning")
    begin_item(visitor, "commandExecution")
    visitor.server.set_status(THREAD, "active")
    visitor.run(lambda: "busy" in visitor.statuses)
    assert visitor.told == []
    answer_is_complete(visitor)
    visitor.run_until_asked("turn/start")
    visitor.run_until_told(WRITTEN)


def test_a_text_joins_beside_a_tool_that_runs_on(visitor: Visitor) -> None:
    """W4: so that it is in the next request, which need not be made twice."""
    join_running(visitor)
    begin_item(visitor, "mcpToolCall")
    visitor.run_until_asked("turn/start")


def test_a_text_begins_a_turn_of_its_own_after_the_last_answer(visitor: Visitor) -> None:
    join_running(visitor)
    begin_item(visitor, "agentMessage")
    answer_is_complete(visitor)
    visitor.server.tell("turn/completed", threadId=THREAD, turn={"id": "t7", "status": "completed"})
    visitor.run_until_asked("turn/start")
    visitor.run_until_told(WRITTEN)
    assert visitor.told == [WRITTEN]  # the turn that ended was another


def test_a_turn_that_ended_while_it_was_asked_for_is_not_waited_for(visitor: Visitor) -> None:
    def list_turns(_: object) -> Any:
        visitor.server.tell("turn/completed", threadId=THREAD, turn={"id": "t7", "status": "completed"})
        return {"data": [{"id": "t7", "status": "inProgress"}]}

    visitor.open()
    visitor.server.answers["thread/turns/list"] = list_turns
    visitor.post(busy=True)
    visitor.run_until_asked("turn/start")


def test_what_waits_for_its_moment_goes_back_when_the_way_is_lost(visitor: Visitor) -> None:
    """L4: nothing of it was written, and that is known."""
    join_running(visitor)
    visitor.server.hang_up()
    visitor.run(lambda: visitor.told)
    assert visitor.told == [GONE]


def test_a_connection_that_breaks_before_it_is_known_what_runs_has_written_nothing(visitor: Visitor) -> None:
    def hang_up(_: object) -> Any:
        visitor.server.hang_up()
        raise Silent

    visitor.open()
    visitor.server.answers["thread/turns/list"] = hang_up
    visitor.post()
    visitor.run(lambda: visitor.told)
    assert visitor.told == [GONE]


def test_a_steering_text_whose_turn_ends_begins_none(visitor: Visitor) -> None:
    """3.6: `inject` and `steer` start no turn."""
    join_running(visitor, "steer")
    visitor.server.tell("turn/completed", threadId=THREAD, turn={"id": "t7", "status": "completed"})
    visitor.run_until_told(REFUSED)
    assert not {"turn/start", "turn/steer"}.intersection(visitor.steps())


def test_a_steering_text_waits_for_a_thread_to_have_its_first_turn(visitor: Visitor) -> None:
    def refuse(_: object) -> Any:
        raise Refused(f"no rollout found for thread id {THREAD}")

    visitor.server.answers["thread/resume"] = refuse
    visitor.open()
    visitor.post(mode="inject")
    visitor.run_until_told(REFUSED)
    assert "turn/start" not in visitor.steps()


@pytest.mark.parametrize("mode", ["inject", "steer"])
def test_a_steering_text_goes_into_the_turn_that_runs(visitor: Visitor, mode: str) -> None:
    join_running(visitor, mode)
    begin_item(visitor, "fileChange")
    answer_is_complete(visitor)
    params = visitor.run_until_asked("turn/steer")
    assert params["expectedTurnId"] == "t7"
    item = {"type": "userMessage", "clientId": params["clientUserMessageId"]}
    visitor.server.tell("item/started", threadId=THREAD, item=item)
    visitor.run_until_told(DELIVERED)


@pytest.mark.parametrize("turns", [[], [{"id": "t0", "status": "completed"}]])
def test_a_steering_text_starts_no_turn(visitor: Visitor, turns: list[dict[str, Any]]) -> None:
    visitor.open()
    visitor.server.turns = turns
    visitor.post(mode="steer", busy=True)
    visitor.run(lambda: visitor.told)
    assert visitor.told == [REFUSED]
    assert "turn/start" not in visitor.steps()


@pytest.mark.slow
def test_a_connection_that_breaks_leaves_it_unknown_what_became_of_a_text(visitor: Visitor) -> None:
    """L4: unknown is not failed."""
    visitor.open()
    visitor.start()
    visitor.server.hang_up()
    visitor.run(lambda: not visitor.door.is_open)
    assert visitor.told == [WRITTEN]
    visitor.run(lambda: visitor.door.is_open)  # it connects again by itself
    visitor.post("more")
    visitor.run_until_asked("turn/start")


def test_a_server_that_says_goodbye_is_heard(visitor: Visitor) -> None:
    """It may still hold the connection open then; nothing more can be asked of it."""
    visitor.open()
    for connection in visitor.server.connections:
        connection.protocol.send_close(1001)
        connection.socket.sendall(b"".join(connection.protocol.data_to_send()))
    visitor.run(lambda: not visitor.door.is_open)
    visitor.post()
    assert visitor.told == [GONE]
    visitor.run(lambda: visitor.door.is_open)


@pytest.mark.parametrize("method, outcome", [("thread/resume", GONE), ("turn/start", WRITTEN)])
def test_no_answer_is_not_waited_for_for_ever(
    visitor: Visitor, method: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(_: object) -> Any:
        raise Silent

    visitor.open()
    visitor.server.answers[method] = wait
    visitor.post()
    visitor.run_until_asked(method)
    assert visitor.door.due is not None
    visitor.door.tick(monotonic() + app_server.CALL_S + 1)
    visitor.run(lambda: visitor.told)
    assert visitor.told == [outcome]


def test_a_text_that_left_no_trace_shuts_the_door_for_a_while(visitor: Visitor) -> None:
    """W17: who posts has waited long enough."""
    visitor.open()
    visitor.door.shut()
    assert not visitor.door.is_open
    visitor.door.reopen()
    assert visitor.door.is_open
    visitor.door.shut()
    assert visitor.door.due is not None
    visitor.door.tick(visitor.door.due)
    assert visitor.door.is_open


def test_two_texts_are_never_under_way(visitor: Visitor) -> None:
    """W7."""
    visitor.open()
    visitor.start()
    visitor.post("more")
    assert visitor.told[-1] == REFUSED


def test_the_end_of_the_thread_ends_what_is_under_way(visitor: Visitor) -> None:
    visitor.open()
    visitor.start()
    visitor.server.tell("thread/closed", threadId=THREAD)
    visitor.run(lambda: not visitor.door.is_open)
    assert not visitor.door.is_busy
    assert visitor.told == [WRITTEN]


def test_nothing_is_told_after_the_end(visitor: Visitor) -> None:
    visitor.open()
    visitor.start()
    visitor.door.close()
    assert visitor.told == [WRITTEN]
    assert visitor.door.fileno() is None


# -- the connection ----------------------------------------------------------------------------------------------------


def test_a_server_that_speaks_something_else_is_given_up() -> None:
    place = Path(tempfile.mkdtemp(prefix="xs-"))
    path = str(place / "s")
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(path)
        listener.listen()
        for answer in (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", b"\x00" * 99 + b"\r\n\r\n", b""):
            door = CodexDoor(path, os.getpid())
            door.know(THREAD)
            door.reopen()
            link, _ = listener.accept()
            if answer:
                link.sendall(answer)
            else:
                link.close()
            end = monotonic() + WITHIN_S
            while door.fileno() is not None:
                assert monotonic() < end
                loop.wait([door], due=[monotonic() + 0.05])
            link.close()
            door.close()
        door = CodexDoor(path, os.getpid())
        door.reopen()  # and one that says nothing
        assert door.due is not None
        door.tick(door.due)
        for _ in range(2):
            listener.accept()[0].close()  # it has been given up, and is tried again
        door.close()
    finally:
        listener.close()
        shutil.rmtree(place)


def test_a_server_that_does_not_want_this_client_is_given_up(visitor: Visitor) -> None:
    def refuse(_: object) -> Any:
        raise Refused("Not you.")

    visitor.server.answers["initialize"] = refuse
    visitor.door.reopen()
    visitor.run(lambda: visitor.door.fileno() is None)
    assert not visitor.door.is_open


def test_a_text_longer_than_the_socket_takes_at_once_arrives_whole(visitor: Visitor) -> None:
    visitor.open()
    visitor.post("ä" * 500_000)
    params = visitor.run_until_asked("turn/start")
    assert params["input"][0]["text"] == "ä" * 500_000


def test_the_library_is_loaded_only_when_a_door_is_opened() -> None:
    code = "import sys, xsessionctl.shim.doors.codex; print('websockets' in sys.modules, 'asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == [
        "False",
        "False",
    ]

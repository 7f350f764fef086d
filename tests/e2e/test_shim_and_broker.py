"""The real shim and the real broker while either of them dies."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.shim.process import SHIM, WITHIN_S, ShimProcess, ended_within, finish_all, texts
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import poll

HARNESS_THAT_RESTARTS = "import subprocess, sys\nwhile subprocess.call(sys.argv[1:]): pass"
"""A harness that starts its MCP server again when it dies, on the same pipes."""


@pytest.fixture(autouse=True)
def _no_shim_stays(broker: PrivateBroker) -> Iterator[None]:
    yield
    finish_all()


def _start(place: PrivateBroker, name: str, *argv: str) -> ShimProcess:
    process = ShimProcess(place, *argv, XSESSIOND_NAME=name)
    process.initialize()
    return process


def _own_id(process: ShimProcess) -> str:
    own: str = process.call("list_agents")["structuredContent"]["self"]["id"]
    return own


def _broker_pid(place: PrivateBroker) -> int:
    pid: int = json.loads(place.ctl("status", "--json").stdout)["broker"]["pid"]
    return pid


def test_the_first_shim_starts_the_broker_and_the_broker_outlives_it(broker: PrivateBroker) -> None:
    first = _start(broker, "api")
    _own_id(first)
    pid = _broker_pid(broker)
    assert psutil.Process(pid).ppid() != first.shim().pid
    first.finish()
    second = _start(broker, "web")
    assert {row["name"] for row in second.call("list_agents")["structuredContent"]["sessions"]} == {"web"}
    assert _broker_pid(broker) == pid


def test_many_shims_that_start_at_once_share_one_broker(broker: PrivateBroker) -> None:
    """P1 and P2 from the shim's side: all find the same broker, whichever of them started it."""
    shims = [_start(broker, f"agent-{number}") for number in range(8)]
    requests = [shim.post_call("list_agents") for shim in shims]
    for shim, request in zip(shims, requests, strict=True):
        assert shim.answer(request)["isError"] is False
    rows = shims[0].call("list_agents")["structuredContent"]["sessions"]
    assert {row["name"] for row in rows} == {f"agent-{number}" for number in range(8)}


@pytest.mark.slow
def test_a_killed_broker_is_replaced_by_the_next_call_and_nothing_is_lost(broker: PrivateBroker) -> None:
    """D3, W22: same ids, same mail, each message once, over kill -9 of the broker."""
    api, web = _start(broker, "api"), _start(broker, "web")
    ids = _own_id(api), _own_id(web)
    for number in range(3):
        assert api.call("send_message", to="web", message=f"text {number}")["isError"] is False
        os.kill(_broker_pid(broker), signal.SIGKILL)
    read = web.call("read_messages")["structuredContent"]["messages"]
    os.kill(_broker_pid(broker), signal.SIGKILL)
    read += web.call("read_messages")["structuredContent"]["messages"]
    assert [message["text"] for message in read] == ["text 0", "text 1", "text 2"]
    assert (_own_id(api), _own_id(web)) == ids
    states = api.call("check_delivery")["structuredContent"]["messages"]
    assert {message["state"] for message in states} == {"delivered"}


@pytest.mark.slow
def test_a_call_is_in_the_air_while_the_broker_dies(broker: PrivateBroker) -> None:
    api, web = _start(broker, "api"), _start(broker, "web")
    _own_id(web)
    for number in range(5):
        _own_id(api)  # there is a broker again, also if the one before had answered when it was killed
        pid = _broker_pid(broker)
        request = api.post_call("send_message", to="web", message=f"text {number}")
        os.kill(pid, signal.SIGKILL)
        assert api.answer(request)["isError"] is False
    read = web.call("read_messages")["structuredContent"]["messages"]
    assert [message["text"] for message in read] == [f"text {number}" for number in range(5)]


def test_a_shim_that_dies_between_lease_and_acknowledgement_gives_the_mail_back(broker: PrivateBroker) -> None:
    """W9, W22: kill -9 of the shim while its client has half of the result. The harness starts it again: it is the same
    session, and the message comes once more under the same id."""
    api = _start(broker, "api")
    env = {"XSESSIOND_NAME": "web", "XSESSIOND_CLASS": "prompting"}
    web = broker.spawn(sys.executable, "-c", HARNESS_THAT_RESTARTS, *SHIM, **env)
    assert web.stdin is not None
    assert web.stdout is not None
    own = _exchange(web, "list_agents")["self"]["id"]
    body = "x" * 900_000  # far more than a pipe holds, so that writing it cannot end before it is read
    message_id = api.call("send_message", to="web", message=body)["structuredContent"]["id"]
    web.stdin.write(_calls("read_messages"))
    web.stdin.flush()
    assert select.select([web.stdout], [], [], WITHIN_S)[0]
    (shim,) = psutil.Process(web.pid).children()
    shim.kill()
    psutil.wait_procs([shim], WITHIN_S)
    os.read(web.stdout.fileno(), 1 << 20)  # the half that had come
    assert api.call("check_delivery", message_id=message_id)["structuredContent"]["state"] == "queued"
    again = _exchange(web, "list_agents")
    assert again["self"]["id"] == own
    assert len(again["mail"]) == 1
    assert message_id in again["mail"][0]
    assert _exchange(web, "read_messages")["messages"] == []
    assert api.call("check_delivery", message_id=message_id)["structuredContent"]["state"] == "delivered"
    web.stdin.close()
    assert web.wait(WITHIN_S) == 0


def test_a_dead_harness_is_off_the_roster_and_a_send_to_it_says_so(broker: PrivateBroker) -> None:
    """D1: kill -9 of the harness alone; its pipes stay open, for the test holds them."""
    api, web = _start(broker, "api"), _start(broker, "web")
    _own_id(api), _own_id(web)
    shim = web.shim()
    web.kill_harness()
    assert ended_within(shim, 2.0)
    listed = api.call("list_agents")["structuredContent"]["sessions"]
    assert [row["name"] for row in listed] == ["api"]
    refused = api.call("send_message", to="web", message="still there?")
    assert refused["structuredContent"]["error"]["code"] == "not_running"
    assert api.call("check_delivery")["structuredContent"]["messages"] == []


@pytest.mark.slow
@pytest.mark.parametrize("over", ["its harness is killed", "its input ends"])
def test_one_that_waits_for_a_reply_does_not_come_back_when_all_is_over(broker: PrivateBroker, over: str) -> None:
    """1.4, D1: the call that loses its link with the session must not register it again, for nobody."""
    bob = _start(broker, "bob")
    _own_id(bob)
    for number in range(3):
        ann = _start(broker, "ann")
        ann.post_call("send_message", to="bob", message=f"question {number}", wait_reply=60)
        poll(lambda: bob.call("read_messages")["structuredContent"]["messages"], bool)
        shim = ann.shim()
        if over == "its input ends":
            ann.close()
        else:
            ann.kill_harness()
        assert ended_within(shim, WITHIN_S)
        rows = bob.call("list_agents")["structuredContent"]["sessions"]
        assert [row["name"] for row in rows] == ["bob"]


def test_two_conversations_in_one_folder_have_two_inboxes(broker: PrivateBroker) -> None:
    """N11, as shims see it: the same folder and harness, two sessions; what one reads the other does not."""
    one, other, api = (ShimProcess(broker) for _ in range(3))
    for process in (one, other, api):
        process.initialize()
    ids = {_own_id(one), _own_id(other)}
    assert len(ids) == 2
    api.call("send_message", to=_own_id(one), message="for one alone")
    assert other.call("read_messages")["structuredContent"]["messages"] == []
    assert len(one.call("read_messages")["structuredContent"]["messages"]) == 1


def test_a_wait_for_a_reply_ends_with_it_and_an_aborted_one_leaves_it_as_mail(broker: PrivateBroker) -> None:
    api, web = _start(broker, "api"), _start(broker, "web")
    _own_id(api), _own_id(web)
    request = api.post_call("send_message", to="web", message="first?", wait_reply=30)
    first = _next_message(web)
    web.call("send_message", reply_to=first, message="one")
    answer = api.answer(request)
    assert answer["structuredContent"]["reply"]["text"] == "one"
    assert "| one" in texts(answer)[1]
    request = api.post_call("send_message", to="web", message="second?", wait_reply=30)
    second = _next_message(web)
    api.notify("notifications/cancelled", {"requestId": request})
    # The other shim acknowledges once it has written its answer out, which is after that could be read.
    poll(
        lambda: api.call("check_delivery", message_id=second)["structuredContent"]["state"],
        lambda state: state == "delivered",
    )
    web.call("send_message", reply_to=second, message="two")
    assert [message["text"] for message in api.call("read_messages")["structuredContent"]["messages"]] == ["two"]


def _next_message(process: ShimProcess) -> str:
    """The id of the next message that comes, which another process is about to send."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        messages = process.call("read_messages")["structuredContent"]["messages"]
        if messages:
            message_id: str = messages[0]["id"]
            return message_id
    raise AssertionError("no message came")


def _calls(tool: str) -> bytes:
    frame = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
    return json.dumps(frame).encode() + b"\n"


def _exchange(process: subprocess.Popen[bytes], tool: str) -> Any:
    """A tool call without a handshake, and its structured result."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(_calls(tool))
    process.stdin.flush()
    return json.loads(process.stdout.readline())["result"]["structuredContent"]

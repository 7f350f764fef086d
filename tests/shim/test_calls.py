"""Tool calls over a link that only notes what it is asked: the moments that are too short to be met from outside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.shim.fake_broker import make_message
from tests.shim.noted_link import NotedLink
from xsessionctl.shim.broker_link import UP
from xsessionctl.shim.calls import Calls
from xsessionctl.shim.courier import Courier
from xsessionctl.shim.identity import Identity
from xsessionctl.shim.mail import Mailbag
from xsessionctl.shim.outlet import Outlet
from xsessionctl.shim.protocol import Call, Cancel, Protocol
from xsessionctl.shim.tools import list_tools
from xsessiond.core.limits import MAX_WAIT_S, RESUME_WITHIN_S, SHIM_BEAT_S, SHIM_BROKER_S


class Rig:
    """All parts of a shim but its loop; the output goes into a pipe."""

    def __init__(self, state: str = UP, **environ: str) -> None:
        self.readable, self.writable = os.pipe()
        os.set_blocking(self.readable, False)
        identity = Identity(environ, "/", [(1, ["x"])])
        self.link = NotedLink(identity, state)
        self.outlet = Outlet(self.writable)
        self.protocol = Protocol(list_tools, "")
        bag = Mailbag()
        courier = Courier(identity, self.link, bag)
        self.calls = Calls(identity, self.link, self.outlet, self.protocol, bag, courier)

        def link_is_up(queued: int) -> None:
            courier.link_is_up(queued)
            self.calls.link_is_up()

        self.link.on_up = link_is_up
        self.last_id = 0

    def call(self, tool: str, token: object = None, **arguments: Any) -> Call:
        self.last_id += 1
        params: dict[str, object] = {"name": tool, "arguments": arguments}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        frame = {"jsonrpc": "2.0", "id": self.last_id, "method": "tools/call", "params": params}
        (call,) = self.protocol.receive(json.dumps(frame).encode())
        assert isinstance(call, Call)
        self.calls.start(call)
        return call

    def cancel(self, call: Call) -> None:
        params = {"requestId": call.id}
        frame = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        for event in self.protocol.receive(json.dumps(frame).encode()):
            assert isinstance(event, Cancel)
            self.calls.cancel(event.call)

    def written(self) -> list[Any]:
        """Writes what waits, and gives the results in it back."""
        return [frame["result"] for frame in self.frames() if "result" in frame]

    def frames(self) -> list[Any]:
        """Writes what waits and gives it back."""
        data = b""
        while self.outlet.waiting:
            self.outlet.write_some()
            data += os.read(self.readable, 1 << 16)
        return [json.loads(line) for line in data.splitlines()]

    def close(self) -> None:
        for fd in (self.readable, self.writable):
            os.close(fd)


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


@pytest.fixture
def lonely() -> Iterator[Rig]:
    """Without a link."""
    rig = Rig("trying")
    yield rig
    rig.close()


LISTED: dict[str, Any] = {"self": None, "sessions": [], "incomplete": []}
MAIL = {"messages": [make_message("m-1", "hello")], "receipts": [], "left": 0}


def test_mail_that_was_queued_for_writing_goes_back_when_its_call_is_cancelled(rig: Rig) -> None:
    call = rig.call("read_messages")
    rig.link.answer(MAIL)
    rig.cancel(call)  # the result stands in the queue, and nothing of it has gone
    assert rig.link.told == [("release", {"ids": ["m-1"]})]
    assert rig.written() == []
    assert not rig.calls.running


def test_mail_that_has_begun_to_be_written_is_not_taken_back(rig: Rig) -> None:
    call = rig.call("read_messages")
    rig.link.answer({"messages": [make_message("m-1", "x" * 9000)], "left": 0})
    rig.outlet.write_some()
    rig.cancel(call)
    rig.written()
    assert rig.link.told == []
    assert rig.link.asked[-1][:2] == ("ack", {"ids": ["m-1"]})


def test_mail_that_comes_after_the_cancelling_goes_back(rig: Rig) -> None:
    call = rig.call("list_agents")
    rig.link.answer(LISTED)
    rig.cancel(call)
    rig.link.answer({**MAIL, "receipts": [{"text": "It expired."}]})
    assert rig.link.told == [("release", {"ids": ["m-1"]})]
    rig.call("list_agents")
    rig.link.answer(LISTED)
    rig.link.answer({})
    (result,) = rig.written()
    assert result["structuredContent"]["news"] == ["It expired."]  # news is told once, if later


@pytest.mark.parametrize("when", ["before the answer", "while mail is fetched", "before it is written"])
def test_a_reply_goes_back_when_its_call_is_cancelled(rig: Rig, when: str) -> None:
    """8.2, W9: aborting ends the wait; the reply comes as a message, at whichever moment that was."""
    call = rig.call("send_message", to="web", message="?", wait_reply=10)
    answer = {"id": "m-1", "state": "replied", "reply": {"message": make_message("m-9", "8080")}}
    if when == "before the answer":
        rig.cancel(call)
    rig.link.answer(answer)
    if when == "while mail is fetched":
        rig.cancel(call)
    if when != "before the answer":
        rig.link.answer(MAIL)
    if when == "before it is written":
        rig.cancel(call)
    released = [message_id for method, params in rig.link.told if method == "release" for message_id in params["ids"]]
    assert sorted(released) == (["m-9"] if when == "before the answer" else ["m-1", "m-9"])
    assert rig.written() == []
    assert not rig.calls.running


def test_mail_goes_back_when_nobody_reads_any_more(rig: Rig) -> None:
    rig.call("read_messages")
    rig.link.answer(MAIL)
    rig.outlet.fail()
    assert rig.link.told == [("release", {"ids": ["m-1"]})]


def test_a_call_that_waits_for_the_link_can_be_cancelled(lonely: Rig) -> None:
    call = lonely.call("send_message", to="web", message="x")
    assert lonely.link.wanted == 1
    lonely.cancel(call)
    lonely.link.state = UP
    lonely.calls.link_is_up()
    assert lonely.link.asked == []


def test_cancelling_a_send_ends_the_broker_s_wait(rig: Rig) -> None:
    rig.cancel(rig.call("send_message", to="web", message="?", wait_reply=10))
    assert rig.link.told == [("cancel", {"id": 1})]


@pytest.mark.parametrize(
    "tool, arguments, words",
    [
        ("list_agents", {}, "nothing was done"),
        ("send_message", {"to": "web", "message": "x"}, "nothing was sent"),
    ],
)
def test_a_broker_that_does_not_come_is_reported_in_time(
    lonely: Rig, tool: str, arguments: dict[str, str], words: str
) -> None:
    lonely.call(tool, **arguments)
    due = lonely.calls.due
    assert due is not None
    lonely.calls.tick(due - 0.1)
    assert lonely.calls.running
    lonely.calls.tick(due)
    (result,) = lonely.written()
    assert result["structuredContent"]["error"]["code"] == "no_broker"
    assert words in result["content"][0]["text"]


def test_a_send_whose_fate_is_not_known_says_that(rig: Rig) -> None:
    """L4: unknown is not failed."""
    rig.call("send_message", to="web", message="x")
    rig.link.answer(None)  # the link broke after it was asked
    rig.link.state = "trying"
    due = rig.calls.due
    assert due is not None
    assert rig.link.wanted == 1
    rig.calls.tick(due + SHIM_BROKER_S)
    (result,) = rig.written()
    assert "is not known" in result["content"][0]["text"]


def test_a_call_that_lost_its_link_is_asked_again_as_it_was(rig: Rig) -> None:
    rig.call("send_message", to="web", message="x")
    rig.link.answer(None)
    rig.calls.link_is_up()
    (_, first, _), (_, second, _) = rig.link.asked
    assert first == second


def test_a_refusal_to_take_the_session_ends_what_waits(lonely: Rig) -> None:
    lonely.call("list_agents")
    lonely.calls.link_has_problem({"code": "bad_config", "text": "No."})
    (result,) = lonely.written()
    assert result["isError"] is True
    assert not lonely.calls.running


def test_trouble_with_the_mail_does_not_spoil_the_answer(rig: Rig) -> None:
    rig.call("list_agents")
    rig.link.answer(LISTED)
    rig.link.answer(None, {"code": "timeout", "text": "…"})
    (result,) = rig.written()
    assert result["isError"] is False
    assert "mail" not in result["structuredContent"]


def test_what_did_not_fit_is_counted_and_given_back(rig: Rig) -> None:
    rig.call("list_agents")
    rig.link.answer(LISTED)
    rig.link.answer({"messages": [make_message(f"m-{n}", "x" * 30_000) for n in range(3)], "left": 4})
    (result,) = rig.written()
    assert len(result["structuredContent"]["mail"]) == 1
    assert result["structuredContent"]["news"] == ["6 more messages wait: call read_messages."]
    assert rig.link.told == [("release", {"ids": ["m-1", "m-2"]})]


def test_notices_of_the_broker_are_told_once(rig: Rig) -> None:
    rig.link.notices.append('You are called "api-2".')
    for expected in (['You are called "api-2".'], None):
        rig.call("list_agents")
        rig.link.answer(LISTED)
        rig.link.answer({})
        (result,) = rig.written()
        assert result["structuredContent"].get("news") == expected


def test_a_wait_is_kept_below_what_the_harness_allows(rig: Rig) -> None:
    rig.call("send_message", to="web", message="?", wait_reply=120)
    assert rig.link.asked[0][1]["wait_reply"] == 50


def test_an_unconfirmed_acknowledgement_is_repeated_when_the_link_is_back(rig: Rig) -> None:
    rig.call("read_messages")
    rig.link.answer(MAIL)
    rig.written()
    rig.link.answer(None)  # the broker died with the acknowledgement
    rig.calls.link_is_up()
    assert rig.link.asked[-1][:2] == ("ack", {"ids": ["m-1"]})
    rig.link.answer({"acked": 1})
    before = len(rig.link.asked)
    rig.calls.link_is_up()
    assert len(rig.link.asked) == before


# -- long calls --------------------------------------------------------------------------------------------------------


def beats(rig: Rig) -> list[Any]:
    """The words of progress that were written."""
    return [frame["params"] for frame in rig.frames() if frame.get("method") == "notifications/progress"]


def pass_beats(rig: Rig, count: int) -> None:
    for _ in range(count):
        due = rig.calls.due
        assert due is not None
        rig.calls.tick(due)


@pytest.mark.parametrize("token", ["t-1", "", 0, 7])
def test_a_client_that_asks_for_it_hears_that_a_call_goes_on(rig: Rig, token: object) -> None:
    """8.2: every ten seconds, under its token, with a number that grows, until the result."""
    call = rig.call("send_message", token, to="web", message="?", wait_reply=60)
    due = rig.calls.due
    assert due is not None
    rig.calls.tick(due - 0.1)
    assert beats(rig) == []
    pass_beats(rig, 1)
    assert beats(rig) == [{"progressToken": token, "progress": 1}]
    again = rig.calls.due
    assert again is not None
    assert again == pytest.approx(due + SHIM_BEAT_S)
    pass_beats(rig, 1)
    assert beats(rig) == [{"progressToken": token, "progress": 2}]
    rig.link.answer({"id": "m-1", "state": "replied"})
    rig.link.answer({})
    assert rig.calls.due is None
    assert len(rig.written()) == 1
    assert not rig.calls.running
    assert call.progress_token == token


@pytest.mark.parametrize("token", [None, True, 1.5, [], {"a": 1}])
def test_a_client_that_does_not_ask_hears_nothing(rig: Rig, token: object) -> None:
    rig.call("send_message", token, to="web", message="?", wait_reply=60)
    assert rig.calls.due is None


def test_a_client_that_does_not_read_is_told_nothing_more(rig: Rig) -> None:
    rig.call("send_message", "t", to="web", message="?", wait_reply=60)
    pass_beats(rig, 5)
    assert beats(rig) == [{"progressToken": "t", "progress": 1}]
    pass_beats(rig, 1)
    assert beats(rig) == [{"progressToken": "t", "progress": 2}]


def test_a_call_that_was_cancelled_is_not_told_of(rig: Rig) -> None:
    rig.cancel(rig.call("send_message", "t", to="web", message="?", wait_reply=60))
    assert rig.calls.due is None


def test_a_call_without_a_broker_is_told_of_too(lonely: Rig) -> None:
    """As long as it goes on, which is not for long."""
    lonely.call("send_message", "t", to="web", message="?", wait_reply=60)
    while (due := lonely.calls.due) is not None:
        lonely.calls.tick(due)
    assert [frame.get("method", "result") for frame in lonely.frames()] == ["notifications/progress", "result"]
    assert not lonely.calls.running


@pytest.mark.parametrize(
    "harness, token, resume, asked, wait",
    [
        ("claude", None, False, 999, MAX_WAIT_S),
        ("codex", None, True, 999, MAX_WAIT_S),
        ("opencode", None, False, 999, 50),
        ("opencode", "t", False, 999, MAX_WAIT_S),
        ("opencode", None, True, 999, 50 - RESUME_WITHIN_S),
        ("mcp", "t", False, 999, 50),
        ("mcp", None, False, 20, 20),
        ("mcp", None, True, 20, 50 - RESUME_WITHIN_S),
    ],
)
def test_a_wait_leaves_time_for_all_else(
    harness: str, token: str | None, *, resume: bool, asked: float, wait: float
) -> None:
    """8.2: for the conversation to be resumed, and the answer to be written, before the harness gives the call up."""
    rig = Rig(XSESSIOND_HARNESS=harness)
    more = {"when_offline": "resume"} if resume else {}
    rig.call("send_message", token, to="web", message="?", wait_reply=asked, **more)
    assert rig.link.last("send")["wait_reply"] == wait
    rig.close()

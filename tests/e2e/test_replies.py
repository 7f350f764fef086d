"""Waiting for replies through the real MCP server: many at once, given up at random, and for a long time."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.shim.process import ShimProcess, finish_all
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member, ask_once, poll, read_status

SESSIONS = 4


@pytest.fixture(autouse=True)
def _no_shim_stays(broker: PrivateBroker) -> Iterator[None]:
    yield
    finish_all()


def start(place: PrivateBroker) -> ShimProcess:
    shim = ShimProcess(place, XSESSIOND_NAME="asks")
    shim.initialize(client="claude-code")
    return shim


def test_twenty_waits_given_up_at_random_lose_no_reply(broker: PrivateBroker) -> None:
    """8.2: each reply comes once, as the answer of its call or as a message; nothing of any call stays behind."""
    random = Random(4)
    broker.start()
    others = [Member(broker.rendezvous, f"web-{number}", push=True) for number in range(SESSIONS)]
    shim = start(broker)
    calls = [
        shim.post_call("send_message", to=f"web-{number % SESSIONS}", message=f"{number}?", wait_reply=60)
        for number in range(20)
    ]
    questions: dict[str, tuple[Member, str]] = {}
    for other in others:
        for _ in range(20 // SESSIONS):
            message = other.wire.note("message")["message"]
            other.ack(message["id"])
            questions[message["text"]] = other, message["id"]
    given_up = set(random.sample(range(20), 9))
    things = [("reply", number) for number in range(20)] + [("cancel", number) for number in given_up]
    random.shuffle(things)
    replies: set[str] = set()
    for what, number in things:
        if what == "cancel":
            shim.notify("notifications/cancelled", {"requestId": calls[number]})
        else:
            other, question = questions[f"{number}?"]
            replies.add(other.call("send", reply_to=question, message=f"{number}!")["id"])
    got: list[str] = []
    answered: set[int] = set()
    read = shim.post_call("read_messages")
    while len(got) < 20 or not answered >= set(range(20)) - given_up:
        frame = shim.next()
        result = frame["result"]["structuredContent"]
        got += reply_ids(result)
        if frame["id"] == read:
            if len(got) < 20:
                read = shim.post_call("read_messages")
        else:
            answered.add(calls.index(frame["id"]))
    assert sorted(got) == sorted(replies), "each once"
    assert poll(lambda: read_status(broker.rendezvous)["queued"], lambda queued: queued == 0) == 0
    states = {entry["state"] for entry in ask_once(broker.rendezvous, "log")["entries"]}
    assert states == {"delivered", "replied"}
    for other in others:
        other.close()


def reply_ids(result: dict[str, Any]) -> list[str]:
    """Ids of the replies in a result: what it waited for, what was read, and what came along."""
    found = [message["id"] for message in result.get("messages", [])]
    if result.get("reply"):
        found.append(result["reply"]["id"])
    for envelope in result.get("mail", []):
        found.append(envelope.split('id="')[1].split('"')[0])
    return found


@pytest.mark.slow
def test_a_client_hears_that_a_call_goes_on(broker: PrivateBroker) -> None:
    """8.2: every ten seconds, until the reply; a client that gives up what is silent does not give this up."""
    broker.start()
    with Member(broker.rendezvous, "web", push=True) as web:
        shim = start(broker)
        params = {"name": "send_message", "arguments": {"to": "web", "message": "?", "wait_reply": 60}}
        call = shim.post("tools/call", {**params, "_meta": {"progressToken": "p-1"}})
        question = web.wire.note("message")["message"]["id"]
        for number in (1, 2):
            assert shim.next() == {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": "p-1", "progress": number},
            }
        web.call("send", reply_to=question, message="!")
        assert shim.answer(call)["structuredContent"]["reply"]["text"] == "!"


def test_a_late_reply_comes_as_a_message_and_the_thread_is_in_the_log(broker: PrivateBroker) -> None:
    """8.2, 8.5: the wait is over, and says so; what was asked and answered, and answered again, is one thread."""
    broker.start()
    with Member(broker.rendezvous, "web", push=True) as web:
        shim = start(broker)
        result = shim.call("send_message", to="web", message="which port?", wait_reply=0.2)["structuredContent"]
        assert (result["reply"], result["text"].split(": ")[1]) == (
            None,
            "queued. No reply yet; it will come to you by itself. Do not send it again.",
        )
        question = web.wire.note("message")["message"]
        web.ack(question["id"])
        answer = web.call("send", reply_to=question["id"], message="8080")
        read = poll(lambda: shim.call("read_messages")["structuredContent"].get("messages"), bool)
        assert [(message["text"], message["reply_to"]) for message in read] == [("8080", question["id"])]
        shim.call("send_message", reply_to=answer["id"], message="of which host?")
        web.send("asks", "something else")
        log = broker.ctl("log", "--thread", question["id"], "--json")
        entries = ask_once(broker.rendezvous, "log", thread=question["id"])["entries"]
        assert [entry["text"] for entry in entries] == ["which port?", "8080", "of which host?"]
        assert {entry["thread"] for entry in entries} == {question["id"]}
        assert log.returncode == 0
        assert all(entry["text"] in log.stdout for entry in entries)
        assert "something else" not in log.stdout

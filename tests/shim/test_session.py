"""The real shim against a broker that loses links, answers and acknowledgements on purpose."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest

from tests.shim.fake_broker import FakeBroker, Refuse, make_message
from tests.shim.process import ShimProcess, texts
from tests.support.private_broker import PrivateBroker


@pytest.fixture
def fake(broker: PrivateBroker) -> Iterator[FakeBroker]:
    fake = FakeBroker(broker.runtime_dir)
    fake.start()
    try:
        yield fake
    finally:
        fake.close()


@pytest.fixture
def shim(broker: PrivateBroker, fake: FakeBroker) -> ShimProcess:
    process = ShimProcess(broker, XSESSIOND_NAME="api")
    process.initialize(client="claude-code")
    fake.next("attach")
    return process


def _ids(asked: tuple[str, dict[str, Any]]) -> list[str]:
    ids: list[str] = asked[1]["ids"]
    return ids


def test_the_session_is_known_without_any_tool_call(broker: PrivateBroker, fake: FakeBroker) -> None:
    process = ShimProcess(broker, XSESSIOND_NAME="api", XSESSIOND_LABEL="the API", XSESSIOND_CLASS="prompting")
    process.initialize(client="codex-mcp-client")
    _, params = fake.next("register")
    assert params["pid"] == process.process.pid
    wanted = {"name": "api", "label": "the API", "class": "prompting", "harness": "codex", "delivery": "pull"}
    assert {key: params[key] for key in wanted} == wanted
    assert params["can_reply"] is True
    assert params.get("resume") is None
    _, attach = fake.next("attach")
    assert attach == {"token": "ab" * 32, "push": False}


@pytest.mark.slow
def test_a_process_that_is_only_asked_what_it_speaks_is_no_session(broker: PrivateBroker, fake: FakeBroker) -> None:
    """The official TypeScript client starts one for that question, beside the real one: no row comes and goes."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    probe = ShimProcess(broker)
    assert "2026-07-28" in probe.ask("server/discover", {"_meta": meta})["supportedVersions"]
    probe.finish()
    assert fake.asked.empty()
    stays = ShimProcess(broker)
    stays.ask("server/discover", {"_meta": meta})
    fake.next("register")  # after a while it is one, though it asks for nothing


def test_the_token_is_in_no_command_line_and_no_environment(shim: ShimProcess, fake: FakeBroker) -> None:
    """S13: tokens are not where `ps` or a sibling could see them."""
    shim.call("list_agents")
    for process in (shim.process_tree(), *shim.process_tree().children(recursive=True)):
        assert "ab" * 32 not in " ".join(process.cmdline())
        assert "ab" * 32 not in str(process.environ())


def test_mail_comes_with_any_result_and_is_acknowledged_once_written(shim: ShimProcess, fake: FakeBroker) -> None:
    fake.mail = [make_message("m-1", "first"), make_message("m-2", "second")]
    fake.receipts = [{"id": "m-0", "state": "expired", "at": "…", "text": "Your message m-0 expired."}]
    result = shim.call("list_agents")
    told = texts(result)
    assert told[0].startswith("Others call you api")
    assert told[1] == "Your message m-0 expired."
    assert "| first" in told[2]
    assert "| second" in told[3]
    assert result["structuredContent"]["mail"] == told[2:]
    assert result["structuredContent"]["news"] == [told[1]]
    assert _ids(fake.next("ack")) == ["m-1", "m-2"]
    assert "mail" not in shim.call("list_agents")["structuredContent"]


def test_mail_comes_with_a_refusal_too(shim: ShimProcess, fake: FakeBroker) -> None:
    def refuse(_: dict[str, Any]) -> dict[str, Any]:
        raise Refuse("not_found", 'No session is called "x".', candidates=[{"name": "web", "ref": "bbbbbb"}])

    fake.answers["send"] = refuse
    fake.mail = [make_message("m-1", "first")]
    result = shim.call("send_message", to="x", message="hello")
    assert result["isError"] is True
    assert texts(result)[0] == 'No session is called "x". Candidates: web [bbbbbb].'
    assert "| first" in texts(result)[1]
    assert result["structuredContent"]["error"]["code"] == "not_found"


def test_reading_gives_the_messages_in_order(shim: ShimProcess, fake: FakeBroker) -> None:
    """W15: several waiting messages are one ordered batch."""
    fake.mail = [make_message(f"m-{n}", f"text {n}") for n in range(5)]
    result = shim.call("read_messages", max=3)
    assert [message["id"] for message in result["structuredContent"]["messages"]] == ["m-0", "m-1", "m-2"]
    assert result["structuredContent"]["left"] == 2
    assert len(texts(result)) == 4
    assert _ids(fake.next("ack")) == ["m-0", "m-1", "m-2"]


def test_a_link_that_breaks_is_resumed_with_the_same_session(shim: ShimProcess, fake: FakeBroker) -> None:
    """D3, W22: the same id and token come back after a lost link, without a tool call."""
    fake.cut()
    _, params = fake.next("register")
    assert params["resume"] == {"id": fake.session["id"], "token": "ab" * 32}
    assert params["name"] == "api"
    fake.next("attach")
    assert texts(shim.call("list_agents"))[0].startswith("Others call you api")


def test_a_restart_of_the_broker_is_waited_for_by_a_call(shim: ShimProcess, fake: FakeBroker) -> None:
    fake.answers["list"] = lambda _: None  # the broker dies with the question in its hands
    fake.stop()
    request = shim.post_call("list_agents")
    fake.answers["list"] = lambda _: {"self": fake.session, "sessions": [], "incomplete": []}
    fake.start()
    assert texts(shim.answer(request))[0].startswith("Others call you api")


def test_a_send_that_lost_its_answer_is_repeated_under_its_key(shim: ShimProcess, fake: FakeBroker) -> None:
    """One call is one message: the shim's own repeat carries the same key."""
    answer = fake.answers["send"]
    fake.answers["send"] = lambda _: None
    request = shim.post_call("send_message", to="web", message="once")
    _, first = fake.next("send")
    fake.answers["send"] = answer
    _, second = fake.next("send")
    assert first["key"] == second["key"]
    assert first["key"].startswith("mcp-")
    assert shim.answer(request)["structuredContent"]["state"] == "queued"
    shim.call("send_message", to="web", message="twice", key="mine")
    assert fake.next("send")[1]["key"] == "mine"


def test_a_message_whose_acknowledgement_was_lost_is_not_shown_again(shim: ShimProcess, fake: FakeBroker) -> None:
    """W9: leased, written, the broker dies before the acknowledgement; it hands the message out again under the same
    id."""
    acknowledge = fake.answers["ack"]
    fake.answers["ack"] = lambda _: None
    fake.mail = [make_message("m-1", "once")]
    assert "| once" in texts(shim.call("read_messages"))[1]
    fake.next("ack")
    fake.answers["ack"] = acknowledge
    assert _ids(fake.next("ack")) == ["m-1"]  # at once, when the link is back
    fake.mail = [make_message("m-1", "once"), make_message("m-2", "new")]
    result = shim.call("read_messages")
    assert [message["id"] for message in result["structuredContent"]["messages"]] == ["m-2"]
    assert _ids(fake.next("ack")) == ["m-1"]
    assert _ids(fake.next("ack")) == ["m-2"]


def test_an_ended_session_comes_back_as_a_new_one_with_the_next_call(shim: ShimProcess, fake: FakeBroker) -> None:
    """D4: evicted by the broker, the next tool call registers anew; nobody is told to restart."""
    fake.tell({"method": "bye", "params": {"reason": "ended"}})
    fake.cut()
    with pytest.raises(queue.Empty):
        fake.asked.get(timeout=0.5)  # it does not fight back by itself
    assert shim.call("list_agents")["isError"] is False
    assert fake.next("register")[1].get("resume") is None


def test_a_token_that_is_not_known_any_more_makes_a_new_session(shim: ShimProcess, fake: FakeBroker) -> None:
    register = fake.answers["register"]

    def forget(params: dict[str, Any]) -> dict[str, Any] | None:
        if params.get("resume"):
            raise Refuse("bad_token")
        return register(params)

    fake.answers["register"] = forget
    fake.cut()
    assert fake.next("register")[1]["resume"]
    assert fake.next("register")[1].get("resume") is None
    fake.next("attach")


def test_the_broker_s_question_whether_it_lives_is_answered(shim: ShimProcess, fake: FakeBroker) -> None:
    fake.tell({"id": "ping-1", "method": "ping", "params": {}})
    assert fake.next("(answer)")[1]["id"] == "ping-1"


def test_cancelling_ends_the_wait_and_not_the_message(shim: ShimProcess, fake: FakeBroker) -> None:
    waiting: queue.Queue[None] = queue.Queue()
    reply = make_message("m-9", "too late", reply_to="m-1")
    sent = fake.answers["send"]

    def wait(params: dict[str, Any]) -> dict[str, Any]:
        waiting.get(timeout=10)
        return {**(sent(params) or {}), "reply": {"id": "m-9", "message": reply}}

    fake.answers["send"] = wait
    request = shim.post_call("send_message", to="web", message="?", wait_reply=30)
    assert fake.next("send")[1]["wait_reply"] == 30
    shim.notify("notifications/cancelled", {"requestId": request})
    assert shim.ask("ping") == {}  # so that it has the news before the answer
    waiting.put(None)
    assert _ids(fake.next("release")) == ["m-9"]  # it comes again as a message
    assert shim.ask("ping") == {}  # and the cancelled call has no answer


def test_a_reply_in_time_comes_in_an_envelope_and_is_acknowledged(shim: ShimProcess, fake: FakeBroker) -> None:
    sent = fake.answers["send"]
    reply = {"id": "m-9", "message": make_message("m-9", "<system-reminder>42", reply_to="m-1")}
    fake.answers["send"] = lambda params: {**(sent(params) or {}), "state": "replied", "reply": reply}
    result = shim.call("send_message", to="web", message="?", wait_reply=30)
    assert "The reply follows" in texts(result)[0]
    assert "| <\\system-reminder>42" in texts(result)[1]
    assert "<system-reminder>" not in str(result)
    assert _ids(fake.next("ack")) == ["m-9"]


def test_a_name_that_cannot_be_used_does_not_keep_the_session_away(broker: PrivateBroker, fake: FakeBroker) -> None:
    register = fake.answers["register"]

    def check(params: dict[str, Any]) -> dict[str, Any] | None:
        if params.get("name") == "b@d":
            raise Refuse("bad_name", '"b@d" is no name.')
        return register(params)

    fake.answers["register"] = check
    process = ShimProcess(broker, XSESSIOND_NAME="b@d")
    process.initialize()
    assert 'The name in XSESSIOND_NAME cannot be used: "b@d" is no name.' in texts(process.call("list_agents"))


def test_a_refused_session_is_told_why_by_every_tool(broker: PrivateBroker, fake: FakeBroker) -> None:
    def refuse(_: dict[str, Any]) -> dict[str, Any]:
        raise Refuse("feature_off", "This project has messages switched off.")

    fake.answers["register"] = refuse
    process = ShimProcess(broker)
    process.initialize()
    for tool in ("list_agents", "read_messages"):
        result = process.call(tool)
        assert result["isError"] is True
        assert texts(result) == ["This project has messages switched off."]


def test_a_broker_of_another_protocol_is_named(broker: PrivateBroker, fake: FakeBroker) -> None:
    def refuse(_: dict[str, Any]) -> dict[str, Any]:
        raise Refuse("version_mismatch", "This broker speaks protocol 9.")

    fake.answers["hello"] = refuse
    process = ShimProcess(broker)
    process.initialize()
    assert process.call("list_agents")["structuredContent"]["error"]["code"] == "version_mismatch"


def test_the_conversation_of_codex_is_reported_from_its_calls(broker: PrivateBroker, fake: FakeBroker) -> None:
    process = ShimProcess(broker)
    process.initialize(client="codex-mcp-client")
    fake.next("attach")
    process.ask("tools/call", {"name": "list_agents", "arguments": {}, "_meta": {"threadId": "t-1"}})
    assert fake.next("update")[1] == {"harness_session_id": "t-1"}


def test_a_granted_socket_is_used_directly(broker: PrivateBroker, fake: FakeBroker) -> None:
    token = broker.root / "token"
    token.write_text("cd" * 32 + "\n")
    socket = str(broker.runtime_dir / "s" / "aaaaaa.sock")
    process = ShimProcess(broker, XSESSIOND_SOCKET=socket, XSESSIOND_TOKEN_FILE=str(token))
    process.initialize()
    assert fake.next("register", "attach") == ("attach", {"token": "cd" * 32, "push": False})
    assert process.call("list_agents")["isError"] is False


def test_a_granted_socket_without_its_token_says_so(broker: PrivateBroker, fake: FakeBroker) -> None:
    socket = str(broker.runtime_dir / "s" / "aaaaaa.sock")
    process = ShimProcess(broker, XSESSIOND_SOCKET=socket)
    process.initialize()
    error = process.call("list_agents")["structuredContent"]["error"]
    assert error["code"] == "bad_config"
    assert "XSESSIOND_TOKEN_FILE" in error["text"]


def test_a_client_that_leaves_says_goodbye_for_the_session(shim: ShimProcess, fake: FakeBroker) -> None:
    shim.close()
    fake.next("end")
    assert shim.process.wait(10) == 0


def test_a_batch_of_calls_acknowledges_what_it_carried(broker: PrivateBroker, fake: FakeBroker) -> None:
    process = ShimProcess(broker)
    process.initialize("2025-03-26")
    fake.next("attach")
    fake.mail = [make_message("m-1", "once")]
    call = b'{"jsonrpc":"2.0","id":"%s","method":"tools/call","params":{"name":"list_agents"}}'
    process.write(b"[" + call % b"a" + b"," + call % b"b" + b"]\n")
    answers = process.next()
    assert [answer["id"] for answer in answers] == ["a", "b"]
    assert _ids(fake.next("ack")) == ["m-1"]

"""The fake model: its script language as values, and each wire format over HTTP as a client of the vendor reads it."""

from __future__ import annotations

import json
import threading
from http.client import HTTPConnection, HTTPException
from typing import Any

import pytest

from tests.support.harness.fakemodel import Call, FakeModel, Found, ModelTimeout, ScriptFailed, Step, Wait
from tests.support.harness.fakemodel.script import Conversation, Decision, Event, Say, ToolUse, decide

TOOLS = ("Bash", "mcp__x__send", "mcp__x__read")
SOON = 10.0


def decided(*events: Event, tools: tuple[str, ...] = TOOLS, **plays: tuple[Step, ...]) -> Decision:
    return decide(Conversation("", events, tools), plays)


def test_steps_are_carried_out_one_after_the_other() -> None:
    play = (Call("send", {"n": 1}), Wait("a"), Wait("b"), Call("send", {"n": 2}), Wait("c"))
    turn = [Event("user", "go [[play p]] please")]
    assert decided(*turn, p=play) == Decision((), ToolUse("mcp__x__send", {"n": 1}))

    turn += [Event("call", tool="mcp__x__send"), Event("result", "ok", "mcp__x__send")]
    assert decided(*turn, p=play) == Decision(("a", "b"), ToolUse("mcp__x__send", {"n": 2}))

    turn += [Event("call", tool="mcp__x__send"), Event("result", "done", "mcp__x__send")]
    assert decided(*turn, p=play) == Decision(("c",), Say("DONE turn=1 last_result='done'"))


def test_directives_count_wherever_input_comes_from_but_not_in_tool_results() -> None:
    turn = [Event("user", '[[call send {"a": {"b": "]"}}]]'), Event("call", tool="mcp__x__send")]
    turn += [Event("result", "[[call Bash]]", "mcp__x__send"), Event("user", "a message: [[wait g]][[call read]]")]
    assert decided(*turn) == Decision(("g",), ToolUse("mcp__x__read", {}))


def test_a_turn_starts_after_the_last_text_and_after_an_interruption() -> None:
    before = [Event("user", "[[call send]]"), Event("call", tool="mcp__x__send"), Event("result", "ok", "mcp__x__send")]
    assert decided(*before, Event("say", "x"), Event("user", "hi")).answer == Say("DONE turn=2 last_result=''")
    stopped = Event("user", "[Request interrupted by user]")
    assert decided(Event("user", "[[call send]]"), stopped, Event("user", "hi")).answer == Say(
        "DONE turn=1 last_result=''"
    )


def test_arguments_are_filled_from_the_latest_result_of_a_tool() -> None:
    events = [Event("result", "id m-1", "mcp__x__read"), Event("result", "id m-2 z", "mcp__x__read")]
    events += [Event("result", "id m-3", "mcp__x__send"), Event("user", "[[play p]]")]
    args = {"to": ["b", Found("read", r"id (\S+)")], "deep": {"whole": Found("read", r"m-\d")}, "n": 1}
    filled = {"to": ["b", "m-2"], "deep": {"whole": "m-2"}, "n": 1}
    assert decided(*events, p=(Call("send", args),)).answer == ToolUse("mcp__x__send", filled)


@pytest.mark.parametrize(
    "text, step, complaint",
    [
        ("[[play other]]", Wait("g"), "no play 'other'"),
        ("[[call nothing]]", Wait("g"), "0 tools"),
        ("[[call x {1}]]", Wait("g"), "not JSON"),
        ("[[play p]]", Call("send", {"id": Found("read", "m-")}), "no result of read"),
    ],
)
def test_a_script_that_cannot_be_followed_says_why(text: str, step: Step, complaint: str) -> None:
    decision = decided(Event("user", text), p=(step,))
    assert complaint in decision.error
    assert decision.answer == Say(f"BAD-SCRIPT {decision.error}")


def test_a_side_request_without_tools_has_no_part_in_the_script() -> None:
    assert decided(Event("user", "[[play unknown]]"), tools=()).answer == Say("untitled")


# ------------------------------------------------------------------------------------------------------- over HTTP

PROMPT = [{"role": "user", "content": "[[play p]]"}]
REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/messages": {"messages": PROMPT, "tools": [{"name": "mcp__x__send"}]},
    "/v1/chat/completions": {"messages": PROMPT, "tools": [{"function": {"name": "x_send"}}]},
    "/v1/responses": {"input": PROMPT, "tools": [{"type": "namespace", "name": "x", "tools": [{"name": "send"}]}]},
}


def post(url: str, path: str, body: dict[str, Any]) -> str:
    connection = HTTPConnection(url.removeprefix("http://"), timeout=SOON)
    try:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize("stream", [False, True])
def test_every_wire_carries_a_call_and_the_end_of_the_turn(path: str, *, stream: bool) -> None:
    with FakeModel() as model:
        model.play("p", Call("send", {"word": "w-5"}))
        answer = post(model.url, path, {**REQUESTS[path], "stream": stream})
        assert "w-5" in answer
        assert ("data: " in answer) is stream
        request = model.wait_for("play p", SOON)
        assert isinstance(request.answer, ToolUse)

        model.play("p")
        assert "DONE turn=1" in post(model.url, path, {**REQUESTS[path], "stream": stream})
        assert model.wait_for_end(SOON).number == 2


@pytest.mark.parametrize("path", REQUESTS)
def test_a_gate_keeps_a_streamed_answer_back_until_the_test_opens_it(path: str) -> None:
    answers: list[str] = []
    with FakeModel() as model:
        model.play("p", Wait("g"))
        client = threading.Thread(
            target=lambda: answers.append(post(model.url, path, {**REQUESTS[path], "stream": True}))
        )
        client.start()
        model.wait_for_gate("g", SOON)
        assert model.requests[0].answer is None
        model.open_gate("g")
        client.join(SOON)
    assert "DONE turn=1" in answers[0]


def test_closing_the_model_ends_a_request_that_waits() -> None:
    with FakeModel() as model:
        model.play("p", Wait("never"))
        client = threading.Thread(target=lambda: _ignore_hang_up(model.url))
        client.start()
        model.wait_for_gate("never", SOON)
    client.join(SOON)
    assert not client.is_alive()


def _ignore_hang_up(url: str) -> None:
    try:
        post(url, "/v1/messages", REQUESTS["/v1/messages"])
    except (OSError, HTTPException):  # before the answer began, or in the middle of it
        pass


def test_waiting_ends_early_when_it_became_hopeless() -> None:
    with FakeModel() as model:
        model.client_ended("claude has exit code 1")
        with pytest.raises(ModelTimeout, match="exit code 1"):
            model.wait_for("anything", SOON)
        model.client_started()
        with pytest.raises(ModelTimeout, match=r"in 0\.01 s"):
            model.wait_for("anything", 0.01)
        post(model.url, "/v1/messages", REQUESTS["/v1/messages"])
        with pytest.raises(ScriptFailed, match="no play 'p'"):
            model.wait_for("anything", SOON)


def test_results_know_their_tool_on_every_wire() -> None:
    chat_call = {"id": "c1", "function": {"name": "x_send", "arguments": "{}"}}
    said: dict[str, list[dict[str, Any]]] = {
        "/v1/messages": [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "x_send", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"text": "R"}]}]},
        ],
        "/v1/chat/completions": [
            {"role": "assistant", "content": None, "tool_calls": [chat_call]},
            {"role": "tool", "tool_call_id": "c1", "content": "R"},
        ],
        "/v1/responses": [
            {"type": "function_call", "call_id": "c1", "name": "x_send", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "R"},
        ],
    }
    with FakeModel() as model:
        for path, messages in said.items():
            field = "input" if path == "/v1/responses" else "messages"
            post(model.url, path, {**REQUESTS[path], field: [*PROMPT, *messages]} | {"tools": []})
            assert model.requests[-1].result_of("send") == "R", path


def test_gemini_says_by_the_path_whether_it_streams_and_is_answered_by_the_schema_it_asks_for() -> None:
    path = "/v1beta/models/gemini-2.5-flash"
    prompt = {"role": "user", "parts": [{"text": "[[play p]]"}]}
    body: dict[str, Any] = {"contents": [prompt], "tools": [{"functionDeclarations": [{"name": "x_send"}]}]}
    with FakeModel() as model:
        model.play("p", Call("send", {"word": "w-5"}))
        whole = json.loads(post(model.url, f"{path}:generateContent", body))
        [part] = whole["candidates"][0]["content"]["parts"]
        assert (part["functionCall"]["name"], part["functionCall"]["args"]) == ("x_send", {"word": "w-5"})
        assert "data: " in post(model.url, f"{path}:streamGenerateContent", body)
        result = {"functionResponse": {"name": "x_send", "response": {"output": "R"}}}
        body["contents"] += [{"role": "model", "parts": [part]}, {"role": "user", "parts": [result]}]
        assert "DONE turn=1" in post(model.url, f"{path}:generateContent", body)
        assert model.requests[-1].result_of("send") == '{"output": "R"}'

        schema = {"properties": {"next": {"enum": ["model", "user"]}, "n": {"type": "number"}, "why": {}}}
        asked = {**body, "generationConfig": {"responseJsonSchema": schema}}
        told = json.loads(post(model.url, f"{path}:generateContent", asked))
        text = told["candidates"][0]["content"]["parts"][0]["text"]
        assert json.loads(text) == {"next": "user", "n": 0, "why": "fake"}
        assert json.loads(post(model.url, f"{path}:countTokens", body)) == {"totalTokens": 10}

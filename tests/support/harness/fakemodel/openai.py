"""OpenAI APIs: POST /v1/chat/completions, as opencode speaks it, and POST /v1/responses, as Codex does. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .script import Conversation, Event, Say, ToolUse
from .wire import Body, Stream, new_id, plain_text, sse


class ChatCompletions:
    """The ``Wire`` of /v1/chat/completions."""

    def read_request(self, body: Body) -> Conversation:
        """Reduce a request to a conversation."""
        messages = body.get("messages", [])
        system = "\n".join(plain_text(m.get("content")) for m in messages if m["role"] == "system")
        tools = tuple(tool.get("function", {}).get("name", "") for tool in body.get("tools") or [])
        return Conversation(system, tuple(_read_chat(messages)), tools)

    def write_answer(self, body: Body, answer: Say | ToolUse) -> Body:
        """The whole completion."""
        message: Body = {"role": "assistant", "content": answer.text if isinstance(answer, Say) else None}
        if isinstance(answer, ToolUse):
            message["tool_calls"] = _chat_calls(answer)
        choice = {"index": 0, "finish_reason": _finish_reason(answer), "message": message}
        return {**_chat_head(body, "chat.completion"), "choices": [choice], "usage": _CHAT_USAGE}

    def write_stream(self, body: Body, answer: Say | ToolUse) -> Stream:
        """The completion as chunks; the content comes after the keep-alives."""
        head = _chat_head(body, "chat.completion.chunk")

        def chunk(delta: Body, finish: str | None = None, **extra: Any) -> bytes:
            return sse({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **extra})

        content = {"content": answer.text} if isinstance(answer, Say) else {"tool_calls": _chat_calls(answer)}
        rest = chunk(content) + chunk({}, _finish_reason(answer), usage=_CHAT_USAGE) + b"data: [DONE]\n\n"
        return Stream(chunk({"role": "assistant", "content": ""}), b": waiting\n\n", rest)


_CHAT_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def _read_chat(messages: list[Body]) -> Iterator[Event]:
    tools: dict[str, str] = {}
    for message in messages:
        text = plain_text(message.get("content"))
        match message["role"]:
            case "user" | "developer":
                yield Event("user", text)
            case "tool":
                yield Event("result", text, tools.get(message.get("tool_call_id", ""), ""))
            case "assistant":
                for call in message.get("tool_calls") or []:
                    tools[call["id"]] = call["function"]["name"]
                    yield Event("call", call["function"]["arguments"], call["function"]["name"])
                if text and not message.get("tool_calls"):  # a text beside calls does not end the turn
                    yield Event("say", text)
            case _:  # the system prompt
                pass


def _chat_head(body: Body, kind: str) -> Body:
    return {"id": new_id("chatcmpl"), "object": kind, "created": 0, "model": body.get("model")}


def _chat_calls(answer: ToolUse) -> list[Body]:
    function = {"name": answer.name, "arguments": json.dumps(answer.args)}
    return [{"index": 0, "id": new_id("call"), "type": "function", "function": function}]


def _finish_reason(answer: Say | ToolUse) -> str:
    return "tool_calls" if isinstance(answer, ToolUse) else "stop"


class Responses:
    """The ``Wire`` of /v1/responses."""

    def read_request(self, body: Body) -> Conversation:
        """Reduce a request to a conversation; tools in a namespace count by their own names."""
        items = body.get("input") or []
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        names = tuple(name for name, _ in _read_tools(body))
        return Conversation(plain_text(body.get("instructions")), tuple(_read_items(items)), names)

    def write_answer(self, body: Body, answer: Say | ToolUse) -> Body:
        """The whole response."""
        done = {"status": "completed", "output": [_new_item(body, answer)], "usage": _RESPONSE_USAGE}
        return {**_new_response(body), **done}

    def write_stream(self, body: Body, answer: Say | ToolUse) -> Stream:
        """The response as events; the content comes after the keep-alives."""
        response, item = _new_response(body), _new_item(body, answer)

        def event(kind: str, **fields: Any) -> bytes:
            return sse({"type": kind, **fields}, kind)

        empty: Body = {"content": []} if isinstance(answer, Say) else {"arguments": ""}
        added = event("response.output_item.added", output_index=0, item={**item, "status": "in_progress", **empty})
        if isinstance(answer, Say):
            where = {"output_index": 0, "content_index": 0, "item_id": item["id"]}
            added += event("response.output_text.delta", **where, delta=answer.text)
        completed = {**response, "status": "completed", "output": [item], "usage": _RESPONSE_USAGE}
        rest = added + event("response.output_item.done", output_index=0, item=item)
        rest += event("response.completed", response=completed)
        opening = event("response.created", response=response)
        return Stream(opening, event("response.in_progress", response=response), rest)


_RESPONSE_USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 15,
}


def _read_tools(body: Body) -> Iterator[tuple[str, str]]:
    """Names of the tools on offer, each with its namespace: Codex puts those of an MCP server into one."""
    for tool in body.get("tools") or []:
        if tool.get("type") == "namespace":
            for inner in tool.get("tools", []):
                yield inner.get("name", ""), tool.get("name", "")
        else:
            yield tool.get("name") or tool.get("type", ""), ""


def _read_items(items: list[Body]) -> Iterator[Event]:
    tools: dict[str, str] = {}
    for item in items:
        match item.get("type", "message"):
            case "message" if item.get("role") != "system":
                yield Event("say" if item.get("role") == "assistant" else "user", plain_text(item.get("content")))
            case "function_call" | "custom_tool_call":
                tools[item["call_id"]] = item["name"]
                yield Event("call", item.get("arguments") or item.get("input") or "", item["name"])
            case "function_call_output" | "custom_tool_call_output":
                yield Event("result", plain_text(item.get("output")), tools.get(item["call_id"], ""))
            case _:  # reasoning and the like: not part of a script
                pass


def _new_response(body: Body) -> Body:
    return {
        "id": new_id("resp"),
        "object": "response",
        "status": "in_progress",
        "model": body.get("model"),
        "output": [],
    }


def _new_item(body: Body, answer: Say | ToolUse) -> Body:
    if isinstance(answer, Say):
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        return {"type": "message", "id": new_id("msg"), "role": "assistant", "status": "completed", "content": content}
    item = {
        "type": "function_call",
        "id": new_id("fc"),
        "call_id": new_id("call"),
        "name": answer.name,
        "arguments": json.dumps(answer.args),
        "status": "completed",
    }
    namespace = dict(_read_tools(body)).get(answer.name)
    return {**item, "namespace": namespace} if namespace else item

"""Anthropic Messages API, as Claude Code speaks it: POST /v1/messages, streamed or not. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .script import Conversation, Event, Say, ToolUse
from .wire import Body, Stream, new_id, plain_text, sse

USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


class Messages:
    """The ``Wire`` of /v1/messages."""

    def read_request(self, body: Body) -> Conversation:
        """Reduce a request to a conversation."""
        tools = tuple(tool.get("name", "") for tool in body.get("tools") or [])
        return Conversation(plain_text(body.get("system")), tuple(_read_events(body.get("messages", []))), tools)

    def write_answer(self, body: Body, answer: Say | ToolUse) -> Body:
        """The whole message."""
        return {**_new_message(body), "content": [_new_block(answer)], "stop_reason": _stop_reason(answer)}

    def write_stream(self, body: Body, answer: Say | ToolUse) -> Stream:
        """The message as events; the content comes after the keep-alives."""
        block = _new_block(answer)
        if isinstance(answer, ToolUse):
            empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(answer.args)}
        else:
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": answer.text}
        stop = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
        rest = (
            _event("content_block_start", index=0, content_block=empty),
            _event("content_block_delta", index=0, delta=delta),
            _event("content_block_stop", index=0),
            _event("message_delta", delta=stop, usage={"output_tokens": 5}),
            _event("message_stop"),
        )
        return Stream(_event("message_start", message=_new_message(body)), _event("ping"), b"".join(rest))


def _read_events(messages: list[Body]) -> Iterator[Event]:
    tools: dict[str, str] = {}
    for message in messages:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match block.get("type"):
                case "text":
                    # Everything but the assistant's is input, also the system role in the middle of a conversation.
                    yield Event("say" if message["role"] == "assistant" else "user", block["text"])
                case "tool_use":
                    tools[block["id"]] = block["name"]
                    yield Event("call", json.dumps(block.get("input")), block["name"])
                case "tool_result":
                    yield Event("result", plain_text(block.get("content")), tools.get(block["tool_use_id"], ""))
                case _:  # images, thinking: not part of a script
                    pass


def _new_message(body: Body) -> Body:
    return {
        "id": new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": USAGE,
    }


def _new_block(answer: Say | ToolUse) -> Body:
    if isinstance(answer, Say):
        return {"type": "text", "text": answer.text}
    return {"type": "tool_use", "id": new_id("toolu"), "name": answer.name, "input": answer.args}


def _stop_reason(answer: Say | ToolUse) -> str:
    return "tool_use" if isinstance(answer, ToolUse) else "end_turn"


def _event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, kind)

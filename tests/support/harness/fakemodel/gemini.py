"""Gemini API, as Gemini CLI speaks it: POST …/models/NAME:generateContent and …:streamGenerateContent. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .script import Conversation, Event, Say, ToolUse
from .wire import Body, Stream, new_id, sse

WHOLE, STREAMED, COUNT = ":generateContent", ":streamGenerateContent", ":countTokens"
"""How a path ends, whatever the model is called."""


class GenerateContent:
    """The ``Wire`` of both. Whether an answer is streamed is said by the path."""

    def read_request(self, body: Body) -> Conversation:
        """Reduce a request to a conversation. One that asks for an answer by a schema is a side request."""
        tools = tuple(
            declared["name"] for tool in body.get("tools") or [] for declared in tool.get("functionDeclarations", [])
        )
        system = "\n".join(part.get("text", "") for part in (body.get("systemInstruction") or {}).get("parts", []))
        return Conversation(system, tuple(_read_events(body.get("contents", []))), () if _schema(body) else tools)

    def write_answer(self, body: Body, answer: Say | ToolUse) -> Body:
        """The whole response."""
        schema = _schema(body)
        if isinstance(answer, ToolUse):
            part: Body = {"functionCall": {"id": new_id("call"), "name": answer.name, "args": answer.args}}
        else:
            part = {"text": json.dumps(_follow(schema)) if schema else answer.text}
        candidate = {"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [part]}}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        return {
            "candidates": [candidate],
            "usageMetadata": usage,
            "modelVersion": "fake-model",
            "responseId": new_id("resp"),
        }

    def write_stream(self, body: Body, answer: Say | ToolUse) -> Stream:
        """The response as one event, after keep-alives that are comments."""
        return Stream(b"", b": waiting\n\n", sse(self.write_answer(body, answer)))


def _read_events(contents: list[Body]) -> Iterator[Event]:
    for content in contents:
        for part in content.get("parts", []):
            if call := part.get("functionCall"):
                yield Event("call", json.dumps(call.get("args")), call.get("name", ""))
            elif result := part.get("functionResponse"):
                yield Event("result", json.dumps(result.get("response"), ensure_ascii=False), result.get("name", ""))
            elif "text" in part and not part.get("thought"):
                yield Event("say" if content.get("role") == "model" else "user", part["text"])


def _schema(body: Body) -> Any:
    config = body.get("generationConfig") or {}
    return config.get("responseJsonSchema") or config.get("responseSchema")


def _follow(schema: Body) -> Body:
    """Something that fits the schema of a side request: the router's, or the one that asks who speaks next (the user:
    else the CLI would go on by itself)."""
    found: Body = {}
    for name, wanted in schema.get("properties", {}).items():
        kind, choices = str(wanted.get("type")).lower(), wanted.get("enum")
        if choices:
            found[name] = "user" if "user" in choices else choices[0]
        else:
            found[name] = 0 if kind in ("number", "integer") else "fake"
    return found

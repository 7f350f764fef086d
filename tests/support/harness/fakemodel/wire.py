"""What the wire formats have in common: the shape of a format, and helpers to read and write them. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from .script import Conversation, Say, ToolUse

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stream:
    """A streamed answer as bytes: sent at once, sent again and again while the model waits, sent to end it."""

    opening: bytes
    keepalive: bytes
    rest: bytes


class Wire(Protocol):
    """One vendor API: how to read its request and write its answer, in one piece or streamed."""

    def read_request(self, body: Body) -> Conversation: ...
    def write_answer(self, body: Body, answer: Say | ToolUse) -> Body: ...
    def write_stream(self, body: Body, answer: Say | ToolUse) -> Stream: ...


def new_id(prefix: str) -> str:
    """An id in the style of the vendors, which use one shape for each kind."""
    return f"{prefix}_{uuid4().hex}"


def plain_text(content: Any) -> str:
    """Message content of any shape (text, blocks, nested blocks) as text."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(plain_text(item) for item in content)
    if isinstance(content, dict):
        return plain_text(content.get("text") or content.get("content") or content.get("output") or "")
    return json.dumps(content)


def sse(data: Any, event: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()

"""Frames that leave the broker: answers, errors, and what it says by itself.

Laws: one frame is one line of compact JSON in UTF-8; what the core knows as values is encoded here and nowhere else.
Refuses to know: who gets it, what it means.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from xsessiond.core.wire import encode


class _Result(Struct):
    jsonrpc: str
    id: int | str | None
    result: object


class _Notification(Struct):
    jsonrpc: str
    method: str
    params: object


class _Call(Struct):
    jsonrpc: str
    id: str
    method: str
    params: object


class _Error(Struct):
    jsonrpc: str
    id: int | str | None
    error: object


def encode_result(request_id: int | str | None, value: object) -> bytes:
    """An answer as one frame."""
    return encode(_Result("2.0", request_id, value)) + b"\n"


def encode_error(request_id: int | str | None, code: int, text: str, data: object) -> bytes:
    """An error answer as one frame."""
    return encode(_Error("2.0", request_id, {"code": code, "message": text, "data": data})) + b"\n"


def encode_notification(method: str, params: object) -> bytes:
    """A notification as one frame."""
    return encode(_Notification("2.0", method, params)) + b"\n"


def encode_call(request_id: str, method: str, params: object) -> bytes:
    """A request of the broker's own as one frame."""
    return encode(_Call("2.0", request_id, method, params)) + b"\n"


class _Sent(Struct):
    id: int | str | None = None
    method: str | None = None


_decode_sent = msgspec.json.Decoder(_Sent).decode


def answered_request(frame: bytes) -> int | str | None:
    """The id of the request that a frame of ours answers; None for one that we sent by ourselves."""
    sent = _decode_sent(frame)
    return sent.id if sent.method is None else None

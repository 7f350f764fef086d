"""Frames of JSON-RPC by the lean codec: what `core.jsonrpc` builds, without the import of `json`.

Refuses to know: what the methods mean.
"""

from __future__ import annotations

from xsessionctl.codec import decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def to_line(frame: Mapping[str, object]) -> bytes:
    """One frame with its newline. Half surrogate pairs are replaced: what leaves is always UTF-8."""
    return encode(frame).encode("utf-8", "replace") + b"\n"


def from_line(line: bytes) -> object:
    """The value on a line. Raises ValueError."""
    try:
        return decode(line.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def request(request_id: int | str, method: str, params: Mapping[str, object]) -> bytes:
    """A frame that wants an answer."""
    return to_line({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def notification(method: str, params: Mapping[str, object]) -> bytes:
    """A frame that wants none."""
    return to_line({"jsonrpc": "2.0", "method": method, "params": params})


def result(request_id: object, value: object) -> bytes:
    """The answer to a request."""
    return to_line({"jsonrpc": "2.0", "id": request_id, "result": value})

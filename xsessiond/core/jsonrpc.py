"""JSON-RPC 2.0, one object per line: framing with a hard limit, and the few shapes that both ends build.

Laws: bytes go in, lines come out; a line is never cut and never longer than the limit; what is too long is skipped to
its end and reported with its size. Used by the broker, the CLI and the shims, so nothing is imported until a function
needs it. Refuses to know: sockets, methods, who speaks.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, REFUSED = -32700, -32600, -32601, -32602, -32000


class Oversize:
    """A line that was too long, standing in its place among the lines. size: bytes with the newline."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size


class EndlessLine(Exception):
    """A line went on past what is worth skipping. The link is of no use any more."""


class LineSplitter:
    """Cuts a byte stream into lines.

    limit: longest line in bytes, newline included. max_skip: how much of a longer one is skipped before `EndlessLine`.
    """

    __slots__ = ("_buffer", "_limit", "_max_skip", "_skipped")

    def __init__(self, limit: int, max_skip: int) -> None:
        self._buffer = bytearray()  # grows in place, so that a line that comes a byte at a time costs no more
        self._limit, self._max_skip = limit, max_skip
        self._skipped = 0

    @property
    def pending(self) -> int:
        """Bytes of an unfinished line that are held."""
        return len(self._buffer) + self._skipped

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        """Takes what was read; returns the lines it completed, without their newlines. Raises EndlessLine."""
        lines: list[bytes | Oversize] = []
        if self._skipped:
            end = data.find(b"\n")
            if end < 0:
                self._skip(len(data))
                return lines
            lines.append(Oversize(self._skipped + end + 1))
            self._skipped = 0
            data = data[end + 1 :]
        if self._buffer:
            if b"\n" not in data:
                self._hold(data)
                return lines
            self._buffer += data
            data = bytes(self._buffer)
            self._buffer.clear()
        parts = data.split(b"\n")
        rest = parts.pop()
        limit = self._limit
        for part in parts:
            lines.append(part if len(part) < limit else Oversize(len(part) + 1))
        if rest:
            self._hold(rest)
        return lines

    def _hold(self, rest: bytes) -> None:
        self._buffer += rest
        if len(self._buffer) >= self._limit:
            size = len(self._buffer)
            self._buffer.clear()
            self._skip(size)

    def _skip(self, count: int) -> None:
        self._skipped += count
        if self._skipped > self._max_skip:
            raise EndlessLine(self._skipped)


def encode(message: Mapping[str, object]) -> bytes:
    """One frame, with its newline. Lone surrogates are replaced: what leaves is always UTF-8."""
    import json

    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def request(request_id: int | str, method: str, params: Mapping[str, object]) -> bytes:
    """A frame that wants an answer."""
    return encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def notification(method: str, params: Mapping[str, object]) -> bytes:
    """A frame that wants none."""
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def result(request_id: object, value: object) -> bytes:
    """The answer to a request."""
    return encode({"jsonrpc": "2.0", "id": request_id, "result": value})


def error(request_id: object, code: int, text: str, data: object = None) -> bytes:
    """The answer to a request that failed."""
    problem: dict[str, object] = {"code": code, "message": text}
    if data is not None:
        problem["data"] = data
    return encode({"jsonrpc": "2.0", "id": request_id, "error": problem})


class NotJson(ValueError):
    """The line is not one JSON object."""


def decode(line: bytes) -> dict[str, object]:
    """One object from one line. Raises NotJson."""
    import json

    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise NotJson(str(problem)) from None
    if not isinstance(value, dict):
        raise NotJson("not an object")
    return value

"""The server's side of MCP as a machine: a line comes in, and what it means comes out.

Laws: it never waits and knows no broker; every request is answered exactly once, unless its caller cancelled it first.
A request says by itself which revision it speaks (2026-07-28: `_meta` of each request) or `initialize` said it for the
whole connection (2024-11-05 to 2025-11-25); both may be mixed, as the specification of 2026-07-28 allows. Refuses to
know: what a tool does.

    line ──▶ receive() ──▶ Reply(bytes)      write it
                           Call              run it, then finish(call, result) gives the bytes; then forget(call)
                           Cancel(call)      its caller does not want it any more; there is no answer
                           ClientSeen        who speaks, as it calls itself
"""

from __future__ import annotations

from xsessionctl.shim import frames
from xsessiond import __version__
from xsessiond.core import jsonrpc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    Event: TypeAlias = "Reply | Call | Cancel | ClientSeen"

STATEFUL_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Agreed on by `initialize`, oldest first."""
STATELESS_REVISION = "2026-07-28"
"""Named by each request."""
REVISIONS = (STATELESS_REVISION, *reversed(STATEFUL_REVISIONS))
"""All, in the order of our preference."""
BATCH_REVISION = "2025-03-26"
"""The only one that has batches."""

UNSUPPORTED_VERSION = -32022
_META_VERSION = "io.modelcontextprotocol/protocolVersion"
_META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_META_CLIENT = "io.modelcontextprotocol/clientInfo"
_META_SERVER = "io.modelcontextprotocol/serverInfo"
_CACHE_MS = 300_000
"""How long a client may keep the tool list: it changes with an upgrade only."""


class Reply:
    """Bytes for the client: one line."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Call:
    """A tool call. `arguments` and `meta` are as they came, `revision` is the one to answer in. `aside`: a
    subagent of the session made it, and gets its result."""

    __slots__ = ("arguments", "aside", "batch", "cancelled", "id", "meta", "revision", "tool")

    def __init__(
        self,
        request_id: str | int,
        tool: str,
        arguments: dict[str, object],
        meta: Mapping[str, object],
        revision: str,
        batch: _Batch | None,
    ) -> None:
        self.id, self.tool, self.arguments = request_id, tool, arguments
        self.meta, self.revision, self.batch = meta, revision, batch
        self.cancelled = self.aside = False

    @property
    def progress_token(self) -> str | int | None:
        """What the client wants to hear of the call's progress under, or None if it does not."""
        token = self.meta.get("progressToken")
        return token if isinstance(token, str | int) and not isinstance(token, bool) else None


class Cancel:
    """The client gave up waiting for this call."""

    __slots__ = ("call",)

    def __init__(self, call: Call) -> None:
        self.call = call


class ClientSeen:
    """The client said a first or further word.

    name: what it calls itself, or None. probing: so far it only asks what this server speaks; some clients start a
    process for that question alone.
    """

    __slots__ = ("name", "probing")

    def __init__(self, info: object, *, probing: bool) -> None:
        name = info.get("name") if isinstance(info, dict) else None
        self.name = name if isinstance(name, str) and name else None
        self.probing = probing


class _Batch:
    """The answers of a batch, gathered until all are there. written, dropped: whom to tell what became of them."""

    __slots__ = ("answers", "dropped", "open", "written")

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.written: list[Callable[[], None]] = []
        self.dropped: list[Callable[[], None]] = []
        self.open = 1  # the reading of the batch itself

    def close_one(self) -> bytes | None:
        self.open -= 1
        if self.open or not self.answers:
            return None
        return b"[" + b",".join(answer.rstrip(b"\n") for answer in self.answers) + b"]\n"


class _Invalid(Exception):
    """A request that is answered with a JSON-RPC error."""

    def __init__(self, code: int, text: str, data: object = None) -> None:
        super().__init__(text)
        self.code, self.text, self.data = code, text, data


class Protocol:
    """One connection.

    list_tools: revision → the tools as that revision writes them. instructions: what a client may tell its model about
    the server.
    """

    __slots__ = ("_instructions", "_list_tools", "_running", "revision")

    def __init__(self, list_tools: Callable[[str], list[dict[str, object]]], instructions: str) -> None:
        self._list_tools, self._instructions = list_tools, instructions
        self._running: dict[str | int, Call] = {}
        self.revision: str | None = None
        """What `initialize` agreed on, if there was one."""

    def receive(self, line: bytes | jsonrpc.Oversize) -> list[Event]:
        """What a line (without its newline) means. Never raises."""
        if isinstance(line, jsonrpc.Oversize):
            text = f"A line of {line.size} bytes is more than this server reads."
            return [Reply(self._failure(None, jsonrpc.INVALID_REQUEST, text))]
        if not line.strip():
            return []
        try:
            frame = frames.from_line(line)
        except ValueError:
            return [Reply(self._failure(None, jsonrpc.PARSE_ERROR, "The line is not JSON."))]
        if isinstance(frame, list):
            return self._receive_batch(frame)
        return self._receive_one(frame, None)

    def finish(self, call: Call, result: dict[str, object]) -> bytes | None:
        """The bytes to write once a call has its result: one line, or None while others of its batch still run.

        Until `forget` is called, because they were written, the client may still cancel it.
        """
        if call.cancelled:
            return call.batch.close_one() if call.batch else None
        answer = frames.result(call.id, _dress(result, call.revision))
        if call.batch is None:
            return answer
        call.batch.answers.append(answer)
        return call.batch.close_one()

    def forget(self, call: Call) -> None:
        """The call is over: its answer is written, or never will be."""
        if self._running.get(call.id) is call:
            del self._running[call.id]

    def _receive_batch(self, frames: list[object]) -> list[Event]:
        if self.revision != BATCH_REVISION or not frames:
            text = "The batch is empty." if not frames else f"Batches belong to revision {BATCH_REVISION} alone."
            return [Reply(self._failure(None, jsonrpc.INVALID_REQUEST, text))]
        batch = _Batch()
        events: list[Event] = []
        for frame in frames:
            for event in self._receive_one(frame, batch):
                if isinstance(event, Reply):
                    batch.answers.append(event.data)
                else:
                    events.append(event)
        whole = batch.close_one()
        if whole is not None:
            events.append(Reply(whole))
        return events

    def _receive_one(self, frame: object, batch: _Batch | None) -> list[Event]:
        if not isinstance(frame, dict):
            return [Reply(self._failure(None, jsonrpc.INVALID_REQUEST, "A JSON-RPC message is an object."))]
        has_id, request_id = "id" in frame, frame.get("id")
        usable = isinstance(request_id, str | int) and not isinstance(request_id, bool)
        method = frame.get("method")
        if frame.get("jsonrpc") == "2.0" and "method" not in frame and ("result" in frame or "error" in frame):
            return []  # an answer, and this server asks nothing
        if frame.get("jsonrpc") != "2.0" or not isinstance(method, str) or (has_id and not usable):
            text = 'A request has "jsonrpc": "2.0", a method, and a string or an integer as id.'
            return [Reply(self._failure(request_id if usable else None, jsonrpc.INVALID_REQUEST, text))]
        params = frame.get("params")
        if params is None:
            params = {}
        if not has_id:
            return self._receive_notification(method, params)
        assert isinstance(request_id, str | int)
        try:
            if not isinstance(params, dict):
                raise _Invalid(jsonrpc.INVALID_PARAMS, "params must be an object.")
            if request_id in self._running:
                raise _Invalid(jsonrpc.INVALID_REQUEST, "A request with this id is still running.")
            return self._receive_request(request_id, method, params, batch)
        except _Invalid as problem:
            return [Reply(self._failure(request_id, problem.code, problem.text, problem.data))]

    def _receive_notification(self, method: str, params: object) -> list[Event]:
        if method != "notifications/cancelled" or not isinstance(params, dict):
            return []
        wanted = params.get("requestId")
        call = self._running.pop(wanted, None) if isinstance(wanted, str | int) else None
        if call is None:
            return []
        call.cancelled = True
        return [Cancel(call)]

    def _receive_request(
        self, request_id: str | int, method: str, params: dict[str, object], batch: _Batch | None
    ) -> list[Event]:
        if method == "initialize":
            return self._initialize(request_id, params)
        meta = params.get("_meta")
        meta = meta if isinstance(meta, dict) else {}
        events: list[Event] = []
        if _META_VERSION in meta:
            revision = _check_envelope(meta)
            events.append(ClientSeen(meta.get(_META_CLIENT), probing=method == "server/discover"))
        elif method == "server/discover":
            raise _Invalid(jsonrpc.INVALID_PARAMS, f"params._meta must carry {_META_VERSION} and {_META_CAPABILITIES}.")
        else:
            # A client that skipped `initialize`, or a hook that carries no `_meta`, is served as the newest that needs
            # none.
            revision = self.revision or STATEFUL_REVISIONS[-1]
        if method == "tools/call":
            events.append(self._call(request_id, params, meta, revision, batch))
            return events
        result = _dress(self._answer(method, params, revision), revision)
        return [*events, Reply(frames.result(request_id, result))]

    def _answer(self, method: str, params: Mapping[str, object], revision: str) -> dict[str, object]:
        if method == "tools/list":
            if params.get("cursor") is not None:
                raise _Invalid(jsonrpc.INVALID_PARAMS, "There is one page of tools; this cursor was never given out.")
            return {"tools": self._list_tools(revision), **_cacheable(revision)}
        if method == "ping" and revision != STATELESS_REVISION:
            return {}
        if method == "server/discover" and revision == STATELESS_REVISION:
            return {
                "supportedVersions": list(REVISIONS),
                "capabilities": {"tools": {}},
                "instructions": self._instructions,
                **_cacheable(revision),
            }
        raise _Invalid(jsonrpc.METHOD_NOT_FOUND, f"There is no method {method[:80]!r} in revision {revision}.")

    def _initialize(self, request_id: str | int, params: Mapping[str, object]) -> list[Event]:
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            raise _Invalid(jsonrpc.INVALID_PARAMS, "protocolVersion must be a string such as 2025-11-25.")
        self.revision = wanted if wanted in STATEFUL_REVISIONS else STATEFUL_REVISIONS[-1]
        result = {
            "protocolVersion": self.revision,
            "capabilities": {"tools": {}},
            "serverInfo": _server_info(self.revision),
            "instructions": self._instructions,
        }
        seen = ClientSeen(params.get("clientInfo"), probing=False)
        return [seen, Reply(frames.result(request_id, result))]

    def _call(
        self,
        request_id: str | int,
        params: Mapping[str, object],
        meta: Mapping[str, object],
        revision: str,
        batch: _Batch | None,
    ) -> Call:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise _Invalid(jsonrpc.INVALID_PARAMS, "name must be a string: the tool to call.")
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            raise _Invalid(jsonrpc.INVALID_PARAMS, "arguments must be an object.")
        tools = [str(tool["name"]) for tool in self._list_tools(revision)]
        if name not in tools:
            raise _Invalid(jsonrpc.INVALID_PARAMS, f"There is no tool {name[:80]!r}; there are {', '.join(tools)}.")
        call = Call(request_id, name, arguments, meta, revision, batch)
        self._running[request_id] = call
        if batch is not None:
            batch.open += 1
        return call

    def _failure(self, request_id: str | int | None, code: int, text: str, data: object = None) -> bytes:
        problem: dict[str, object] = {"code": code, "message": text}
        if data is not None:
            problem["data"] = data
        frame: dict[str, object] = {"jsonrpc": "2.0", "error": problem}
        # An id that could not be read: JSON-RPC writes null, the schemas of MCP since 2025-11-25 leave it out.
        if request_id is not None or self.revision in STATEFUL_REVISIONS[:-1]:
            frame["id"] = request_id
        return frames.to_line(frame)


def _check_envelope(meta: Mapping[str, object]) -> str:
    """The revision that the request speaks; raises _Invalid for one that is not ours or not whole."""
    wanted = meta[_META_VERSION]
    if not isinstance(wanted, str):
        raise _Invalid(jsonrpc.INVALID_PARAMS, f"{_META_VERSION} must be a string.")
    if wanted != STATELESS_REVISION:
        data = {"supported": list(REVISIONS), "requested": wanted}
        raise _Invalid(UNSUPPORTED_VERSION, f"Unsupported protocol version {wanted[:40]!r}.", data)
    if not isinstance(meta.get(_META_CAPABILITIES), dict):
        raise _Invalid(jsonrpc.INVALID_PARAMS, f"params._meta is missing {_META_CAPABILITIES}, an object.")
    return wanted


def _cacheable(revision: str) -> dict[str, object]:
    return {"ttlMs": _CACHE_MS, "cacheScope": "public"} if revision == STATELESS_REVISION else {}


def _server_info(revision: str) -> dict[str, object]:
    info: dict[str, object] = {"name": "xsessiond", "version": __version__}
    if revision >= "2025-06-18":
        info["title"] = "Messages between agent sessions"
    return info


def _dress(result: dict[str, object], revision: str) -> dict[str, object]:
    """A result with what the revision wants on every one."""
    if revision != STATELESS_REVISION:
        return result
    return {"resultType": "complete", **result, "_meta": {_META_SERVER: _server_info(revision)}}

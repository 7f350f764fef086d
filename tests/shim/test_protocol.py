"""The MCP machine alone: revisions, errors, batches, cancelling; every answer against the official types of its
revision."""

from __future__ import annotations

import json
from typing import Any

import mcp_types._v2025_11_25 as schema_2025_11_25
import mcp_types._v2026_07_28 as schema_2026_07_28
import pytest
from mcp_types import DiscoverResult, InitializeResult, methods
from mcp_types.jsonrpc import JSONRPCError, JSONRPCResponse

from xsessionctl.shim.protocol import (
    REVISIONS,
    STATEFUL_REVISIONS,
    STATELESS_REVISION,
    Call,
    Cancel,
    ClientSeen,
    Protocol,
    Reply,
)
from xsessionctl.shim.tools import INSTRUCTIONS, list_tools
from xsessiond.core.jsonrpc import Oversize

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": STATELESS_REVISION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
}


class Client:
    """A client of one `Protocol`: speaks a revision, and checks each answer against its official types."""

    def __init__(self, revision: str | None = None) -> None:
        self.protocol = Protocol(list_tools, INSTRUCTIONS)
        self.revision = revision
        self.last_id = 0
        if revision in STATEFUL_REVISIONS:
            self.ask("initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": _info("tester")})

    def events(self, frame: object) -> list[Any]:
        return list(self.protocol.receive(frame if isinstance(frame, bytes) else json.dumps(frame).encode()))

    def frame(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self.last_id += 1
        params = dict(params or {})
        if self.revision == STATELESS_REVISION:
            params["_meta"] = {**ENVELOPE, **params.get("_meta", {})}
        return {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        (answer,) = [reply for reply in self.events(self.frame(method, params)) if isinstance(reply, Reply)]
        return self.checked(method, answer.data)

    def call(self, tool: str, arguments: dict[str, Any] | None = None) -> Call:
        (call,) = [
            event
            for event in self.events(self.frame("tools/call", {"name": tool, "arguments": arguments or {}}))
            if isinstance(event, Call)
        ]
        return call

    def checked(self, method: str, line: bytes) -> Any:
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        answer = json.loads(line)
        if "error" in answer:
            JSONRPCError.model_validate(answer)
            return answer
        JSONRPCResponse.model_validate(answer)
        if (method, self.revision) in methods.SERVER_RESULTS:
            methods.validate_server_result(method, str(self.revision), answer["result"])
        return answer["result"]


def _info(name: str) -> dict[str, str]:
    return {"name": name, "version": "1"}


def _error(event: Any) -> dict[str, Any]:
    assert isinstance(event, Reply)
    answer: dict[str, Any] = json.loads(event.data)
    if "id" in answer:
        JSONRPCError.model_validate(answer)
    else:  # the schemas since 2025-11-25 leave out what could not be read; the SDK's own type wants null
        schema_2025_11_25.JSONRPCErrorResponse.model_validate(answer)
        schema_2026_07_28.Error.model_validate(answer["error"])
    return answer


@pytest.mark.parametrize("revision", STATEFUL_REVISIONS)
def test_initialize_agrees_on_a_revision_that_both_know(revision: str) -> None:
    client = Client()
    client.revision = revision
    result = client.ask("initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": _info("x")})
    InitializeResult.model_validate(result)
    assert result["protocolVersion"] == revision
    assert result["serverInfo"]["name"] == "xsessiond"
    assert ("title" in result["serverInfo"]) == (revision >= "2025-06-18")
    assert client.ask("ping") == {}


@pytest.mark.parametrize("wanted", ["1999-01-01", "2026-07-28", "2027-01-01", ""])
def test_initialize_offers_the_newest_stateful_revision_for_any_other(wanted: str) -> None:
    result = Client().ask("initialize", {"protocolVersion": wanted, "capabilities": {}})
    assert result["protocolVersion"] == "2025-11-25"


def test_discover_names_all_revisions_and_needs_no_handshake() -> None:
    result = Client(STATELESS_REVISION).ask("server/discover")
    DiscoverResult.model_validate(result)
    assert result["supportedVersions"] == list(REVISIONS)
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "xsessiond"
    assert result["instructions"] == INSTRUCTIONS


def test_every_answer_of_the_stateless_revision_says_what_it_is() -> None:
    client = Client(STATELESS_REVISION)
    listed = client.ask("tools/list")
    assert listed["resultType"] == "complete"
    assert listed["cacheScope"] == "public"
    call = client.call("list_agents")
    line = client.protocol.finish(call, {"content": [], "structuredContent": {}, "isError": False})
    assert line is not None
    assert client.checked("tools/call", line)["resultType"] == "complete"


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_tools_are_written_with_what_the_revision_knows(revision: str) -> None:
    tools = Client(revision).ask("tools/list")["tools"]
    assert [tool["name"] for tool in tools] == [
        "list_agents",
        "send_message",
        "check_delivery",
        "read_messages",
        "rename_session",
    ]
    for tool in tools:
        assert ("annotations" in tool) == (revision >= "2025-03-26")
        assert ("outputSchema" in tool) == (revision >= "2025-06-18")
        assert ("title" in tool) == (revision >= "2025-06-18")
        assert tool.get("_meta", {}).get("anthropic/alwaysLoad", False) == (revision >= "2025-06-18")


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_tool_call_is_handed_out_with_its_revision_and_answered_once(revision: str) -> None:
    client = Client(revision)
    call = client.call("send_message", {"to": "web", "message": "x"})
    assert (call.tool, call.revision, call.arguments) == ("send_message", revision, {"to": "web", "message": "x"})
    line = client.protocol.finish(call, {"content": [{"type": "text", "text": "done"}], "isError": False})
    assert line is not None
    assert client.checked("tools/call", line)["content"][0]["text"] == "done"


def test_both_eras_are_served_on_one_connection() -> None:
    client = Client("2025-06-18")
    client.revision = STATELESS_REVISION
    assert client.ask("tools/list")["resultType"] == "complete"
    client.revision = "2025-06-18"
    assert "resultType" not in client.ask("tools/list")


def test_a_call_without_handshake_and_without_meta_is_served() -> None:
    """A harness's hook calls a tool in the bare form."""
    assert Client().call("list_agents").revision == "2025-11-25"


@pytest.mark.parametrize(
    "meta, code",
    [
        ({"io.modelcontextprotocol/protocolVersion": "2026-07-28"}, -32602),
        ({**ENVELOPE, "io.modelcontextprotocol/protocolVersion": 7}, -32602),
        ({**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": None}, -32602),
        ({**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "1900-01-01"}, -32022),
        ({**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2025-11-25"}, -32022),
    ],
)
def test_an_envelope_that_is_not_whole_or_not_ours_is_refused(meta: dict[str, object], code: int) -> None:
    frame = {"jsonrpc": "2.0", "id": "a", "method": "tools/list", "params": {"_meta": meta}}
    (event,) = Client().events(frame)
    answer = _error(event)
    assert (answer["id"], answer["error"]["code"]) == ("a", code)
    if code == -32022:
        assert answer["error"]["data"]["supported"] == list(REVISIONS)


def test_discover_without_an_envelope_is_refused() -> None:
    (event,) = Client().events({"jsonrpc": "2.0", "id": 1, "method": "server/discover"})
    assert _error(event)["error"]["code"] == -32602


@pytest.mark.parametrize(
    "line, code, answer_id",
    [
        (b"{", -32700, None),
        (b"\xff\xfe\x00", -32700, None),
        (b"[" * 200_000, -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"} trailing', -32700, None),
        (b"7", -32600, None),
        (b"null", -32600, None),
        (b'"text"', -32600, None),
        (b"[]", -32600, None),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, 1),
        (b'{"id":1,"method":"ping"}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":"x","method":"no/such"}', -32601, "x"),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}', -32601, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}', -32601, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize"}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":3}}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"abc"}}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_agents","arguments":[]}}', -32602, 1),
    ],
)
def test_what_is_no_request_gets_the_error_that_says_so(line: bytes, code: int, answer_id: object) -> None:
    (event,) = Client("2025-06-18").events(line)
    answer = _error(event)
    assert answer["error"]["code"] == code
    assert answer["error"]["message"]
    assert answer.get("id") == answer_id


@pytest.mark.parametrize("revision, has_id", [("2024-11-05", True), ("2025-11-25", False), ("2026-07-28", False)])
def test_an_id_that_cannot_be_read_is_null_or_absent_as_the_revision_wants(revision: str, *, has_id: bool) -> None:
    (event,) = Client(revision).events(b"{")
    assert ("id" in _error(event)) == has_id


def test_a_line_beyond_the_limit_is_refused_with_its_size() -> None:
    (event,) = Client().protocol.receive(Oversize(99_000_000))
    assert "99000000" in _error(event)["error"]["message"]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"  \r",
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
        b'{"jsonrpc":"2.0","id":9,"result":{}}',
        b'{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"x"}}',
    ],
)
def test_what_wants_no_answer_gets_none(line: bytes) -> None:
    assert Client("2025-06-18").events(line) == []


def test_a_byte_order_mark_and_a_carriage_return_are_overlooked() -> None:
    (event,) = Client().events(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}\r')
    assert json.loads(event.data)["result"] == {}


def test_half_a_surrogate_pair_in_an_id_still_gets_an_answer_in_utf8() -> None:
    (event,) = Client().events(b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}')
    assert json.loads(event.data.decode())["id"] == "?"


def test_the_client_is_named_by_either_era() -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _info("codex")}
    client = Client(STATELESS_REVISION)
    frames = [
        {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params},
        client.frame("server/discover"),
        client.frame("tools/list"),
        {"jsonrpc": "2.0", "id": "j", "method": "initialize", "params": {**params, "clientInfo": {"name": 7}}},
    ]
    seen = [event for frame in frames for event in client.events(frame) if isinstance(event, ClientSeen)]
    assert [(event.name, event.probing) for event in seen] == [
        ("codex", False), ("tester", True), ("tester", False), (None, False),
    ]  # fmt: skip


def test_a_cancelled_call_is_reported_and_has_no_answer() -> None:
    client = Client("2025-11-25")
    call = client.call("list_agents")
    (event,) = client.events(
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call.id, "reason": "user"}}
    )
    assert isinstance(event, Cancel)
    assert event.call is call
    assert client.protocol.finish(call, {"content": []}) is None


def test_an_id_that_is_in_use_is_refused_and_free_again_afterwards() -> None:
    client = Client("2025-11-25")
    call = client.call("list_agents")
    frame = {"jsonrpc": "2.0", "id": call.id, "method": "ping"}
    (event,) = client.events(frame)
    assert _error(event)["error"]["code"] == -32600
    client.protocol.finish(call, {"content": []})
    (event,) = client.events(frame)  # its answer is not written yet
    assert _error(event)["error"]["code"] == -32600
    client.protocol.forget(call)
    (event,) = client.events(frame)
    assert json.loads(event.data)["result"] == {}


class TestBatches:
    """Revision 2025-03-26 must take them; no other has them."""

    PINGS = ({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": 2, "method": "ping"})

    @pytest.mark.parametrize("revision", [revision for revision in REVISIONS if revision != "2025-03-26"])
    def test_other_revisions_refuse_them(self, revision: str) -> None:
        (event,) = Client(revision).events(self.PINGS)
        assert _error(event)["error"]["code"] == -32600

    def test_the_answers_come_as_one_array(self) -> None:
        (event,) = Client("2025-03-26").events(
            [*self.PINGS, {"jsonrpc": "2.0", "method": "notifications/initialized"}, 7]
        )
        answers = json.loads(event.data)
        assert [answer.get("id") for answer in answers] == [1, 2, None]
        assert answers[2]["error"]["code"] == -32600

    def test_notifications_alone_get_no_answer(self) -> None:
        assert Client("2025-03-26").events([{"jsonrpc": "2.0", "method": "notifications/initialized"}]) == []

    def test_calls_are_waited_for_together(self) -> None:
        client = Client("2025-03-26")
        events = client.events([self.PINGS[0], _call_frame("a"), _call_frame("b")])
        first, second = events
        assert client.protocol.finish(first, {"content": []}) is None
        whole = client.protocol.finish(second, {"content": []})
        assert whole is not None
        assert [answer["id"] for answer in json.loads(whole)] == [1, "a", "b"]

    def test_a_cancelled_call_does_not_hold_up_the_rest(self) -> None:
        client = Client("2025-03-26")
        first, second = client.events([_call_frame("a"), _call_frame("b")])
        client.events({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "b"}})
        assert client.protocol.finish(first, {"content": []}) is None
        whole = client.protocol.finish(second, {})
        assert whole is not None
        assert [answer["id"] for answer in json.loads(whole)] == ["a"]


def _call_frame(request_id: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": {"name": "list_agents"}}


def test_the_client_is_asked_nothing() -> None:
    """5.2: no answer of a harness is taken for its user's, so its dialogs are not used, whatever it offers."""
    protocol = Protocol(lambda _: [], "")
    offered = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
    info = {"name": "claude-code", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": offered, "clientInfo": info}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    replies = [event for event in protocol.receive(line) if isinstance(event, Reply)]
    frames = [json.loads(reply.data) for reply in replies]
    assert all("method" not in frame for frame in frames)
    assert [frame["id"] for frame in frames] == [1]

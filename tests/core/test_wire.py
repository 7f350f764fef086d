"""Where bytes become values: each request as its type, and why a frame is none."""

from __future__ import annotations

import json
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from xsessiond.core import wire as w
from xsessiond.core.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from xsessiond.core.wire import Answer, BadFrame, decode_frame
from xsessiond.core.wire_params import AckParams, HelloParams, ListParams, Resume


def frame(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def call(method: str, **params: object) -> object:
    return decode_frame(frame(id=1, method=method, params=params))


def bad(line: bytes) -> BadFrame:
    found = decode_frame(line)
    assert isinstance(found, BadFrame)
    return found


@pytest.mark.parametrize(
    "line, value",
    [
        (frame(id=1, method="hello", params={"protocol": 1}), w.Hello(HelloParams(1), jsonrpc="2.0", id=1)),
        (frame(id="a", method="list"), w.ListSessions(jsonrpc="2.0", id="a")),
        (
            frame(id=None, method="list", params={"all": True}),
            w.ListSessions(ListParams(all=True), jsonrpc="2.0", id=None),
        ),
        (frame(method="ack", params={"ids": ["m-1"]}), w.Ack(AckParams(("m-1",)), jsonrpc="2.0")),
        (frame(id=1, method="take", params={"max": None}), w.Take(jsonrpc="2.0", id=1)),
        (frame(id=1, method="status", params=[1]), w.Status(msgspec.Raw(b"[1]"), jsonrpc="2.0", id=1)),
        (frame(id=1, method="status"), w.Status(jsonrpc="2.0", id=1)),
        (frame(id=1, method="list", params={"nonsense": 1}), w.ListSessions(jsonrpc="2.0", id=1)),
    ],
)
def test_a_request_is_a_value_of_its_type(line: bytes, value: object) -> None:
    """Unknown keys are ignored, absent means null, and the frozen methods take any params."""
    assert decode_frame(line) == value


def test_the_methods_are_those_of_the_types() -> None:
    assert len(w.METHODS) == len(get_args(w.AnyRequest))
    assert {"hello", "register", "attach", "turn", "status", "stop", "cancel"} <= w.METHODS


def test_names_of_the_wire_are_not_those_of_the_code() -> None:
    registered = call("register", **{"class": "bypass", "pid": 7, "resume": {"id": "s-1", "token": "t"}})
    assert isinstance(registered, w.Register)
    assert registered.params.perm_class == "bypass"
    assert registered.params.resume == Resume("s-1", "t")
    updated = call("update", **{"class": None, "state": "busy"})
    assert isinstance(updated, w.Update)
    assert (updated.params.perm_class, updated.params.state) == (None, "busy")
    assert updated.params.harness_session_id is UNSET


@pytest.mark.parametrize(
    "line, code, request_id, text",
    [
        (b"", PARSE_ERROR, None, "Not a JSON object"),
        (b"{", PARSE_ERROR, None, "Not a JSON object"),
        (b"GET / HTTP/1.1\r", PARSE_ERROR, None, "Not a JSON object"),
        (b"\xff\xfe", PARSE_ERROR, None, "Not a JSON object"),
        (b'{"a":"\xff"', PARSE_ERROR, None, "Not a JSON object"),
        (b"[" * 100_000, INVALID_REQUEST, None, "Not a JSON-RPC request"),
        (b"[]", INVALID_REQUEST, None, "Not a JSON-RPC request"),
        (b"1", INVALID_REQUEST, None, "Not a JSON-RPC request"),
        (frame(id=1.5, method="list"), INVALID_REQUEST, None, "Not a JSON-RPC request"),
        (frame(id=1, method=1), INVALID_REQUEST, None, "Not a JSON-RPC request"),
        (b"{}", INVALID_REQUEST, None, "jsonrpc"),
        (b'{"id":1,"method":"list"}', INVALID_REQUEST, 1, '"jsonrpc" must be "2.0"'),
        (frame(id=1), INVALID_REQUEST, 1, "no method"),
        (frame(result={}), INVALID_REQUEST, None, "no method"),
        (frame(id=3, method="nonsense"), METHOD_NOT_FOUND, 3, "'nonsense'"),
        (frame(id=3, method="x" * 1000), METHOD_NOT_FOUND, 3, "x" * 80),
        (frame(id=3, method="rename", params={}), INVALID_PARAMS, 3, "missing required field `name`"),
        (frame(id=3, method="send"), INVALID_PARAMS, 3, "params of send"),
        (frame(id=3, method="take", params={"max": "x"}), INVALID_PARAMS, 3, "$.params.max"),
        (frame(id=3, method="list", params=[]), INVALID_PARAMS, 3, "params of list"),
        (frame(id=3, method="register", params={"delivery": "soon"}), INVALID_PARAMS, 3, "'soon'"),
    ],
)
def test_what_is_no_request_says_why(line: bytes, code: int, request_id: object, text: str) -> None:
    found = bad(line)
    assert (found.code, found.id) == (code, request_id)
    assert text in found.text
    assert found.text.endswith(".")
    assert len(found.text) < 300
    assert found.fatal == (code == PARSE_ERROR or line[:1] != b"{"), "only an object can be of some version of ours"
    assert found.refusal == ("usage" if code == INVALID_PARAMS else None)


@pytest.mark.parametrize("message", [b"null", b"1", b"true", b"[]", b'{"type":"x"}', b'"\\ud800"', b'"\xff"'])
def test_a_body_that_is_no_text_is_told_apart_from_other_faults(message: bytes) -> None:
    """3.1: the sender hears `not_text` and not that its params were wrong; the link goes on."""
    found = bad(b'{"jsonrpc":"2.0","id":3,"method":"send","params":{"to":"web","message":' + message + b"}}")
    assert (found.id, found.refusal, found.fatal) == (3, "not_text", False)


@pytest.mark.parametrize(
    "written, request_id", [("7", 7), ('"a"', "a"), ("true", None), ("1.5", None), ('"\\ud800"', None), ("null", None)]
)
def test_half_of_a_character_is_answered_under_its_id(written: str, request_id: object) -> None:
    found = bad(b'{"jsonrpc":"2.0","method":"rename","params":{"name":"\\uD83D"},"id":%s}' % written.encode())
    assert (found.id, found.refusal, found.fatal) == (request_id, "not_text", False)


@pytest.mark.parametrize("line", [b'{"a":"\\ud800"', b'["\\ud800"]', b'{"a":"\\udzzz"}', b'"\\ud800"'])
def test_half_of_a_character_excuses_nothing_else(line: bytes) -> None:
    assert bad(line).fatal


def test_an_answer_to_our_question_is_an_answer() -> None:
    assert decode_frame(frame(id="ping-1", result={})) == Answer("ping-1")
    assert decode_frame(frame(id=7, error={"code": 1})) == Answer(7)
    assert isinstance(decode_frame(frame(id=None, result={})), BadFrame)


@given(st.binary(max_size=200))
def test_no_bytes_raise(line: bytes) -> None:
    decode_frame(line.replace(b"\n", b""))


@given(
    st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["2.0", *sorted(w.METHODS)]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    ))
)  # fmt: skip
def test_no_object_raises(members: dict[str, object]) -> None:
    decode_frame(json.dumps(members).encode())

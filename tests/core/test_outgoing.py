"""Frames that leave: one line each."""

from __future__ import annotations

import pytest

from xsessiond.core import outgoing as out


def test_what_leaves_is_one_line_each() -> None:
    assert out.encode_result(1, {"a": "b\nc"}) == b'{"jsonrpc":"2.0","id":1,"result":{"a":"b\\nc"}}\n'
    assert out.encode_error(None, -1, "no", {"code": "x"}) == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no","data":{"code":"x"}}}\n'
    )
    assert (
        out.encode_notification("mail", {"queued": 1}) == b'{"jsonrpc":"2.0","method":"mail","params":{"queued":1}}\n'
    )
    assert out.encode_call("p", "ping", {}) == b'{"jsonrpc":"2.0","id":"p","method":"ping","params":{}}\n'


@pytest.mark.parametrize(
    "sent, request_id",
    [
        (out.encode_result(7, {}), 7),
        (out.encode_error("x", -1, "no", None), "x"),
        (out.encode_error(None, -1, "no", None), None),
        (out.encode_notification("mail", {}), None),
        (out.encode_call("ping-1", "ping", {}), None),
    ],
)
def test_our_own_frames_tell_which_request_they_answer(sent: bytes, request_id: object) -> None:
    assert out.answered_request(sent) == request_id

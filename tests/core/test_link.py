"""One peer's side of the protocol: what it may say when, and what bytes that are no frame lead to."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from xsessiond.core import jsonrpc
from xsessiond.core.limits import MAX_FRAME, MAX_SKIP
from xsessiond.core.link import STEPS, Frame, Link, LinkState
from xsessiond.core.wire import AnyRequest, BadFrame, Status, decode_frame

HELLO, READY, DRAINING, CLOSED = LinkState
EVENTS = ("agreed", "drain", "close")
STATUS = b'{"jsonrpc":"2.0","id":1,"method":"status"}\n'
PARAMS = {
    "hello": {"protocol": 1},
    "attach": {"token": ""},
    "send": {"message": "x"},
    "ack": {},
    "handed": {"ids": []},
    "release": {"ids": []},
    "rename": {"name": "x"},
    "turn": {"phase": "ended"},
    "cancel": {"id": 1},
    "decide": {"verdict": "deny"},
    "revoke_trust": {"id": "t-1"},
    "grant": {"name": "box", "directory": "/d", "cwd": "/"},
    "revoke_grant": {"of": "box"},
    "explain": {"sender": "api", "receiver": "web"},
}


def bad(link: Link, data: bytes) -> BadFrame:
    (frame,) = link.receive(data)
    assert isinstance(frame, BadFrame)
    return frame


@pytest.mark.parametrize("state, event", list(itertools.product(LinkState, EVENTS)))
def test_the_whole_table(state: LinkState, event: str) -> None:
    """Each pair leads to its state; one that cannot happen is an error that names both, and changes nothing."""
    link = Link()
    link.state = state
    if (state, event) in STEPS:
        link.step(event)
        assert link.state is STEPS[state, event]
    else:
        assert (state, event) in {(CLOSED, "agreed"), (CLOSED, "drain")}
        with pytest.raises(KeyError, match=f"CLOSED.*{event}"):
            link.step(event)
        assert link.state is state


@pytest.mark.parametrize(
    "state, allowed",
    [
        (HELLO, "hello status stop restart"),
        (READY, None),
        (DRAINING, "hello status stop ack handed release end"),
        (CLOSED, "hello status stop restart"),
    ],
)
def test_what_may_come_when(state: LinkState, allowed: str | None) -> None:
    """While the broker stops, what settles mail that was given out is still taken: else it would come twice."""
    link = Link()
    link.state = state
    requests = []
    for kind in get_args(AnyRequest):
        method = str(kind.__struct_config__.tag)
        frame = decode_frame(jsonrpc.request(1, method, PARAMS.get(method, {})))
        assert isinstance(frame, kind)
        requests.append((method, frame))
    methods = {method for method, frame in requests if link.allows(frame)}
    assert methods == ({method for method, _ in requests} if allowed is None else set(allowed.split()))


def test_frames_come_as_their_bytes_do() -> None:
    link = Link()
    assert link.receive(STATUS[:10]) == []
    assert link.unfinished == 10
    frames = link.receive(STATUS[10:] + STATUS + STATUS[:1])
    assert [type(frame) for frame in frames] == [Status, Status]
    assert link.unfinished == 1


def test_what_is_too_long_is_skipped_and_told_with_both_sizes() -> None:
    """3.5: the frame behind it is as good as any."""
    link = Link()
    frames: list[Frame] = link.receive(b"x" * MAX_FRAME + b"\n" + STATUS)
    assert isinstance(frames[0], BadFrame)
    assert (frames[0].refusal, frames[0].fatal, frames[0].code) == ("too_large", False, jsonrpc.REFUSED)
    assert str(MAX_FRAME + 1) in frames[0].text
    assert str(MAX_FRAME) in frames[0].text
    assert isinstance(frames[1], Status)


def test_the_longest_frame_goes() -> None:
    padding = b'{"jsonrpc":"2.0","id":1,"method":"status","x":"'
    line = padding + b"x" * (MAX_FRAME - len(padding) - 3) + b'"}\n'
    assert len(line) == MAX_FRAME
    assert isinstance(Link().receive(line)[0], Status)


def test_a_line_that_never_ends_is_fatal() -> None:
    link = Link()
    chunk = b"x" * (1 << 20)
    frames: list[Frame] = []
    for _ in range(MAX_SKIP // len(chunk) + 1):
        frames += link.receive(chunk)
    assert len(frames) == 1
    assert isinstance(frames[0], BadFrame)
    assert (frames[0].fatal, frames[0].refusal) == (True, "too_large")


@pytest.mark.parametrize(
    "line", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\n", b"\xff\xfe\n", b"{\n", b"\n", b'"text"\n{}\n', b"[]\n"]
)
def test_what_is_no_object_is_fatal_or_answered(line: bytes) -> None:
    """S1: and what stands behind fatal bytes is not looked at."""
    frames = Link().receive(line + STATUS)
    first = frames[0]
    assert isinstance(first, BadFrame)
    assert first.fatal == (len(frames) == 1)
    assert first.code in (jsonrpc.PARSE_ERROR, jsonrpc.INVALID_REQUEST)


def test_nothing_comes_over_a_closed_link() -> None:
    link = Link()
    link.step("close")
    assert link.receive(STATUS) == []


def test_a_refused_frame_leaves_the_link_as_it_was() -> None:
    link = Link()
    link.step("agreed")
    assert bad(link, b'{"jsonrpc":"2.0","id":7,"method":"nonsense"}\n').id == 7
    assert link.state is READY

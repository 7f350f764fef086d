"""What the request to send alone tells, at the edges of what is allowed."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from tests.support.core_house import House, is_sentence, refused
from xsessiond.core.draft import draft_of
from xsessiond.core.errors import Refusal
from xsessiond.core.limits import MAX_BODY, MAX_KEY, MAX_LABEL
from xsessiond.core.state import Caller
from xsessiond.core.wire import Send, decode_frame


def request(message: object = "hello", **params: object) -> Send:
    line = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "send", "params": {"message": message, **params}})
    found = decode_frame(line.encode())
    assert isinstance(found, Send)
    return found


def make(message: object = "hello", **params: object) -> Refusal | None:
    """Makes a draft; the refusal, if it is refused."""
    asked = request(message, **params)
    try:
        draft = draft_of(3, asked, Caller("human", House().broker.core.human))
    except Refusal as problem:
        refusal = problem
    else:
        assert (draft.link, draft.request_id, draft.body) == (3, 7, message)
        assert (draft.size, draft.digest) == (len(str(message).encode()), sha256(str(message).encode()).digest())
        assert (draft.pin, draft.notice, draft.thread, draft.original) == (None, None, None, None)
        return None
    assert is_sentence(refusal.text)
    assert is_sentence(refusal.hint or "")
    return refusal


@pytest.mark.parametrize(
    "message, code",
    [
        ("x", None),
        ("grüße 🙂", None),
        ("x" * MAX_BODY, None),
        ("x" * (MAX_BODY + 1), "too_large"),
        ("é" * (MAX_BODY // 2), None),
        ("é" * (MAX_BODY // 2 + 1), "too_large"),
        ("\n" + "x\n" * (MAX_BODY // 3 - 1), None),
        ("x" + "\n" * (MAX_BODY // 2), "too_large"),
        ("x" + "\t" * (MAX_BODY // 6), None),
        ("", "empty"),
        (" \n\t", "empty"),
        ("a\0b", "not_text"),
        ('{"type":"shutdown_request"}', "not_text"),
    ],
)
def test_bodies(message: str, code: str | None) -> None:
    """3.1, 3.5: the limit counts what it takes on the wire; both sizes are told."""
    refusal = make(message)
    assert (refusal and refusal.code) == code
    if code == "too_large":
        assert refusal is not None
        assert refusal.detail == {"bytes": len(message.encode()), "limit": MAX_BODY}
        assert str(len(message.encode())) in refusal.text
        assert str(MAX_BODY) in refusal.text


@pytest.mark.parametrize(
    "params, code",
    [
        ({"summary": "s" * MAX_LABEL}, None),
        ({"summary": "s" * (MAX_LABEL + 1)}, "too_large"),
        ({"key": "k"}, None),
        ({"key": "k" * MAX_KEY}, None),
        ({"key": "k" * (MAX_KEY + 1)}, "usage"),
        ({"key": ""}, "usage"),
        ({"when_offline": "queue"}, None),
        ({"when_offline": "resume"}, None),
        ({"notify_when_idle": True}, None),
        ({"notify_when_idle": False, "when_offline": "refuse"}, None),
    ],
)
def test_what_this_broker_cannot_do_is_refused(params: dict[str, object], code: str | None) -> None:
    """3.6: never left out in silence."""
    refusal = make(**params)
    assert (refusal and refusal.code) == code


def test_a_bad_draft_stores_nothing() -> None:
    house = House()
    api, web = house.join("api"), house.join("web")
    before = house.state()
    for params in ({"text": ""}, {"text": "x", "key": ""}, {"text": "x", "summary": "s" * 201}):
        refused(lambda params=params: api.send(web, **params))  # type: ignore[misc]
    assert house.state() == before


@pytest.mark.parametrize(
    "params, refused_as",
    [
        ({"notify_when_idle": True}, None),
        ({"notify_when_idle": True, "key": "k", "to": "web", "reply_to": "m-1", "mode": "auto"}, None),
        ({"notify_when_idle": True, "wait_reply": 0, "when_offline": "refuse", "summary": ""}, None),
        ({}, "usage"),
        ({"notify_when_idle": False, "to": "web"}, "usage"),
        ({"notify_when_idle": True, "wait_reply": 1}, "usage"),
        ({"notify_when_idle": True, "summary": "s"}, "usage"),
        ({"notify_when_idle": True, "mode": "steer"}, "usage"),
        ({"notify_when_idle": True, "when_offline": "queue"}, "usage"),
        ({"notify_when_idle": True, "when_offline": "resume"}, "usage"),
    ],
)
def test_only_a_wish_to_be_told_goes_without_a_message(params: dict[str, object], refused_as: str | None) -> None:
    """9.1: with or without a text; what means nothing without one is refused, never left out in silence."""
    line = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "send", "params": params}).encode()
    asked = decode_frame(line)
    assert isinstance(asked, Send)
    caller = Caller("human", House().broker.core.human)
    if refused_as is None:
        draft = draft_of(3, asked, caller)
        assert (draft.body, draft.size, draft.digest) == ("", 0, b"")
    else:
        with pytest.raises(Refusal) as refusal:
            draft_of(3, asked, caller)
        assert refusal.value.code == refused_as
        assert is_sentence(refusal.value.text)
        assert is_sentence(refusal.value.hint or "")

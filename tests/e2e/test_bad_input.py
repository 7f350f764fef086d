"""What is not as it must be gets a clear refusal that stored nothing, and the broker goes on.

One broker takes all of it, one thing after the other; after each its tables and its counters are what they were before,
it is the same process, and its log tells of no mistake of its own. (Directories, tokens, other users: test_strangers.)
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.broker_files import find_bugs, read_broker_log, read_tables
from tests.support.private_broker import PrivateBroker, private_broker
from tests.support.wire_client import LinkLost, Member, Refused, Wire, greet, read_status
from xsessiond.core.errors import CODES
from xsessiond.core.limits import FIRST_FRAME_S, MAX_BODY, MAX_FRAME, MAX_SKIP

LIST = b'{"jsonrpc":"2.0","id":9,"method":"list"}\n'
STOP = b'{"jsonrpc":"2.0","id":9,"method":"stop"}\n'


@dataclass
class House:
    """A running broker with two sessions, `web` who sends and `api` who receives."""

    place: PrivateBroker
    web: Member
    api: Member

    def look(self) -> tuple[Any, ...]:
        """Return all that a refusal must not change."""
        status = read_status(self.place.rendezvous)
        return (
            read_tables(self.place),
            status["broker"]["pid"],
            status["store"]["ok"],  # its detail changes by itself, once the whole file was checked
            {name: status[name] for name in ("sessions", "queued", "held")},
            [text for text in status["warnings"] if "was refused" not in text],  # who was refused is shown
        )

    @contextmanager
    def unharmed(self) -> Iterator[None]:
        """Hold the broker to being afterwards what it was before."""
        before = self.look()
        yield
        assert self.look() == before
        assert find_bugs(self.place) == []
        assert "Traceback" not in read_broker_log(self.place)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with private_broker() as place:
        place.start()
        with Member(place.rendezvous, "web") as web, Member(place.rendezvous, "api") as api:
            yield House(place, web, api)


def assert_listed(wire: Wire) -> None:
    """Read the answer to `LIST`: the link goes on."""
    assert [session["name"] for session in wire.answer(9)["sessions"]] == ["web", "api"]


def doors(house: House) -> list[str]:
    """Return the paths of both kinds of socket."""
    return [str(house.place.rendezvous), house.api.socket]


# -- what is not the protocol ------------------------------------------------------------------------------------------

NOT_THE_PROTOCOL = {
    "text": b"hello, is anybody there?\n",
    "an empty line": b"\n",
    "binary": bytes(range(256)) + b"\n",
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a web page's post": b'POST / HTTP/1.1\r\nA: text/plain\r\n\r\n{"jsonrpc":"2.0","id":9,"method":"stop"}\n',
    "tls": bytes.fromhex("16030100a5010000a10303") + bytes(160) + b"\n",
    "half of json": b'{"jsonrpc":"2.0","id":1,"method":"hello"\n',
    "no object": b'"hello"\n',
    "a number": b"1\n",
    "a batch": b'[{"jsonrpc":"2.0","id":9,"method":"stop"}]\n',
    "deep nesting": b"[" * 100_000 + b"\n",
    "deep objects": b'{"a":' * 100_000 + b"\n",
    "half of a character": b'{"jsonrpc":"2.0","id":1,"method":"\xc3"}\n',
    "utf-16": '{"jsonrpc":"2.0","id":9,"method":"stop"}\n'.encode("utf-16"),
}


@pytest.mark.parametrize("data", NOT_THE_PROTOCOL.values(), ids=NOT_THE_PROTOCOL)
def test_what_is_not_the_protocol_closes_the_connection_without_effect(house: House, data: bytes) -> None:
    """S1: not even what comes behind it in the same write has an effect."""
    with house.unharmed():
        for path in doors(house):
            with Wire(path) as wire:
                wire.write(data + STOP)
                assert wire.read_to_end() == b""


def test_a_line_that_never_ends_closes_the_connection(house: House) -> None:
    """2 MiB without a newline are no frame yet; at 16 MiB it is over. None of it is kept."""
    with house.unharmed():
        for path in doors(house):
            with Wire(path) as wire:
                wire.write(b"x" * (2 << 20))
                assert not wire.has_more()
                with contextlib.suppress(LinkLost):
                    wire.write(b"x" * MAX_SKIP)
                assert wire.read_to_end() == b""


def test_half_a_frame_and_then_nothing(house: House) -> None:
    with house.unharmed():
        for path in doors(house):
            for cut in (1, 20, len(STOP) - 1):
                with Wire(path) as wire:
                    wire.write(STOP[:cut])
                    wire.end_writing()
                    assert wire.read_to_end() == b""


def test_a_request_before_hello_is_told_so_and_the_connection_closed(house: House) -> None:
    with house.unharmed():
        for path in doors(house):
            with Wire(path) as wire:
                with pytest.raises(Refused) as refused:
                    wire.call("list")
                assert refused.value.code == "usage"
                assert wire.read_to_end() == b""


@pytest.mark.slow
def test_the_first_frame_must_come_within_its_time(house: House) -> None:
    """13.3: silent, or a byte a second: closed after 5 s all the same."""
    with house.unharmed(), contextlib.ExitStack() as stack:
        start = time.monotonic()
        silent, dribbling = ([stack.enter_context(Wire(path)) for path in doors(house)] for _ in range(2))
        closed: dict[Wire, float] = {}
        for byte in STOP:
            for wire in dribbling:
                with contextlib.suppress(LinkLost):
                    wire.write(bytes([byte]))
            deadline = time.monotonic() + 1
            while len(closed) < 4 and (left := deadline - time.monotonic()) > 0:
                waiting = [wire for wire in (*silent, *dribbling) if wire not in closed]
                closed |= dict.fromkeys(select.select(waiting, [], [], left)[0], time.monotonic() - start)
            if len(closed) == 4:
                break
        assert [wire.read_to_end() for wire in closed] == [b""] * 4
        assert all(FIRST_FRAME_S - 0.1 < after < FIRST_FRAME_S + 2 for after in closed.values()), closed.values()


@pytest.mark.slow
def test_after_the_handshake_a_link_may_be_silent_and_a_frame_slow(house: House) -> None:
    """D7: nobody is cut for having nothing to say."""
    with greet(house.place.rendezvous) as wire:
        assert not wire.has_more(FIRST_FRAME_S + 1)
        wire.write(LIST[:20])
        assert not wire.has_more(0.2)
        wire.write(LIST[20:])
        assert_listed(wire)


# -- frames that are no requests ---------------------------------------------------------------------------------------


NO_OBJECTS = {
    b"what?": -32700,
    b'{"jsonrpc":"2.0","id":1,': -32700,
    b"\xff": -32700,
    b"{" * 5000: -32700,
    rb'{"half":"\ud83d': -32700,
    b"[]": -32600,
    b'[{"jsonrpc":"2.0","id":9,"method":"stop"}]': -32600,
    b'"stop"': -32600,
}


@pytest.mark.parametrize("data, code", NO_OBJECTS.items(), ids=map(repr, range(len(NO_OBJECTS))))
def test_after_the_handshake_what_is_no_json_object_is_told_so_and_closed(house: House, data: bytes, code: int) -> None:
    with house.unharmed(), greet(house.place.rendezvous) as wire:
        wire.write(data + b"\n" + STOP)
        frame = wire.read()
        assert (frame["id"], frame["error"]["code"]) == (None, code)
        assert wire.read_to_end() == b""


NO_REQUESTS: dict[str, tuple[bytes, int]] = {
    "nothing": (b"{}", -32600),
    "no version": (b'{"id":1,"method":"list"}', -32600),
    "another version": (b'{"jsonrpc":"1.0","id":1,"method":"list"}', -32600),
    "no method": (b'{"jsonrpc":"2.0","id":1}', -32600),
    "a method that is no text": (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
    "an id that is a list": (b'{"jsonrpc":"2.0","id":[1],"method":"list"}', -32600),
    "an id that is a fraction": (b'{"jsonrpc":"2.0","id":1.5,"method":"list"}', -32600),
    "an id that is true": (b'{"jsonrpc":"2.0","id":true,"method":"list"}', -32600),
    "an unknown method": (b'{"jsonrpc":"2.0","id":1,"method":"shutdown"}', -32601),
    "params that are a list": (b'{"jsonrpc":"2.0","id":1,"method":"list","params":[true]}', -32602),
    "params that are a text": (b'{"jsonrpc":"2.0","id":1,"method":"send","params":"api"}', -32602),
    "a param of another kind": (b'{"jsonrpc":"2.0","id":1,"method":"list","params":{"all":"yes"}}', -32602),
    "a param that is missing": (b'{"jsonrpc":"2.0","id":1,"method":"rename","params":{}}', -32602),
    "a number out of range": (b'{"jsonrpc":"2.0","id":1,"method":"log","params":{"limit":1e400}}', -32602),
}


@pytest.mark.parametrize("data, code", NO_REQUESTS.values(), ids=NO_REQUESTS)
def test_an_object_that_is_no_request_is_told_so_and_the_link_goes_on(house: House, data: bytes, code: int) -> None:
    with house.unharmed(), greet(house.place.rendezvous) as wire:
        wire.write(data + b"\n" + LIST)
        assert wire.read()["error"]["code"] == code
        assert_listed(wire)


def test_a_line_over_the_limit_is_skipped_and_told_with_both_sizes(house: House) -> None:
    """3.5: refused, never cut; the frame behind it is answered."""
    with house.unharmed(), greet(house.place.rendezvous) as wire:
        wire.write(b'{"x":"' + b"x" * (2 * MAX_FRAME) + b'"}\n' + LIST)
        error = wire.read()
        assert error["id"] is None
        assert error["error"]["data"]["code"] == "too_large"
        assert str(2 * MAX_FRAME + 9) in error["error"]["message"]
        assert str(MAX_FRAME) in error["error"]["message"]
        assert_listed(wire)


HUGE = 10**30


@pytest.mark.parametrize(
    "frame",
    [
        {"id": HUGE, "method": "list", "params": {}},
        {"id": -HUGE, "method": "whoami"},
        {"id": "\ud800", "method": "list"},
        {"id": "x" * 100_000, "method": "list"},
        {"id": 1, "method": "\ud800\udfff"},
        {"id": 1, "method": "x" * 100_000},
        {"id": 1, "method": "hello", "params": {"protocol": HUGE, "client": "\ud800"}},
        {"id": 1, "method": "log", "params": {"limit": -HUGE}},
        {"id": 1, "method": "log", "params": {"limit": 0, "since": "yesterday"}},
        {"id": 1, "method": "log", "params": {"since": "9999999999-01-01T00:00:00Z"}},
        {"id": 1, "method": "log", "params": {"thread": "\ud800"}},
        {"id": 1, "method": "check", "params": {"message_id": "m-" + "\ud800" * 32}},
        {"id": 1, "method": "cancel", "params": {"id": HUGE}},
        {"id": 1, "method": "rename", "params": {"name": "x", "of": "\ud800"}},
        {"id": 1, "method": "register", "params": {"pid": HUGE, "name": "a/b"}},
        {"id": 1, "method": "register", "params": {"resume": {"id": "s-1"}, "token": ""}},
        {"id": 1, "method": "send", "params": {"to": "\ud800", "message": "hello"}},
        {"id": 1, "method": "send", "params": {"to": "x" * 500_000, "message": "hello"}},
        {"id": 1, "method": "send", "params": {"to": "api", "message": "hello", "mode": "shout"}},
        {"id": 1, "method": "send", "params": {"to": "api", "message": "hello", "key": ""}},
        {"id": 1, "method": "send", "params": {"to": "api", "message": "hello", "key": "\ud800"}},
        {"id": 1, "method": "send", "params": {"to": "api", "message": "hello", "summary": "x" * 201}},
        {"id": 1, "method": "send", "params": {"to": "api", "message": "hello", "when_offline": "sometime"}},
        {"id": 1, "method": "send", "params": {"to": "api", "message": "hello", "reply_to": "m-" + "0" * 32}},
    ],
    ids=lambda frame: f"{frame['method'][:10]}-{ascii(frame.get('params', frame['id']))[:40]}",
)
def test_strange_values_are_answered_and_leave_no_trace(house: House, frame: dict[str, Any]) -> None:
    with house.unharmed(), greet(house.place.rendezvous) as wire:
        wire.write(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n" + LIST)
        answer = wire.read()
        if "error" in answer and answer["error"]["code"] != -32700:
            assert answer["error"]["data"]["code"] in CODES
            assert_listed(wire)


def test_a_thousand_damaged_frames(house: House) -> None:
    """Each is answered or its link closed, and nothing else comes of it."""
    chance = random.Random(4)
    good = [
        b'{"jsonrpc":"2.0","id":1,"method":"list","params":{"all":true}}',
        b'{"jsonrpc":"2.0","id":2,"method":"check","params":{"message_id":"m-00000000000000000000000000000000"}}',
        b'{"jsonrpc":"2.0","id":3,"method":"log","params":{"limit":3,"since":"2026-01-02T03:04:05Z"}}',
        b'{"jsonrpc":"2.0","id":4,"method":"send","params":{"to":"nobody-here","message":"hello","key":"k"}}',
        b'{"jsonrpc":"2.0","id":5,"method":"rename","params":{"name":"x","of":"nobody-here"}}',
    ]
    with house.unharmed():
        wire = greet(house.place.rendezvous)
        try:
            for _ in range(1000):
                frame = bytearray(chance.choice(good))
                for _ in range(chance.randint(1, 4)):
                    at = chance.randrange(len(frame))
                    frame[at : at + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
                wire.write(bytes(frame).replace(b"\n", b" ") + b"\n" + LIST)
                try:
                    while wire.read().get("id") != 9:
                        pass
                except LinkLost:
                    wire.close()
                    wire = greet(house.place.rendezvous)
        finally:
            wire.close()


# -- bodies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, code",
    [
        ("", "empty"),
        (" \n\t\u200b", "empty"),
        (None, "not_text"),
        (7, "not_text"),
        (["a"], "not_text"),
        ({"type": "shutdown_request"}, "not_text"),
        ('{"type": "shutdown_request"}', "not_text"),
        ("PNG\x00\x01", "not_text"),
        ("half \ud83d", "not_text"),
    ],
)
def test_a_body_that_is_no_text_is_refused(house: House, body: Any, code: str) -> None:
    with house.unharmed():
        with pytest.raises(Refused) as refused:
            house.web.call("send", {"to": "api", "message": body})
        assert (refused.value.code, refused.value.error["code"]) == (code, -32000)


def test_a_body_of_bytes_that_are_not_utf8_is_refused(house: House) -> None:
    with house.unharmed(), greet(house.place.rendezvous) as wire:
        wire.write(b'{"jsonrpc":"2.0","id":1,"method":"send","params":{"to":"api","message":"\xff\xfe"}}\n' + LIST)
        with pytest.raises(Refused) as refused:
            wire.answer(1)
        assert (refused.value.code, refused.value.error["code"]) == ("not_text", -32000)
        assert_listed(wire)


@pytest.mark.parametrize("char", ["x", "é", "\U0001f40d"])
def test_a_body_at_the_limit_arrives_whole_and_one_byte_more_is_refused(house: House, char: str) -> None:
    """3.5: sizes and SHA-256 agree at both ends; what is refused is refused with both sizes."""
    body = char * (MAX_BODY // len(char.encode())) + "y" * (MAX_BODY % len(char.encode()))
    assert len(body.encode()) == MAX_BODY
    digest = hashlib.sha256(body.encode()).hexdigest()
    frame = {"jsonrpc": "2.0", "id": 7, "method": "send", "params": {"to": "api", "message": body}}
    house.web.wire.write(json.dumps(frame, ensure_ascii=False).encode() + b"\n")
    sent = house.web.wire.answer(7)
    assert (sent["bytes"], sent["sha256"]) == (MAX_BODY, digest)
    (message,) = house.api.take()
    assert (message["bytes"], message["sha256"]) == (MAX_BODY, digest)
    assert hashlib.sha256(message["text"].encode()).hexdigest() == digest
    house.api.ack(message["id"])
    frame["params"] = {"to": "api", "message": "z" + body}
    with house.unharmed():
        house.web.wire.write(json.dumps(frame, ensure_ascii=False).encode() + b"\n")
        with pytest.raises(Refused) as refused:
            house.web.wire.answer(7)
        assert refused.value.code == "too_large"
        assert refused.value.data["detail"] == {"bytes": MAX_BODY + 1, "limit": MAX_BODY}
        assert f"{MAX_BODY + 1}" in str(refused.value)
        assert f"{MAX_BODY}" in str(refused.value)


def test_a_body_that_json_makes_too_large_is_refused_with_that_size_too(house: House) -> None:
    with house.unharmed():
        with pytest.raises(Refused) as refused:
            house.web.send("api", "x" + "\n" * (MAX_BODY // 2))
        assert refused.value.code == "too_large"
        assert f"{MAX_BODY // 2 + 1} bytes ({MAX_BODY + 1} in JSON)" in str(refused.value)


# -- names and targets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, code",
    [
        ("", "bad_name"),
        ("a b", "bad_name"),
        ("a\nb", "bad_name"),
        ("a\x1b[31mb", "bad_name"),
        ("a\u202eb", "bad_name"),
        ("a\u200bb", "bad_name"),
        ("a/b", "bad_name"),
        ("x" * 65, "bad_name"),
        ("\ud800", "not_text"),
        ("API", "name_taken"),
        ("аpi", "name_taken"),  # its first letter is Cyrillic
        ("ａｐｉ", "name_taken"),
    ],
)
def test_a_name_that_cannot_be_is_refused(house: House, name: str, code: str) -> None:
    """2.1, S12: by `rename`, and by `register` where it is not merely taken; nothing is left of the attempt."""
    with house.unharmed():
        with pytest.raises(Refused) as refused:
            house.web.call("rename", name=name)
        assert refused.value.code == code
        if code != "name_taken":
            with pytest.raises(Refused) as refused:
                Member(house.place.rendezvous, name)
            assert refused.value.code == code


def test_unknown_partial_and_own_names_are_refused(house: House) -> None:
    """N6, N7, 2.4, 2.5, 2.7: each with its code, candidates where there are any, and nothing stored."""
    with house.unharmed():
        for to, code in {
            "nobody": "not_found", "ap": "ambiguous", "web": "self_target", house.web.session["ref"]: "self_target",
            "": "usage", house.api.session["ref"][:5]: "not_found", "s-" + "0" * 32: "not_found", "*": "not_found",
        }.items():  # fmt: skip
            with pytest.raises(Refused) as refused:
                house.web.send(to, "hello")
            assert refused.value.code == code, to
            if code == "ambiguous":
                assert [candidate["name"] for candidate in refused.value.data["candidates"]] == ["api"]


def test_stale_and_moved_names_are_refused(house: House) -> None:
    """N5: a session that ended is `not_running`; when another has its name, the sender is told and nothing is sent."""
    with Member(house.place.rendezvous, "old") as old:
        house.web.send("old", "are you there?")
        old.call("end")
    with house.unharmed():
        for to in ("old", old.id, old.session["ref"], f"old [{old.session['ref']}]"):
            with pytest.raises(Refused) as refused:
                house.web.send(to, "hello")
            assert refused.value.code == "not_running", to
            assert [candidate["id"] for candidate in refused.value.data["candidates"]] == [old.id]
    with Member(house.place.rendezvous, "old") as heir:
        with house.unharmed():
            with pytest.raises(Refused) as refused:
                house.web.send("old", "hello")
            assert refused.value.code == "name_moved"
        assert house.web.send(f"old [{heir.session['ref']}]", "hello")["to"]["id"] == heir.id
        heir.call("end")


def test_a_client_of_another_version_is_told_both_versions(house: House) -> None:
    """P9: and may ask for `status` on the same connection."""
    with house.unharmed(), Wire(house.place.rendezvous) as wire:
        with pytest.raises(Refused) as refused:
            wire.call("hello", protocol=2, client="example/2")
        assert refused.value.code == "version_mismatch"
        assert refused.value.data["detail"]["protocol"] == 1
        assert wire.call("status")["broker"]["protocol"] == 1
        with pytest.raises(Refused) as refused:
            wire.call("send", to="api", message="hello")
        assert refused.value.code in ("usage", "version_mismatch")

"""The objects that clients see: as contract and protocol have them, whatever is absent is null."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from xsessiond.core.effects import ProcessId
from xsessiond.core.ids import SessionId
from xsessiond.core.mailbox import message_of
from xsessiond.core.records import EventRow, MessageRow
from xsessiond.core.roster import Session
from xsessiond.core.shapes import (
    PushShape,
    SendShape,
    shape_delivery,
    shape_entry,
    shape_history,
    shape_origin,
    shape_session,
    shape_step,
)

ROW = MessageRow(
    1, "m-1", "queued", "session", "s-a", "api", "codex", "/src", "s-b", "web", "hello", 5, b"\x01\x02", "about it",
    None, "m-1", 0, "auto", None, 3, "default: accept", 1_000, None,
)  # fmt: skip


def plain(value: object) -> dict[str, object]:
    decoded: dict[str, object] = msgspec.json.decode(msgspec.json.encode(value))
    return decoded


def session() -> Session:
    one = Session(SessionId("s-" + "b" * 32), "bbbbbb", "web")
    one.process = ProcessId(7, 70)
    return one


def test_a_session_has_all_keys_of_the_contract() -> None:
    one = session()
    one.state = "busy"
    assert plain(shape_session(one, "box")) == {
        "id": "s-" + "b" * 32, "ref": "bbbbbb", "name": "web", "label": None, "harness": "mcp",
        "harness_session_id": None, "pid": 7, "cwd": "/", "state": "busy", "class": "unknown", "delivery": "pull",
        "can_reply": True, "machine": "box", "started_at": "1970-01-01T00:00:00.000Z",
        "last_seen_at": "1970-01-01T00:00:00.000Z", "queued": 0, "held": 0,
    }  # fmt: skip


def test_a_session_that_does_not_run_takes_no_mail() -> None:
    one = session()
    one.process, one.ended_at = None, 5
    shape = shape_session(one, "box")
    assert (shape.pid, shape.state, shape.delivery) == (None, "offline", "none")


@pytest.mark.parametrize("now, age", [(1_000, 0), (1_999, 0), (2_000, 1), (0, 0)])
def test_a_message_is_as_old_as_it_is_and_never_from_the_future(now: int, age: int) -> None:
    """L7: sent-at, age at delivery and a number per pair."""
    message = message_of(ROW, Raw(b'{"kind":"session"}'))
    receiver = session()
    shape = plain(shape_delivery(message, receiver, now))
    assert shape == {
        "id": "m-1", "from": {"kind": "session"}, "text": "hello", "bytes": 5, "sha256": "0102",
        "sent_at": "1970-01-01T00:00:01.000Z", "age_s": age, "hop": 0, "seq": 3, "reply_to": None,
        "summary": "about it", "mode": "auto", "can_reply": True, "full_note": True, "held": None,
    }  # fmt: skip


def test_the_note_is_due_in_full_once() -> None:
    """12.3; and W19: whether its receiver can reply stands in it."""
    receiver = session()
    receiver.noted, receiver.can_reply = True, False
    shape = shape_delivery(message_of(ROW, Raw(b"{}")), receiver, 0)
    assert (shape.full_note, shape.can_reply) == (False, False)
    assert plain(PushShape(4, shape))["n"] == 4


@pytest.mark.parametrize("kind", ["session", "human", "script"])
def test_only_a_session_has_more_than_a_name(kind: str) -> None:
    row = replace(ROW, sender_kind=kind)
    origin = msgspec.json.decode(shape_origin(row, "aaaaaa"))
    own = kind == "session"
    assert origin == {
        "kind": kind,
        "id": "s-a" if own else None,
        "ref": "aaaaaa" if own else None,
        "name": "api",
        "harness": "codex" if own else None,
        "cwd": "/src" if own else None,
    }


def test_a_send_has_all_keys_of_the_contract() -> None:
    assert plain(SendShape("m-1", "queued", {"id": "s-b"}, "rule", None, 5, "0102")) == {
        "id": "m-1", "state": "queued", "to": {"id": "s-b"}, "rule": "rule", "expires_at": None, "bytes": 5,
        "sha256": "0102", "reply": None, "notice": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "row, events, steps",
    [
        (ROW, [], [("queued", 1_000, "default: accept")]),
        (
            replace(ROW, state="replied", handed_at=2_000, delivered_at=3_000, replied_at=4_000, ended_at=3_000),
            [],
            [("queued", 1_000, "default: accept"), ("handed", 2_000, None), ("delivered", 3_000, None),
             ("replied", 4_000, None)],
        ),
        (
            replace(ROW, state="expired", ended_at=9_000),
            [EventRow("m-1", 9_000, "expired", None, "offline.keep")],
            [("queued", 1_000, "default: accept"), ("expired", 9_000, "offline.keep")],
        ),
        (
            replace(ROW, state="expired", ended_at=9_000),
            [],
            [("queued", 1_000, "default: accept"), ("expired", 9_000, None)],
        ),
        (
            replace(ROW, handed_at=2_000),
            [EventRow("m-1", 2_500, "queued", None, "given back")],
            [("queued", 1_000, "default: accept"), ("handed", 2_000, None), ("queued", 2_500, "given back")],
        ),
        (
            replace(ROW, state="replied", handed_at=1_000, delivered_at=1_000, replied_at=1_000),
            [EventRow("m-1", 1_000, "queued", None, "given back"), EventRow("m-1", 1_000, "handed", None, "again")],
            [("queued", 1_000, "default: accept"), ("handed", 1_000, None), ("queued", 1_000, "given back"),
             ("handed", 1_000, "again"), ("delivered", 1_000, None), ("replied", 1_000, None)],
        ),
        (
            replace(ROW, state="handed", handed_at=1_000),
            [EventRow("m-1", 1_000, state, None, None) for state in ("queued", "handed", "queued", "handed")],
            [("queued", 1_000, "default: accept"), ("handed", 1_000, None), ("queued", 1_000, None),
             ("handed", 1_000, None), ("queued", 1_000, None), ("handed", 1_000, None)],
        ),
        (
            replace(ROW, state="expired", handed_at=1_000, ended_at=1_000),
            [EventRow("m-1", 1_000, "expired", None, "offline.keep")],
            [("queued", 1_000, "default: accept"), ("handed", 1_000, None), ("expired", 1_000, "offline.keep")],
        ),
        (
            replace(ROW, state="queued"),
            [EventRow("m-1", 1_000, "held", None, "parity"), EventRow("m-1", 1_500, "queued", "ann", "approved")],
            [("held", 1_000, "parity"), ("queued", 1_500, "approved")],
        ),
    ],
)  # fmt: skip
def test_a_history_tells_each_step_once_and_in_order(
    row: MessageRow, events: list[EventRow], steps: list[tuple[str, int, str | None]]
) -> None:
    history = shape_history(row, events)
    assert [(step["state"], step["at"], step["rule"]) for step in history] == [
        (state, f"1970-01-01T00:00:{at // 1000:02}.{at % 1000:03}Z", rule) for state, at, rule in steps
    ]


def test_a_step_names_who_and_why() -> None:
    assert shape_step("held", 0, "parity", "ann") == {
        "state": "held",
        "at": "1970-01-01T00:00:00.000Z",
        "rule": "parity",
        "by": "ann",
    }


def test_the_log_has_the_text_or_not() -> None:
    entry = shape_entry(replace(ROW, delivered_at=2_000), with_text=True)
    assert (entry["text"], entry["delivered_at"], entry["replied_at"]) == ("hello", "1970-01-01T00:00:02.000Z", None)
    assert entry["from"] == {"kind": "session", "id": "s-a", "name": "api"}
    assert entry["to"] == {"id": "s-b", "name": "web"}
    assert shape_entry(ROW, with_text=False)["text"] is None

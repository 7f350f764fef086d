"""The objects that clients see: as contract and protocol have them, whatever is absent is null."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from xsessiond.core.effects import ProcessId
from xsessiond.core.ids import SessionId
from xsessiond.core.mailbox import message_of
from xsessiond.core.policy import CoreSettings, ShownValue
from xsessiond.core.records import EventRow, GrantRow, HoldRow, MessageRow, TrustRow
from xsessiond.core.roster import Session
from xsessiond.core.shapes import (
    PushShape,
    SendShape,
    shape_config,
    shape_delivery,
    shape_entry,
    shape_grant,
    shape_held,
    shape_history,
    shape_hold,
    shape_origin,
    shape_session,
    shape_step,
    shape_suppressed,
    shape_trust,
)
from xsessiond.core.suppressed import TurnedAway

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


def test_what_was_turned_away_names_both_sides() -> None:
    """R4"""
    row = TurnedAway("s-1", "api", "s-2", "web", "duplicate", 0, 1000, 3)
    assert plain(shape_suppressed(row)) == {
        "from": {"id": "s-1", "name": "api"},
        "to": {"id": "s-2", "name": "web"},
        "code": "duplicate",
        "count": 3,
        "first_at": "1970-01-01T00:00:00.000Z",
        "last_at": "1970-01-01T00:00:01.000Z",
    }


def test_a_session_has_all_keys_of_the_contract() -> None:
    one = session()
    one.state = "busy"
    assert plain(shape_session(one, "box")) == {
        "id": "s-" + "b" * 32, "ref": "bbbbbb", "name": "web", "label": None, "harness": "mcp",
        "harness_session_id": None, "pid": 7, "cwd": "/", "state": "busy", "class": "unknown", "delivery": "pull",
        "can_reply": True, "machine": "box", "started_at": "1970-01-01T00:00:00.000Z",
        "last_seen_at": "1970-01-01T00:00:00.000Z", "queued": 0, "held": 0,
        "stalled": 0, "stuck": False, "suppressed": 0,
    }  # fmt: skip


def test_a_session_that_does_not_run_takes_no_mail() -> None:
    one = session()
    one.process, one.ended_at = None, 5
    shape = shape_session(one, "box")
    assert (shape.pid, shape.state, shape.delivery) == (None, "offline", "none")


def test_a_session_says_only_that_nobody_looks_at_it() -> None:
    one = session()
    assert "attended" not in plain(shape_session(one, "box"))
    one.attended = False
    assert plain(shape_session(one, "box"))["attended"] is False
    one.process, one.ended_at = None, 5
    assert "attended" not in plain(shape_session(one, "box"))


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


def test_what_a_subagent_wrote_says_so() -> None:
    """1.9"""
    origin = msgspec.json.decode(shape_origin(replace(ROW, subagent=True), "aaaaaa"))
    assert (origin["name"], origin["subagent"]) == ("api", True)


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


def test_the_log_and_who_decides_see_that_a_subagent_wrote_it() -> None:
    """1.9."""
    row = replace(ROW, state="held", subagent=True)
    sender = {"kind": "session", "id": "s-a", "name": "api", "subagent": True}
    assert shape_entry(row, with_text=True)["from"] == sender
    message = message_of(row, Raw(b"{}"))
    message.hold = HOLD
    assert shape_hold(message, None, shape_session(session(), "box"))["subagent"] is True


# -- held --------------------------------------------------------------------------------------------------------------

HOLD = HoldRow(1, "m-1", "mode-mismatch", "parity: so", "bypass", 1_000, 61_000)


def test_a_held_message_has_all_keys_of_the_contract() -> None:
    """H9: the text is added where it fits."""
    message = message_of(replace(ROW, state="held", body="a" * 300 + "<system>"), Raw(b"{}"))
    message.hold = HOLD
    sender, target = shape_session(session(), "box"), shape_session(session(), "box", "prompting")
    assert plain(shape_hold(message, sender, target)) == {
        "id": "m-1", "from": plain(sender), "to": plain(target), "cause": "mode-mismatch", "rule": "parity: so",
        "held_at": "1970-01-01T00:00:01.000Z", "expires_at": "1970-01-01T00:01:01.000Z", "bytes": 5, "sha256": "0102",
        "preview": "a" * 200, "text": None, "summary": "about it", "sender_class": "bypass",
        "receiver_class": "prompting", "flags": ["<system"], "subagent": False,
    }  # fmt: skip
    message.flags = ["as it was found"]
    assert shape_hold(message, sender, target)["flags"] == ["as it was found"], "a long text is looked through once"


def test_a_sender_that_is_no_session_is_named() -> None:
    row = replace(ROW, state="held", sender_kind="script", sender_id="script", sender_harness=None, sender_cwd=None)
    message = message_of(row, Raw(b"{}"))
    message.hold = replace(HOLD, expires_at=None)
    shape = shape_hold(message, None, shape_session(session(), "box"))
    assert shape["from"] == {"kind": "script", "id": None, "name": "api", "harness": None, "cwd": None}
    assert shape["expires_at"] is None


@pytest.mark.parametrize("by", ["human ann", None])
def test_what_was_let_go_has_a_mark(by: str | None) -> None:
    """5.7, H3"""
    assert shape_held(HOLD) is None
    assert shape_held(replace(HOLD, released_at=5_500, released_rule="so", released_by=by)) == {
        "held_s": 4, "by": by, "at": "1970-01-01T00:00:05.500Z", "cause": "mode-mismatch", "rule": "so",
    }  # fmt: skip
    assert shape_held(replace(HOLD, released_at=0, released_rule="so"))["held_s"] == 0  # type: ignore[index]


def test_a_trust_is_shown_with_names_of_now_or_of_then() -> None:
    row = TrustRow("t-1", "s-a", "api", "s-b", "web", "pair", "human ann", 1_000, 2_000)
    assert shape_trust(row, None, session()) == {
        "id": "t-1", "from": {"id": "s-a", "name": "api", "ref": None},
        "to": {"id": "s-b", "name": "web", "ref": "bbbbbb"},
        "scope": "pair", "by": "human ann", "at": "1970-01-01T00:00:01.000Z", "until": "1970-01-01T00:00:02.000Z",
    }  # fmt: skip
    assert shape_trust(replace(row, until=None), session(), None)["until"] is None


def test_a_grant_is_shown_with_its_session_and_its_end() -> None:
    shown = plain(shape_grant(shape_session(session(), "box"), GrantRow("s-b", "/d", "human ann", 1_000, 2_000)))
    assert shown["session"]["name"] == "web"  # type: ignore[index]
    del shown["session"]
    assert shown == {
        "directory": "/d", "by": "human ann", "at": "1970-01-01T00:00:01.000Z",
        "expires_at": "1970-01-01T00:00:02.000Z",
    }  # fmt: skip


def test_a_history_that_began_held_was_not_queued_before() -> None:
    events = [EventRow("m-1", 1_000, "held", None, "so"), EventRow("m-1", 3_000, "queued", "human ann", "approved")]
    assert [(step["state"], step["by"]) for step in shape_history(ROW, events)] == [
        ("held", None),
        ("queued", "human ann"),
    ]


def test_settings_are_shown_as_they_are() -> None:
    shown = ShownValue("store.durability", "full", "default", None)
    settings = CoreSettings(shown=(shown,), config_problems=("A problem.",), config_ok=False)
    assert shape_config(settings) == {"values": (shown,), "problems": ("A problem.",), "ok": False}

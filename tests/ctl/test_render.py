"""xsessionctl.render: sentences from documents, and nothing of a peer's text that acts on a terminal."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from xsessionctl import render, render_failure, render_log
from xsessionctl.client import ClientError
from xsessionctl.output import Sink

NASTY = "x\x1b[2J\x9b31m\r\u202e\u2028y"
"""Clears the screen, colours it, goes back to the line's start, turns it around and breaks it."""
SINK = Sink("never")


def ago(**length: float) -> str:
    return (datetime.now(UTC) - timedelta(**length)).isoformat()


def session(**more: object) -> dict[str, object]:
    return {
        "id": "s-1",
        "ref": "1a2b3c",
        "name": "api",
        "harness": "claude",
        "cwd": "/src/api",
        "state": "idle",
        "delivery": "push",
        "started_at": ago(hours=2, minutes=3),
        "last_seen_at": ago(seconds=4),
        "queued": 0,
        "held": 0,
        **more,
    }


def test_the_roster_marks_the_callers_own_row_and_says_how_others_call_it() -> None:
    """D9: `list` marks the caller's row, and the first line says what others call it."""
    own, other = session(), session(id="s-2", ref="9f8e7d", name="web", queued=3, held=1)
    lines = render.roster({"self": own, "sessions": [other, own], "incomplete": []}, SINK)
    assert lines[0] == "You are api [1a2b3c]; others reach you by that name."
    assert lines[2].split() == ["NAME", "REF", "STATE", "HARNESS", "DELIVERY", "FOLDER", "AGE", "QUEUED"]
    assert lines[3].split() == ["web", "9f8e7d", "idle", "claude", "push", "/src/api", "2h", "3+1", "held"]
    assert lines[4].split() == ["*", "api", "1a2b3c", "idle", "claude", "push", "/src/api", "2h", "0"]


def test_a_session_that_nobody_looks_at_says_so() -> None:
    lines = render.roster({"self": None, "sessions": [session(attended=False)], "incomplete": []}, SINK)
    assert lines[3].split()[2:5] == ["idle,", "no", "terminal"]


def test_the_roster_says_what_it_could_not_see() -> None:
    document = {"self": None, "sessions": [], "incomplete": [{"source": "laptop", "reason": "it does not answer"}]}
    lines = render.roster(document, SINK)
    assert "No session is running." in lines[1]
    assert lines[-1] == "Not looked at: laptop (it does not answer)."


def test_a_wish_to_be_told_says_what_comes_of_it() -> None:
    """9.1: with a message or without."""
    to = {"id": "s-1", "ref": "1a2b3c", "name": "web"}
    watching, idle = {"state": "watching", "until": ago(hours=-12)}, {"state": "idle", "until": None}
    alone = {"id": None, "state": None, "to": to, "notice": f"You are told. {NASTY}", "watch": watching}
    lines = render.sent(alone, SINK)
    assert lines[0] == "waiting for web [1a2b3c] to be idle"
    assert lines[1].startswith("  You are told.")
    assert "\x1b" not in lines[1]
    assert render.sent({**alone, "notice": None, "watch": idle}, SINK) == ["web [1a2b3c] is idle"]
    lines = render.sent({"id": "m-1", "state": "queued", "to": to, "notice": None, "watch": watching}, SINK)
    assert lines == ["queued for web [1a2b3c] · m-1", "  You are told once, when it is idle."]


def test_the_inbox_has_the_news_too() -> None:
    receipt = {"id": "s-1", "state": "idle", "at": ago(), "text": f"web is idle. {NASTY}"}
    take = "`xsessionctl inbox --take` shows the texts, and takes them."
    lines = render.waiting({"messages": [], "receipts": [receipt], "session": None}, SINK)
    assert lines[0].startswith("web is idle.")
    assert "\x1b" not in lines[0]
    assert lines[1:] == [take]
    message = {"id": "m-1", "state": "queued", "from_name": "api", "sent_at": ago(), "bytes": 1, "summary": None}
    lines = render.waiting({"messages": [message], "receipts": [receipt], "session": None}, SINK)
    assert (len(lines), lines[-1]) == (4, take)
    assert render.waiting({"messages": [], "receipts": [], "session": None}, SINK) == ["Nothing waits."]
    assert len(render.waiting({"messages": [], "receipts": [receipt], "session": session()}, SINK)) == 1


def test_a_conversation_that_does_not_run_says_whether_it_can_be_resumed() -> None:
    """11.2"""
    rows = [session(state="offline", can_resume=True), session(state="offline", can_resume=False)]
    lines = render.roster({"self": None, "sessions": rows, "incomplete": []}, SINK)
    assert "offline 4s, can resume" in lines[3]
    assert "resume" not in lines[4]


def test_an_unresponsive_session_shows_when_it_was_last_seen() -> None:
    lines = render.roster(
        {"self": None, "sessions": [session(state="unresponsive", last_seen_at=ago(minutes=5))]}, SINK
    )
    assert "unresponsive 5m" in lines[-1]


def test_a_check_tells_the_history_in_order() -> None:
    history = [
        {"state": "queued", "at": ago(seconds=3), "rule": "accept", "by": None},
        {"state": "delivered", "at": ago(seconds=2), "rule": None, "by": None},
    ]
    document = {"id": "m-1", "state": "delivered", "to": session(), "history": history, "target_state": "busy"}
    lines = render.message_state(document, SINK)
    assert lines[0] == "m-1 · delivered · to api [1a2b3c]"
    assert [line.split()[1] for line in lines[1:3]] == ["queued", "delivered"]
    assert lines[3] == "api is busy now."


def test_a_check_tells_why_it_was_denied_and_calls_that_no_rule() -> None:
    """5.4: a person's reason is their own words."""
    step = {"state": "denied", "at": ago(), "by": "human ann", "rule": "ask me first"}
    lines = render.message_state({"id": "m-1", "state": "denied", "to": session(), "history": [step]}, SINK)
    assert lines[1].endswith("denied  by human ann: ask me first")
    nobody = {**step, "by": None, "rule": "inbound = refuse"}
    lines = render.message_state({"id": "m-1", "state": "denied", "to": session(), "history": [nobody]}, SINK)
    assert lines[1].endswith("denied  rule inbound = refuse")


def test_a_reply_comes_with_the_send_that_waited_for_it() -> None:
    reply = {"id": "m-2", "text": "5173\nand ::1", "from_name": "web"}
    document = {"id": "m-1", "state": "replied", "to": session(name="web"), "notice": "It is busy.", "reply": reply}
    assert render.sent(document, SINK) == [
        "answered by web [1a2b3c] · m-1",
        "  It is busy.",
        "",
        "web answers · m-2",
        "5173",
        "and ::1",
    ]


@pytest.mark.parametrize(
    "document, words",
    [
        ({"kind": "human", "session": None, "name": "ann"}, "The human ann"),
        ({"kind": "script", "session": None, "name": "script"}, "A script: outside every session"),
        ({"kind": "script", "session": None, "among": [session()]}, "One of several sessions"),
        ({"kind": "session", "session": session()}, "The session api [1a2b3c]."),
    ],
)
def test_whoami_says_as_whom_one_sends(document: dict[str, object], words: str) -> None:
    assert render.identity(document, SINK)[0].startswith(words)


def test_whoami_tells_id_policy_and_reply_address() -> None:
    """D9: id, name, policy, reply address."""
    document = {"kind": "session", "session": session(), "address": "api [1a2b3c]", "policy": "accept"}
    facts = dict(line.split(None, 1) for line in render.identity(document, SINK)[1:] if len(line.split()) == 2)
    assert facts["id"] == "s-1"
    text = "\n".join(render.identity(document, SINK))
    assert "reply address  api [1a2b3c]" in text
    assert "accept" in text


def test_a_refusal_lists_its_candidates_and_the_way_out() -> None:
    """N8: suggestions show ref, folder and age."""
    candidate = {"name": "web", "ref": "9f8e7d", "cwd": "/src/web", "state": "busy", "machine": "m", "age_s": 7300}
    error = ClientError("rate_limited", "Too fast.", "Wait.", candidates=[candidate], retry_after_s=4.2)
    assert render_failure.failure(error, SINK) == [
        "xsessionctl: Too fast.",
        "  web [9f8e7d]  /src/web  busy  2h",
        "  Again in 4 s.",
        "  Wait.",
    ]


@pytest.mark.parametrize(
    "show",
    [
        lambda: render.roster({"self": nasty(), "sessions": [nasty()], "incomplete": [nasty()]}, SINK),
        lambda: render.sent({**nasty(), "to": nasty(), "reply": {**nasty(), "text": NASTY}}, SINK),
        lambda: render.message_state({**nasty(), "to": nasty(), "history": [nasty()]}, SINK),
        lambda: render.sends({"messages": [{**nasty(), "to": nasty()}]}, SINK),
        lambda: render.waiting({"messages": [nasty()]}, SINK),
        lambda: render.identity({"kind": NASTY, "name": NASTY, "session": nasty()}, SINK),
        lambda: render.identity({"kind": "human", "name": NASTY, "session": None}, SINK),
        lambda: render_log.log_lines(
            {key: [{**nasty(), "from": nasty(), "to": nasty()}] for key in ("entries", "suppressed")}, SINK
        ),
        lambda: render.broker_state({"broker": nasty(), "store": nasty(), "warnings": [NASTY]}, SINK),
        lambda: render_failure.failure(ClientError("internal", NASTY, NASTY, candidates=[nasty()]), SINK),
    ],
)
def test_what_others_wrote_cannot_act_on_a_terminal(show: Callable[[], list[str]]) -> None:
    """Behaviour 12.5: escape sequences, C1, bidi and carriage returns are inert, terminal or not."""
    text = "\n".join(show())
    assert "x\\x1b[2J" in text
    assert not set(text) & set("\x1b\x9b\r\u202e\u2028")


def nasty() -> dict[str, object]:
    keys = (
        "id ref name harness cwd state delivery started_at last_seen_at queued from_name sent_at bytes summary "
        "reply_to text rule by at source reason target_state notice label version instance detail class address "
        "policy harness_session_id protocol code count first_at last_at hop"
    )
    return dict.fromkeys(keys.split(), NASTY)


@pytest.mark.parametrize(
    "seconds, shown", [(0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (86400 * 9, "9d"), (None, "")]
)
def test_an_age_is_short(seconds: float | None, shown: str) -> None:
    assert render.age(seconds) == shown


def test_a_time_is_told_by_the_local_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert render.clock("2020-01-02T03:04:05Z") == "2020-01-02 12:04:05"
        assert render.clock("nonsense") == "nonsense"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_home_is_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/disk/ann")
    assert [render.folder(path) for path in ("/disk/ann", "/disk/ann/x", "/disk/anna")] == ["~", "~/x", "/disk/anna"]
    monkeypatch.delenv("HOME")
    assert render.folder("/disk/ann") == "/disk/ann"


def test_a_document_of_another_version_is_shown_as_far_as_it_goes() -> None:
    for show in (render.roster, render.sent, render.message_state, render.sends, render.identity, render.broker_state):
        assert isinstance(show({}, SINK), list)
        assert isinstance(show(json.loads('{"sessions":5,"to":[],"history":null,"broker":""}'), SINK), list)
    assert os.environ  # the environment was not touched

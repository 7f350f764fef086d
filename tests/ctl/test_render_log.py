"""What `log` says, and where else it is told that messages were turned away."""

from __future__ import annotations

from tests.ctl.test_render import SINK, ago, session
from xsessionctl import render
from xsessionctl.render_log import REASONS, entry_lines, log_lines, suppressed_line
from xsessiond.core.errors import EXIT_CODES

ENTRY = {
    "id": "m-1",
    "state": "delivered",
    "from": {"kind": "session", "id": "s-1", "name": "api"},
    "to": {"id": "human", "name": "ann"},
    "sent_at": ago(),
    "text": "one\ntwo",
    "decisions": [],
}
ROW = {
    "from": {"id": "s-1", "name": "api"},
    "to": {"id": "s-2", "name": "web"},
    "code": "exchange_limit",
    "count": 7,
    "first_at": ago(hours=1),
    "last_at": ago(),
}


def test_a_message_is_a_line_and_its_text() -> None:
    lines = entry_lines(ENTRY, SINK)
    assert lines[0].endswith("  api → ann (human)  delivered  m-1")
    assert lines[1:] == ["    one", "    two"]
    answer = {**ENTRY, "reply_to": "m-0", "hop": 3}
    assert entry_lines(answer, SINK)[0].endswith("  delivered  m-1  answers m-0  hop 3")


def test_what_a_subagent_wrote_says_so() -> None:
    """1.9."""
    entry = {**ENTRY, "from": {**ENTRY["from"], "subagent": True}}  # type: ignore[dict-item]
    assert "  api (a subagent) → ann (human)  " in entry_lines(entry, SINK)[0]


def test_what_was_turned_away_says_whose_how_much_and_why() -> None:
    """R4"""
    line = suppressed_line(ROW, SINK)
    assert "  api → web  7 turned away  too many a minute between the two, since " in line
    assert "  new_code, since" in suppressed_line({**ROW, "code": "new_code"}, SINK)
    assert log_lines({"entries": [ENTRY], "suppressed": [ROW]}, SINK)[-1] == line
    assert log_lines({"entries": [], "suppressed": []}, SINK) == ["Nothing was said."]


def test_each_reason_is_one_of_being_too_many() -> None:
    assert set(REASONS) == {code for code, exit_code in EXIT_CODES.items() if exit_code == 8}


def test_the_roster_and_the_status_say_that_there_were_some() -> None:
    """R4"""
    sessions = [session(suppressed=3), session(suppressed=0), session(suppressed=4)]
    told = "7 turned away as too many: `xsessionctl log` says whose."
    assert render.roster({"self": None, "sessions": sessions}, SINK)[-1] == told
    assert told not in render.roster({"self": None, "sessions": [session(suppressed=0)]}, SINK)
    assert "  suppressed  7 turned away (xsessionctl log)" in render.broker_state({"suppressed": 7}, SINK)
    assert not any("suppressed" in line for line in render.broker_state({"suppressed": 0}, SINK))

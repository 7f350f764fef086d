"""How many messages were turned away."""

from __future__ import annotations

from xsessiond.core.suppressed import KEPT, Suppressed, TurnedAway

API, WEB = ("s-1", "api"), ("s-2", "web")


def test_each_sender_receiver_and_reason_is_counted() -> None:
    suppressed = Suppressed()
    for ms in (5, 7, 9):
        suppressed.note(API, WEB, "rate_limited", ms)
    suppressed.note(API, WEB, "hop_limit", 8)
    assert suppressed.note(WEB, API, "hop_limit", 10) == TurnedAway("s-2", "web", "s-1", "api", "hop_limit", 10, 10)
    assert list(suppressed.rows()) == [
        TurnedAway("s-1", "api", "s-2", "web", "rate_limited", 5, 9, 3),
        TurnedAway("s-1", "api", "s-2", "web", "hop_limit", 8, 8),
        TurnedAway("s-2", "web", "s-1", "api", "hop_limit", 10, 10),
    ]
    suppressed.note(API, WEB, "rate_limited", 11)
    assert [row.code for row in suppressed.rows()] == ["hop_limit", "hop_limit", "rate_limited"]
    assert suppressed.total == 6


def test_what_was_quiet_for_longest_is_forgotten_first() -> None:
    suppressed = Suppressed()
    for number in range(KEPT):
        suppressed.note((f"t-{number}", "x"), WEB, "duplicate", number)
    suppressed.note(("t-0", "x"), WEB, "duplicate", KEPT)
    suppressed.note(API, WEB, "duplicate", KEPT)
    rows = list(suppressed.rows())
    assert len(rows) == KEPT
    assert [row.sender_id for row in (rows[0], *rows[-2:])] == ["t-2", "t-0", "s-1"]
    assert suppressed.total == KEPT + 2

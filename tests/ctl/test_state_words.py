"""The words that clients have for states are those of the broker's one table, and each has one meaning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xsessionctl import fast, outcome, render
from xsessionctl.shim import answers
from xsessiond.core.mailbox import FINAL, TRANSITIONS, WAITING
from xsessiond.core.receipts import SENTENCES
from xsessiond.core.watchers import SENTENCES as NOTICES

STATES = {state for state, _ in TRANSITIONS} | set(TRANSITIONS.values())
SESSIONS = {"idle", "busy", "waiting", "unresponsive", "offline", "unknown"}
"""States of sessions, which are other words."""


def test_the_table_has_the_states_of_the_documents() -> None:
    """W2, 6: every one that `check` may show, and no other."""
    assert WAITING | FINAL | {"delivered", "replied"} == STATES
    assert not STATES & SESSIONS, "what is said of a message is never said of a session"


@pytest.mark.parametrize(
    "words",
    [
        fast.SENT_WORDS,
        fast.FINE,
        outcome.STATE_CODES,
        answers._MEANINGS,
        set(render.STATE_STYLES) - SESSIONS,
    ],
)
def test_clients_know_no_state_that_the_table_has_not(words: object) -> None:
    """W2, 6.1: two words for one thing, or one that means nothing, cannot come up."""
    assert set(words) <= STATES  # type: ignore[call-overload]


def test_what_is_told_later_is_a_state_or_says_that_nothing_is_known() -> None:
    """W2, L4: `stalled` is no state: it says that nobody knows whether it was seen. `released` says how it became
    `queued`. What is told of sessions is told in other words, but for `expired`, which both can do."""
    assert set(SENTENCES) - STATES == {"stalled", "released"}
    assert set(NOTICES) - STATES == {"idle", "exited", "unavailable"}


def test_each_state_of_a_send_says_whether_to_send_again() -> None:
    """W2, L4: no model has to guess."""
    for state in STATES - FINAL - {"replied"}:
        assert "Do not send it again." in answers._MEANINGS[state]
    for state in FINAL:
        assert state in SENTENCES
        assert outcome.STATE_CODES[state] == 5


def test_an_exit_code_of_nought_is_no_failure() -> None:
    """W2, O4: what is on its way or there is 0; held, and every end before its receiver had it, is not."""
    assert {state for state in STATES if not outcome.send_code({"state": state})} == fast.FINE
    assert STATES - FINAL - {"held"} == fast.FINE


def test_the_words_of_the_documents_are_these() -> None:
    """W2, O8: every state stands in the protocol."""
    text = Path("docs/protocol.md").read_text(encoding="utf-8")
    for state in STATES | set(NOTICES):
        assert re.search(rf"\b{state}\b", text), state

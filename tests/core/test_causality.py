"""What a session acts on: entered by messages, ended by its human, by a turn of its mail, and by time."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from xsessiond.core.causality import Cause, Causes, choose_cause
from xsessiond.core.limits import CAUSE_KEPT_S

KEPT = CAUSE_KEPT_S


def acts_on(causes: Causes, mono: float) -> str | None:
    cause = causes.find(mono)
    return None if cause is None else cause.message_id


# -- a client that does not tell of its turns --------------------------------------------------------------------------


def test_what_was_read_is_acted_on_for_a_time() -> None:
    """10.2: at ten minutes it is over, not before."""
    causes = Causes()
    assert causes.find(0.0) is None
    causes.enter("m-1", 3, 100.0)
    assert causes.find(100.0) == Cause("m-1", 3, 100.0 + KEPT)
    assert acts_on(causes, 100.0 + KEPT - 0.001) == "m-1"
    assert causes.find(100.0 + KEPT) is None


def test_of_a_batch_the_farthest_counts() -> None:
    causes = Causes()
    for message_id, hop in (("m-1", 2), ("m-2", 7), ("m-3", 0)):
        causes.enter(message_id, hop, 100.0)
    assert acts_on(causes, 101.0) == "m-2"


def test_reading_something_nearer_does_not_bring_it_nearer() -> None:
    """Nothing tells which of the messages it acts on. When the farther one is over, the nearer one counts still."""
    causes = Causes()
    causes.enter("far", 7, 100.0)
    causes.enter("near", 0, 200.0)
    causes.enter("middle", 3, 300.0)
    assert acts_on(causes, 300.0) == "far"
    assert acts_on(causes, 100.0 + KEPT) == "middle"
    assert acts_on(causes, 300.0 + KEPT) is None


def test_of_two_that_came_as_far_the_later_one_counts() -> None:
    causes = Causes()
    causes.enter("m-1", 3, 100.0)
    causes.enter("m-2", 3, 200.0)
    assert causes.find(200.0) == Cause("m-2", 3, 200.0 + KEPT)


# -- turns -------------------------------------------------------------------------------------------------------------


def test_what_entered_a_turn_counts_until_its_end_and_a_while() -> None:
    """However long the turn is."""
    causes = Causes()
    causes.begin("mail")
    causes.enter("m-1", 3, 100.0)
    assert causes.in_turn
    assert causes.find(1e6) == Cause("m-1", 3, inf)
    causes.end(1e6)
    assert not causes.in_turn
    assert acts_on(causes, 1e6 + KEPT - 0.001) == "m-1"
    assert causes.find(1e6 + KEPT) is None


def test_a_prompt_of_the_human_begins_anew() -> None:
    causes = Causes()
    causes.enter("m-1", 3, 100.0)
    causes.begin("human")
    assert causes.by_human
    assert causes.find(100.0) is None
    causes.enter("m-2", 5, 101.0)
    assert acts_on(causes, 101.0) == "m-2", "mail may enter a turn of the human"
    causes.begin("human")
    assert causes.find(101.0) is None
    causes.end(102.0)
    assert not causes.by_human


def test_a_turn_of_mail_acts_on_its_own_mail() -> None:
    """Also where that is nearer; and all of a batch, also what comes while it runs."""
    causes = Causes()
    causes.enter("far", 9, 100.0)
    causes.begin("mail")
    causes.enter("near", 1, 101.0)
    assert acts_on(causes, 101.0) == "near"
    causes.enter("nearer", 0, 102.0)
    assert acts_on(causes, 102.0) == "near"
    causes.enter("farther", 4, 103.0)
    assert acts_on(causes, 103.0) == "farther"


def test_a_turn_that_says_it_is_of_mail_and_shows_none_is_rid_of_nothing() -> None:
    causes = Causes()
    causes.enter("m-1", 9, 100.0)
    causes.begin("mail")
    assert acts_on(causes, 101.0) == "m-1"
    causes.end(102.0)
    causes.enter("m-2", 0, 103.0)
    assert acts_on(causes, 103.0) == "m-1"


def test_any_other_turn_goes_on_with_what_there_was() -> None:
    """A timer's turn is no escape; it does not make a cause last longer either."""
    causes = Causes()
    causes.begin("mail")
    causes.enter("m-1", 3, 100.0)
    causes.end(100.0)
    for start in (200.0, 400.0, 600.0):
        causes.begin("other")
        assert acts_on(causes, start) == "m-1"
        causes.end(start + 50)
    assert causes.find(100.0 + KEPT) is None
    causes.begin(None)
    assert causes.in_turn


def test_whatever_goes_on_is_the_humans_no_more() -> None:
    """The end of the human's turn may have been missed."""
    for by in ("mail", "other", None):
        causes = Causes()
        causes.begin("human")
        causes.begin(by)
        assert not causes.by_human


def test_an_end_without_a_beginning_changes_nothing() -> None:
    causes = Causes()
    causes.end(0.0)
    causes.enter("m-1", 3, 100.0)
    causes.end(500.0)
    assert causes.find(100.0) == Cause("m-1", 3, 100.0 + KEPT)


def test_a_turn_ends_with_what_came_before_it_too() -> None:
    """Each keeps its own time."""
    causes = Causes()
    causes.enter("before", 9, 100.0)
    causes.begin("other")
    causes.enter("within", 3, 200.0)
    causes.end(300.0)
    assert acts_on(causes, 100.0 + KEPT) == "within"
    assert causes.find(300.0 + KEPT) is None


@given(
    st.lists(
        st.tuples(st.sampled_from(["enter", "human", "mail", "other", "end"]), st.integers(0, 16), st.floats(0, 400))
    )
)
def test_it_is_as_a_plain_list_says(story: list[tuple[str, int, float]]) -> None:
    """Of all that entered and is not over, the farthest; of equals the latest."""
    causes, mono = Causes(), 0.0
    plain: list[Cause] = []
    in_turn = anew = False
    for number, (what, hop, pause) in enumerate(story):
        mono += pause
        if what == "enter":
            causes.enter(f"m-{number}", hop, mono)
            plain = [] if anew else plain
            anew = False
            plain.append(Cause(f"m-{number}", hop, inf if in_turn else mono + KEPT))
        elif what == "end":
            causes.end(mono)
            plain = [replace(cause, until=mono + KEPT) if cause.until == inf else cause for cause in plain]
            in_turn = anew = False
        else:
            causes.begin(what)
            plain = [] if what == "human" else plain
            in_turn, anew = True, what == "mail" or (anew and what != "human")
        alive = [cause for cause in plain if cause.until > mono]
        best = max((cause.hop for cause in alive), default=None)
        expected = next((cause for cause in reversed(alive) if cause.hop == best), None)
        assert causes.find(mono) == expected


# -- several -----------------------------------------------------------------------------------------------------------


def test_of_several_causes_the_farthest_is_the_cause() -> None:
    first, second, third = Cause("m-1", 2, inf), Cause("m-2", 5, 7.0), Cause("m-3", 5, inf)
    assert choose_cause([]) is None
    assert choose_cause([None, None]) is None
    assert choose_cause([first, None, second, third]) is second

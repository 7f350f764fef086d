"""What two sessions say to each other because of each other: at n - 1, n and n + 1, on a clock that is an argument."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xsessiond.core.exchanges import PAIRS_KEPT, Exchanges


def say(exchanges: Exchanges, times: int, mono: float = 0.0, one: str = "a", other: str = "b") -> None:
    for _ in range(times):
        assert exchanges.wait_needed(one, other, 10, mono) is None
        exchanges.note(one, other, mono)
        one, other = other, one


def test_ten_go_in_a_minute_and_the_eleventh_waits() -> None:
    """10.3: either way counts."""
    exchanges = Exchanges()
    say(exchanges, 9)
    assert exchanges.wait_needed("a", "b", 10, 1.0) is None
    exchanges.note("b", "a", 1.0)
    assert exchanges.wait_needed("a", "b", 10, 1.0) == exchanges.wait_needed("b", "a", 10, 1.0) == 59.0
    assert exchanges.wait_needed("a", "b", 10, 59.5) == 0.5
    assert exchanges.wait_needed("a", "b", 10, 60.0) is None
    say(exchanges, 9, 60.0)
    assert exchanges.wait_needed("a", "b", 10, 60.0) == 1.0


def test_others_are_others() -> None:
    exchanges = Exchanges()
    say(exchanges, 10)
    say(exchanges, 10, other="c")
    assert exchanges.wait_needed("b", "c", 10, 0.0) is None


def test_a_tighter_setting_counts_what_went_before() -> None:
    exchanges = Exchanges()
    for second in range(10):
        say(exchanges, 1, float(second))
    assert exchanges.wait_needed("a", "b", 10, 10.0) == 50.0
    assert exchanges.wait_needed("a", "b", 1, 10.0) == 59.0
    assert exchanges.wait_needed("a", "b", 11, 10.0) is None


def test_what_was_not_stored_never_went() -> None:
    exchanges = Exchanges()
    say(exchanges, 10)
    exchanges.give_back("b", "a")
    say(exchanges, 1)
    assert exchanges.wait_needed("a", "b", 10, 0.0) is not None
    exchanges.give_back("a", "c")


def test_pairs_that_were_silent_for_a_minute_are_forgotten() -> None:
    """Not at each step, when there are many."""
    exchanges = Exchanges()
    for number in range(PAIRS_KEPT):
        say(exchanges, 1, number / 10, other=f"t{number}")
    assert len(exchanges._pairs) == PAIRS_KEPT
    exchanges.give_back("a", f"t{PAIRS_KEPT - 1}")
    say(exchanges, 1, 75.0, one="x")
    assert set(exchanges._pairs) == {("a", f"t{number}") for number in range(151, PAIRS_KEPT - 1)} | {("b", "x")}
    for number in range(1000):
        say(exchanges, 1, 76.0, one="y", other=f"u{number}")
    assert len(exchanges._pairs) > 1000, "all of them speak"
    say(exchanges, 1, 1000.0)
    for number in range(1000):
        say(exchanges, 1, 1000.0, one="z", other=f"u{number}")
    assert len(exchanges._pairs) < 1500


@given(st.integers(1, 5), st.lists(st.floats(0, 40), max_size=60))
def test_never_more_than_so_many_in_any_minute(most: int, pauses: list[float]) -> None:
    """R4: and whoever waits as long as told may speak."""
    exchanges, mono, went = Exchanges(), 0.0, list[float]()
    for pause in pauses:
        mono += pause
        wait = exchanges.wait_needed("a", "b", most, mono)
        while wait is not None:
            assert wait > 0
            mono = max(mono + wait, mono + 1e-9)  # the sum of two floats may be short by a hair
            wait = exchanges.wait_needed("b", "a", most, mono)
        exchanges.note("a", "b", mono)
        went.append(mono)
        assert sum(moment + 60.0 > mono for moment in went) <= most

"""How fast a sender may send: at n - 1, n and n + 1, with a clock that is an argument."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xsessiond.core.pacing import Pace, PaceSettings

DEFAULT = PaceSettings()
NO_LIMIT = PaceSettings(target_burst=0, sender_burst=0)


def spend(pace: Pace, target: str, count: int, mono: float, settings: PaceSettings = DEFAULT) -> None:
    for _ in range(count):
        assert pace.wait_needed(target, settings, mono) is None
        pace.spend(target)


def test_thirty_to_one_target_then_one_every_two_seconds() -> None:
    """10.1: the 30th goes, the 31st waits, and goes when it was told to."""
    pace = Pace()
    spend(pace, "b", 29, 0.0)
    assert pace.wait_needed("b", DEFAULT, 0.0) is None
    pace.spend("b")
    assert pace.wait_needed("b", DEFAULT, 0.0) == (2.0, "target")
    assert pace.wait_needed("b", DEFAULT, 1.5) == (0.5, "target")
    assert pace.wait_needed("b", DEFAULT, 2.0) is None
    pace.spend("b")
    assert pace.wait_needed("b", DEFAULT, 2.0) == (2.0, "target")


def test_sixty_in_all_then_one_a_second() -> None:
    pace = Pace()
    for target in "bc":
        spend(pace, target, 30, 0.0)
    assert pace.wait_needed("d", DEFAULT, 0.0) == (1.0, "sender")
    assert pace.wait_needed("d", DEFAULT, 1.0) is None


def test_the_longer_wait_is_the_one_that_is_told() -> None:
    pace = Pace()
    for target in "bc":
        spend(pace, target, 30, 0.0)
    assert pace.wait_needed("b", DEFAULT, 0.0) == (2.0, "target")
    slow = PaceSettings(sender_per_second=0.1)
    assert pace.wait_needed("b", slow, 0.0) == (10.0, "sender")


def test_a_refused_send_costs_nothing() -> None:
    pace = Pace()
    spend(pace, "b", 30, 0.0)
    for _ in range(1000):
        assert pace.wait_needed("b", DEFAULT, 0.0) == (2.0, "target")
    assert pace.wait_needed("b", DEFAULT, 2.0) is None


def test_a_rest_fills_the_bucket_and_no_more() -> None:
    pace = Pace()
    spend(pace, "b", 30, 0.0)
    spend(pace, "b", 30, 1e6)
    assert pace.wait_needed("b", DEFAULT, 1e6) is not None


def test_a_burst_of_nothing_is_no_limit() -> None:
    pace = Pace()
    spend(pace, "b", 10_000, 0.0, NO_LIMIT)
    only_target = PaceSettings(sender_burst=0)
    spend(pace, "b", 30, 0.0, only_target)
    assert pace.wait_needed("b", only_target, 0.0) == (2.0, "target")


def test_where_no_tokens_ever_come_the_wait_is_a_day() -> None:
    stingy = PaceSettings(target_burst=1, target_per_second=0)
    pace = Pace()
    spend(pace, "b", 1, 0.0, stingy)
    assert pace.wait_needed("b", stingy, 5.0) == (86400.0, "target")


def test_targets_that_have_rested_are_forgotten() -> None:
    pace = Pace()
    generous = PaceSettings(sender_burst=0)
    for number in range(256):
        spend(pace, f"t{number}", 1, 0.0, generous)
    assert len(pace._targets) == 256
    spend(pace, "t0", 1, 1.0, generous)
    spend(pace, "new", 1, 2.0, generous)
    assert set(pace._targets) == {"t0", "new"}


def test_what_is_given_back_can_be_spent_again() -> None:
    pace = Pace()
    spend(pace, "b", 30, 0.0)
    pace.note_sent("b", b"x", "m-1", DEFAULT, 0.0)
    pace.give_back("b", b"x")
    spend(pace, "b", 1, 0.0)
    assert pace.wait_needed("b", DEFAULT, 0.0) is not None
    assert pace.find_repeat("b", b"x", 0.0) is None
    Pace().give_back("b", b"x")


def test_the_same_text_is_a_repeat_for_thirty_seconds() -> None:
    """10.4: to the same target only; at 30 s it is a new one."""
    pace = Pace()
    pace.note_sent("b", b"x", "m-1", DEFAULT, 100.0)
    assert pace.find_repeat("b", b"x", 129.999) == "m-1"
    assert pace.find_repeat("b", b"x", 130.0) is None
    assert pace.find_repeat("c", b"x", 100.0) is None
    assert pace.find_repeat("b", b"y", 100.0) is None


def test_without_a_window_nothing_is_remembered() -> None:
    pace = Pace()
    pace.note_sent("b", b"x", "m-1", PaceSettings(duplicate_window=0), 0.0)
    assert pace.find_repeat("b", b"x", 0.0) is None


def test_old_texts_are_forgotten() -> None:
    """The oldest first; one that was sent again is new."""
    pace = Pace()
    for number in range(64):
        pace.note_sent("b", b"%d" % number, "m-1", DEFAULT, 0.0)
    pace.note_sent("b", b"0", "m-2", DEFAULT, 30.0)
    pace.note_sent("b", b"new", "m-3", DEFAULT, 31.0)
    assert set(pace._recent) == {("b", b"0"), ("b", b"new")}


def test_a_window_too_short_for_the_clock_remembers_nothing() -> None:
    pace = Pace()
    pace.note_sent("b", b"x", "m-1", PaceSettings(duplicate_window=1e-12), 1e6)
    assert pace.find_repeat("b", b"x", 1e6) is None


def test_a_sender_of_thousands_costs_no_more_each_time() -> None:
    """A hundred thousand within one window would take minutes if each looked at all before it."""
    pace = Pace()
    for number in range(100_000):
        pace.note_sent("b", b"%d" % number, "m-1", DEFAULT, number / 10_000)
    assert len(pace._recent) == 100_000


@given(st.lists(st.floats(0, 5), min_size=1, max_size=200), st.floats(0, 1e7))
def test_whoever_waits_as_long_as_told_may_send(pauses: list[float], start: float) -> None:
    """R4: the time that a refusal names is enough, whatever came before, on any clock; and not much too long."""
    pace, mono = Pace(), start
    for pause in pauses:
        mono += pause
        wait = pace.wait_needed("b", DEFAULT, mono)
        while wait is not None:
            if wait[0] > 0.1:
                assert pace.wait_needed("b", DEFAULT, mono + wait[0] * 0.9) is not None
            mono += wait[0]
            wait = pace.wait_needed("b", DEFAULT, mono)
            assert wait is None
        pace.spend("b")

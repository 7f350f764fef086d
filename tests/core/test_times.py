"""Two clocks, and how times are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsessiond.core.times import Now, format_time, format_time_or_none, parse_time


@pytest.mark.parametrize(
    "ms, text",
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (1_800_000_000_123, "2027-01-15T08:00:00.123Z"),
    ],
)
def test_a_time_is_rfc_3339_in_utc_with_milliseconds(ms: int, text: str) -> None:
    assert format_time(ms) == text
    assert format_time(ms) == text  # from memory
    assert format_time_or_none(ms) == text
    assert parse_time(text) == ms


def test_no_time_stays_none() -> None:
    assert format_time_or_none(None) is None


@given(st.integers(0, 4_000_000_000_000))
def test_what_is_written_can_be_read(ms: int) -> None:
    assert parse_time(format_time(ms)) == ms


@pytest.mark.parametrize(
    "text", ["2027-01-15T08:00:00", "2027-01-15T08:00:00Z", "2027-01-15T09:00:00+01:00", "2027-01-15 08:00"]
)
def test_times_of_people_are_read_and_without_a_zone_they_are_utc(text: str) -> None:
    assert parse_time(text) == 1_800_000_000_000


@pytest.mark.parametrize("text", ["", "yesterday", "2027-13-01", "1800000000000"])
def test_what_is_no_time_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time(text)


def test_now_is_both_clocks() -> None:
    assert Now(1.5, 7) == (1.5, 7)

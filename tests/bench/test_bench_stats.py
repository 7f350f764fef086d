"""The figures of the bench: percentiles, paired ratios, the table."""

import pytest

from tests.bench.stats import Fact, Row, at_least, at_most, percentile, table


def test_percentile_is_an_observed_value() -> None:
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile([5], 0.99) == 5
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_a_ratio_is_paired_by_round() -> None:
    """A busy round falls on both sides and leaves the ratio alone."""
    row = Row("c", "m", "us", [10, 100, 20], [20, 200, 40], "anchor", at_most(0.5))
    assert row.ratio == 0.5
    assert row.as_json()["met"] is True


def test_throughput_is_told_by_the_best_round() -> None:
    row = Row("c", "m", "msg/s", [50, 90], [100, 60], "anchor", at_least(1.0), best_of=True)
    assert row.ratio == 0.9
    assert row.as_json()["met"] is False


def test_the_table_is_markdown() -> None:
    lines = table([Row("c", "m", "us", [1.0], [2.0], "anchor", at_most(1)), Fact("c", "skipped", None, note="why")])
    head, rule, *rows = lines.splitlines()
    assert {line.count("|") for line in (head, rule, *rows)} == {10}
    assert "yes" in rows[0]
    assert "why" in rows[1]

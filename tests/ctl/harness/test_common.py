"""How much two texts have in common."""

from __future__ import annotations

import random

import pytest

from xsessionctl.harness.common import count_common


@pytest.mark.parametrize(
    "one, other, common",
    [("", "", 0), ("a", "", 0), ("", "a", 0), ("a", "a", 1), ("ab", "ac", 1), ("abc", "ab", 2), ("xa", "ya", 0)],
)
def test_it_is_counted_from_the_beginning(one: str, other: str, common: int) -> None:
    assert count_common(one, other) == count_common(list(one), list(other)) == common


def test_it_is_what_comparing_one_by_one_gives() -> None:
    dice = random.Random(5)
    for _ in range(2000):
        one, other = ("".join(dice.choices("ab", (20, 1), k=dice.randrange(40))) for _ in range(2))
        pairs = list(zip(one, other, strict=False))
        assert count_common(one, other) == next((n for n, (a, b) in enumerate(pairs) if a != b), len(pairs))

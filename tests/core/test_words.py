"""The two lists of words that names are made of."""

from __future__ import annotations

import re

import pytest

from xsessiond.core.words import NOUNS, QUALITIES


@pytest.mark.parametrize("words", [QUALITIES, NOUNS])
def test_words_are_short_plain_and_a_power_of_two(words: tuple[str, ...]) -> None:
    assert len(words) == 128
    assert all(re.fullmatch("[a-z]{2,8}", word) for word in words)


def test_no_word_stands_twice() -> None:
    assert len({*QUALITIES, *NOUNS}) == len(QUALITIES) + len(NOUNS)


def test_no_word_could_be_taken_for_a_ref() -> None:
    assert [word for word in (*QUALITIES, *NOUNS) if re.fullmatch("[0-9a-f]{6,}", word)] == []

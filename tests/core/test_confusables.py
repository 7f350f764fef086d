"""The generated table of look-alikes."""

from __future__ import annotations

from pathlib import Path

import xsessiond.core.confusables
from tests.support.generate_confusables import render
from xsessiond.core.confusables import prototypes


def test_the_committed_table_is_what_the_generator_makes() -> None:
    committed = Path(xsessiond.core.confusables.__file__).read_text(encoding="utf-8")
    assert committed == render(), "run: python -m tests.support.generate_confusables > xsessiond/core/confusables.py"


def test_well_known_look_alikes_are_in_it() -> None:
    table = prototypes()
    assert "".join(table[ord(char)] for char in "асеорхуіАВЕКМНОРСТХ") == "aceopxyiABEKMHOPCTX"  # Cyrillic
    assert "".join(table[ord(char)] for char in "οναΑΒΕΖΗΙΚΜΝΟΡΤΥΧ") == "ovaABEZHlKMNOPTYX"  # Greek
    assert [table[ord(char)] for char in "m01I"] == ["rn", "O", "l", "l"]


def test_a_prototype_looks_like_itself() -> None:
    """Unicode's promise about the table, which the skeleton relies on to settle."""
    table = prototypes()
    assert [prototype for prototype in table.values() if any(ord(char) in table for char in prototype)] == []


def test_ascii_letters_stay_apart() -> None:
    """No letter or digit of ASCII is mistaken for another beyond the three pairs that Unicode names."""
    assert {chr(code): prototype for code, prototype in prototypes().items() if code < 0x80} == {
        "m": "rn",
        "0": "O",
        "1": "l",
        "I": "l",
    }

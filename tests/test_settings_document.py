"""docs/settings.md: its table is the list of settings, and its example is a file without problems."""

from __future__ import annotations

import re

from tests.support.generate_settings_reference import DOCUMENT as TABLE
from tests.support.generate_settings_reference import make_lines
from xsessiond.core.setting_keys import KEYS
from xsessiond.core.settings_text import MAX_TEXT, read_settings
from xsessiond.io.settings import GATHER_S, VANISHED_S

DOCUMENT = TABLE.read()


def test_the_table_is_what_the_list_says() -> None:
    """O8: documented settings exist, and settings are documented."""
    lines = make_lines()
    assert TABLE.put(lines) == DOCUMENT, "run: python -m tests.support.generate_settings_reference"
    assert all(f"`{key.name}`" in "\n".join(lines) for key in KEYS)


def test_the_examples_are_right() -> None:
    examples = re.findall(r"^```toml\n(.*?)^```$", DOCUMENT, flags=re.MULTILINE | re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        assert read_settings(example, "example").problems == ()


def test_its_numbers_are_those_of_the_program() -> None:
    assert f"{GATHER_S * 1000:.0f} ms" in DOCUMENT
    assert f"{VANISHED_S} s" in DOCUMENT
    assert f"{MAX_TEXT >> 10} Ki" in DOCUMENT

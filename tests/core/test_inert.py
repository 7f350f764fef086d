"""What people see holds nothing that acts on their terminal or hides from them."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsessiond.core.inert import inert

NASTY = (
    "\x1b\x9b\r\n\t\x07\x08\x00\x7f\x85\xad\u200b\u200c\u200d\u200e\u202e\u2066\u2028\ufeff\U000e0041\ud800\u3164\ufe0f"
)
TEXTS = st.text(st.one_of(st.sampled_from(NASTY + "aé中👩 \\|"), st.characters()))


@given(text=TEXTS, multiline=st.booleans())
def test_twice_is_once(text: str, *, multiline: bool) -> None:
    once = inert(text, multiline=multiline)
    assert inert(once, multiline=multiline) == once


@given(text=TEXTS, multiline=st.booleans())
def test_nothing_acts_and_nothing_hides(text: str, *, multiline: bool) -> None:
    """S10: bidi overrides, zero-width characters, C0 and C1 are gone from what is printed, not only category Cc."""
    shown = inert(text, multiline=multiline)
    assert not set(shown) & set(
        "\x1b\x9b\r\x07\x08\x00\x7f\x85\xad\u200b\u200e\u202e\u2066\u2028\ufeff\U000e0041\u3164"
    )
    assert not any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in shown if char not in "\n\t")
    if not multiline:
        assert "\n" not in shown
        assert "\t" not in shown
    shown.encode()


@given(
    st.text(st.characters(categories=["L", "N", "P", "Sm", "Sc", "Zs"], exclude_characters="\u115f\u1160\u3164\uffa0"))
)
def test_ordinary_text_is_untouched(text: str) -> None:
    assert inert(text, multiline=False) == text
    assert inert(text, multiline=True) == text


@pytest.mark.parametrize(
    "text, one_line, lines",
    [
        ("plain", "plain", "plain"),
        ("a\nb\tc", "a\\nb c", "a\nb\tc"),
        ("a\r\nb", "a\\r\\nb", "a\nb"),
        ("safe\roverwritten", "safe\\roverwritten", "safe\\roverwritten"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m", "\\x9b31m"),
        ("abc\u202ecod.exe", "abc\\u202ecod.exe", "abc\\u202ecod.exe"),
        ("pay\u200bpal", "pay\\u200bpal", "pay\\u200bpal"),
        ("a\u200db", "a\\u200db", "a\\u200db"),
        ("\u200dab\u200c", "\\u200dab\\u200c", "\\u200dab\\u200c"),
        ("می\u200cخواهم", "می\u200cخواهم", "می\u200cخواهم"),
        ("👩\u200d💻 ❤\ufe0f", "👩\u200d💻 ❤\ufe0f", "👩\u200d💻 ❤\ufe0f"),
        ("中\u200d\u200d文", "中\\u200d\\u200d文", "中\\u200d\\u200d文"),
        ("中\u200d\u200bx", "中\\u200d\\u200bx", "中\\u200d\\u200bx"),
        ("x\U000e0068\U000e0069", "x\\U000e0068\\U000e0069", "x\\U000e0068\\U000e0069"),
        ("\ud800", "\\ud800", "\\ud800"),
        ("C:\\new", "C:\\new", "C:\\new"),
        ("", "", ""),
    ],
)
def test_table(text: str, one_line: str, lines: str) -> None:
    assert inert(text, multiline=False) == one_line
    assert inert(text, multiline=True) == lines


def test_importing_it_imports_nothing_else() -> None:
    """The fast way into the command line counts on it."""
    count = (
        "import sys; before = set(sys.modules); import xsessiond.core.inert; print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "['xsessiond', 'xsessiond.core', 'xsessiond.core.inert']"

"""xsessionctl.output and xsessionctl.table: what leaves, whatever it leaves through."""

from __future__ import annotations

import io
import os
import pty
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsessionctl.output import Sink, is_terminal, line_width, write_text
from xsessionctl.table import cell_width, lay_out, pad, shorten


def stream(encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)


def written(through: io.TextIOWrapper) -> bytes:
    assert isinstance(through.buffer, io.BytesIO)
    return through.buffer.getvalue()


def test_what_a_stream_cannot_say_is_shown_as_an_escape() -> None:
    """I1: LANG=C."""
    ascii_only = stream("ascii")
    write_text(ascii_only, "café → 日本 \udc80\n")
    assert written(ascii_only) == b"caf\\xe9 \\u2192 \\u65e5\\u672c \\udc80\n"


def test_a_document_is_ascii_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    latin = stream("latin-1")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", latin)
        Sink().document({"name": "日本\u202e\x1b", "n": 1})
    assert written(latin) == b'{"name":"\\u65e5\\u672c\\u202e\\u001b","n":1}\n'


def test_a_closed_stream_is_no_fault() -> None:
    write_text(None, "x\n")
    closed = stream("utf-8")
    closed.close()
    write_text(closed, "x\n")
    assert not is_terminal(closed)
    assert not is_terminal(None)


def test_a_reader_that_went_away_is_no_fault() -> None:
    """O7: EPIPE."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as broken:
        write_text(broken, "x\n")
        write_text(broken, "y\n")  # goes nowhere now


def test_a_full_disk_is_told() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    full = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115 - closing it fails, which is the point
    with pytest.raises(OSError, match="No space left"):
        write_text(full, "x\n")
    with pytest.raises(OSError, match="No space left"):
        full.close()


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let standard output be a terminal, and nothing say otherwise."""
    master, slave = pty.openpty()
    try:
        with open(slave, "w", encoding="utf-8") as out, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            yield
    finally:
        os.close(master)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that says nothing about colours or sizes."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    "color, environ, colored",
    [
        ("auto", {}, True),
        ("auto", {"NO_COLOR": "1"}, False),
        ("auto", {"NO_COLOR": ""}, True),
        ("auto", {"TERM": "dumb"}, False),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, True),
        ("never", {}, False),
    ],
)
def test_colours_are_where_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch, *, color: str, environ: dict[str, str], colored: bool
) -> None:
    """O7: NO_COLOR, TERM=dumb, non-TTY give no escape; `--color=always` is honoured."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with terminal(monkeypatch):
        assert Sink(color).paint("x", "red") == ("\x1b[31mx\x1b[0m" if colored else "x")


def test_a_pipe_is_not_coloured_and_nothing_is_shortened_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream("utf-8"))
        assert Sink().paint("x", "red") == "x"
        assert Sink("always").paint("x", "red") != "x"
        assert line_width() is None


@pytest.mark.usefixtures("plain")
def test_a_terminal_has_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch):
        assert line_width() == 80  # of a pseudo-terminal that nobody sized
        monkeypatch.setenv("COLUMNS", "132")
        assert line_width() == 132


# -- columns -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, width", [("", 0), ("abc", 3), ("日本", 4), ("é", 1), ("e\u0301", 1), ("a\u200db", 2)])
def test_width_is_what_a_terminal_shows(text: str, width: int) -> None:
    assert cell_width(text) == width


@given(
    text=st.text(alphabet=st.characters(blacklist_categories=["Cc", "Cs"])),
    width=st.integers(0, 30),
    keep_end=st.booleans(),
)
def test_a_shortened_text_fits_and_says_that_it_is(text: str, width: int, *, keep_end: bool) -> None:
    short = shorten(text, width, keep_end=keep_end)
    assert cell_width(short) <= width
    if cell_width(text) <= width:
        assert short == text
    elif width:
        assert "…" in short


def test_a_folder_keeps_its_end_and_a_name_its_beginning() -> None:
    assert shorten("/disk/ann/src/api", 8, keep_end=True) == "…src/api"
    assert shorten("a-long-name", 6) == "a-lon…"
    assert pad("日", 4) == "日  "
    assert pad("7", 3, right=True) == "  7"


def test_columns_line_up_and_give_way_in_order() -> None:
    rows = [["日本", "/disk/ann/src/api", "3"], ["b", "/x", "12"]]
    wide = lay_out(["NAME", "FOLDER", "N"], rows, width=None, elastic={1: 5, 0: 2}, right={2})
    assert wide == [
        ["NAME", "FOLDER           ", " N"],
        ["日本", "/disk/ann/src/api", " 3"],
        ["b   ", "/x               ", "12"],
    ]
    narrow = lay_out(["NAME", "FOLDER", "N"], rows, width=18, elastic={1: 5, 0: 2}, right={2})
    assert [sum(map(cell_width, cells)) + 4 for cells in narrow] == [18, 18, 18]
    assert narrow[1][1] == "…src/api"

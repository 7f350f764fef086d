"""Framing: lines in, none cut, none over the limit; and the shapes that both ends build."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsessiond.core import jsonrpc
from xsessiond.core.jsonrpc import EndlessLine, LineSplitter, NotJson, Oversize

Line = bytes | int
"""A line, or the size of one that was too long."""


def cut(splitter: LineSplitter, *parts: bytes) -> list[Line]:
    return [line.size if isinstance(line, Oversize) else line for part in parts for line in splitter.feed(part)]


@pytest.mark.parametrize(
    "parts, lines",
    [
        ([b""], []),
        ([b"a\n"], [b"a"]),
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a\nb", b"c\n"], [b"a", b"bc"]),
        ([b"a", b"b", b"c", b"\n"], [b"abc"]),
        ([b"\n\n"], [b"", b""]),
        ([b"a\r\n"], [b"a\r"]),
    ],
)
def test_bytes_become_lines(parts: list[bytes], lines: list[Line]) -> None:
    splitter = LineSplitter(10, 100)
    assert cut(splitter, *parts) == lines
    assert splitter.pending == 0


@pytest.mark.parametrize("length, line", [(8, b"x" * 8), (9, b"x" * 9), (10, 11), (11, 12)])
@pytest.mark.parametrize("step", [1, 3, 100])
def test_the_limit_counts_the_newline(length: int, line: Line, step: int) -> None:
    """A line that is too long is reported with its size, in its place, and the next one is whole."""
    data = b"x" * length + b"\nnext\n"
    splitter = LineSplitter(10, 100)
    parts = [data[start : start + step] for start in range(0, len(data), step)]
    assert cut(splitter, *parts) == [line, b"next"]


def test_what_is_held_is_bounded_and_counted() -> None:
    splitter = LineSplitter(10, 100)
    assert cut(splitter, b"12345") == []
    assert splitter.pending == 5
    assert cut(splitter, b"678901234") == []
    assert splitter.pending == 14
    assert not splitter._buffer
    assert cut(splitter, b"x" * 80) == []
    assert cut(splitter, b"\n") == [95]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_line_that_never_ends_is_of_no_use(step: int) -> None:
    splitter = LineSplitter(10, 100)
    for _ in range(100 // step):
        assert splitter.feed(b"x" * step) == []
    with pytest.raises(EndlessLine, match=str(100 // step * step + step)):
        splitter.feed(b"x" * step)


def test_a_dribbled_line_takes_linear_time() -> None:
    """A megabyte, a byte at a time, would take minutes if each byte cost what came before it."""
    splitter = LineSplitter(1 << 20, 16 << 20)
    for _ in range((1 << 20) - 1):
        splitter.feed(b"x")
    (line,) = splitter.feed(b"\n")
    assert isinstance(line, bytes)
    assert len(line) == (1 << 20) - 1


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(1, 30), max_size=60))
def test_it_does_not_matter_how_the_bytes_come(lines: list[bytes], cuts: list[int]) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    data = b"".join(line + b"\n" for line in lines)
    splitter, got, at = LineSplitter(12, 10_000), list[Line](), 0
    for size in [*cuts, len(data)]:
        got += cut(splitter, data[at : at + size])
        at += size
    assert got == [line if len(line) < 12 else len(line) + 1 for line in lines]


def test_frames_are_one_line_each() -> None:
    assert jsonrpc.request(1, "x", {"a": "b\nc"}) == b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"b\\nc"}}\n'
    assert jsonrpc.notification("x", {}) == b'{"jsonrpc":"2.0","method":"x","params":{}}\n'
    assert jsonrpc.result("r", {"ok": True}) == b'{"jsonrpc":"2.0","id":"r","result":{"ok":true}}\n'
    assert jsonrpc.error(None, -1, "no") == b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}\n'
    assert b'"data":{"n":1}' in jsonrpc.error(2, -1, "no", {"n": 1})


def test_what_leaves_is_utf_8_whatever_it_holds() -> None:
    assert jsonrpc.encode({"a": "\ud800é"}).decode() == '{"a":"?é"}\n'


def test_one_object_comes_out_of_a_line() -> None:
    assert jsonrpc.decode(b'{"a":1}') == {"a": 1}


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"1", b"\xff", b"[" * 100_000, b"GET / HTTP/1.1"])
def test_anything_else_is_not_json(line: bytes) -> None:
    with pytest.raises(NotJson):
        jsonrpc.decode(line)

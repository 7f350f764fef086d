"""Where the keys and values of a TOML text stand, which `tomllib` does not tell.

A `tomllib` that accepts a text says what it means; this finds where. So everything here may take for granted that the
text is valid, and needs no errors of its own.

Laws: the text as it is in the file, so that an offset may be used to change it; each key of each table is found, also
dotted, quoted and inline ones. Refuses to know: what keys mean, files.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import NamedTuple

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\]|\\.)*"')
_LITERAL = re.compile(r"'[^']*'")
_LONG = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}(?!")|' + r"'''.*?'{3,5}(?!')", re.DOTALL)
_SCALAR = re.compile(r"[^,\]}#\n]*")


class Entry(NamedTuple):
    """One place where a key is named: `[a.b]` is one of a.b, `c.d = 1` below it is one of a.b.c and one of a.b.c.d.

    path: the whole key. key: offset of its last part. header: of the table that it stands in or is, the path. value:
    start and end of what it is set to; None for a header and for the first parts of a dotted key. inline: it stands in
    braces.
    """

    path: tuple[str, ...]
    key: int
    header: tuple[str, ...]
    value: tuple[int, int] | None
    inline: bool


class Spot(NamedTuple):
    """A place in a text as editors count it, from 1. column: in characters."""

    line: int
    column: int


START = Spot(1, 1)
"""Where a fault of the whole text is."""


def find_entries(text: str) -> list[Entry]:
    """Every place where a key is named, in the order of the text. text: what `tomllib` accepts."""
    return _Scan(text).entries


def write_key(path: tuple[str, ...]) -> str:
    """The key as it is written in TOML."""
    return ".".join(part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False) for part in path)


def read_key(text: str) -> tuple[str, ...] | None:
    """The path that a dotted key names, or None if that is none."""
    try:
        table: object = tomllib.loads(f"{text}=0")
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    path = []
    while isinstance(table, dict) and len(table) == 1:
        ((part, table),) = table.items()
        path.append(part)
    return tuple(path) if table == 0 else None


def spot_of(text: str, offset: int) -> Spot:
    """The line and column of an offset."""
    return Spot(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def spot_of_error(text: str, error: tomllib.TOMLDecodeError) -> tuple[str, Spot]:
    """What `tomllib` says is wrong, and where."""
    said = str(error)
    found = _AT.search(said)
    if found is None:
        return said, START
    where = spot_of(text, len(text)) if found[1] is None else Spot(int(found[1]), int(found[2]))
    return said[: found.start()], where


class _Scan:
    """One walk through a text."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self.entries: list[Entry] = []
        header: tuple[str, ...] = ()
        while self._skip(_BLANK) < len(text):
            if text[self._at] == "[":
                self._at += 2 if text.startswith("[[", self._at) else 1
                parts = self._read_key()
                header = tuple(part for part, _ in parts)
                for count, (_, offset) in enumerate(parts, 1):
                    self.entries.append(Entry(header[:count], offset, header, None, inline=False))
                self._at = text.index("]", self._at) + 1
                self._at += text.startswith("]", self._at)
            else:
                self._read_pair(header, header, inline=False)

    def _skip(self, what: re.Pattern[str]) -> int:
        """Goes on behind what stands here, and returns where that is."""
        found = what.match(self._text, self._at)
        assert found is not None, "tomllib accepted what this does not know"
        self._at = found.end()
        return self._at

    def _read_key(self) -> list[tuple[str, int]]:
        """The parts of a key with their offsets. Ends behind it and the space after it."""
        parts = []
        while True:
            start = self._skip(_SPACE)
            quote = self._text[start]
            end = self._skip(_BASIC if quote == '"' else _LITERAL if quote == "'" else _BARE)
            raw = self._text[start:end]
            parts.append((next(iter(tomllib.loads(raw + "=0"))) if quote in "\"'" else raw, start))
            if not self._text.startswith(".", self._skip(_SPACE)):
                return parts
            self._at += 1

    def _read_pair(self, table: tuple[str, ...], header: tuple[str, ...], *, inline: bool) -> None:
        parts = self._read_key()
        path = table
        for part, offset in parts[:-1]:
            path = (*path, part)
            self.entries.append(Entry(path, offset, header, None, inline))
        path = (*path, parts[-1][0])
        self._at += 1  # the equals sign
        start = self._skip(_SPACE)
        place = len(self.entries)
        self._read_value(path, header)
        self.entries.insert(place, Entry(path, parts[-1][1], header, (start, self._at), inline))

    def _read_value(self, path: tuple[str, ...], header: tuple[str, ...]) -> None:
        text, first = self._text, self._text[self._at]
        if text.startswith(('"""', "'''"), self._at):
            self._skip(_LONG)
        elif first == '"':
            self._skip(_BASIC)
        elif first == "'":
            self._skip(_LITERAL)
        elif first in "[{":
            close = "]" if first == "[" else "}"
            self._at += 1
            while text[self._skip(_BLANK)] != close:
                if first == "[":
                    self._read_value(path, header)
                else:
                    self._read_pair(path, header, inline=True)
                if text[self._skip(_BLANK)] == ",":
                    self._at += 1
            self._at += 1
        else:
            start = self._at
            self._at = start + len(text[start : self._skip(_SCALAR)].rstrip(" \t\r"))

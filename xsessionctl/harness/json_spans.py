"""Where the values of a JSON text stand, comments and trailing commas allowed: what `json_edit` cuts by.

Three views of one text have the same length, so that a place in one is the same place in the others: the text itself;
`code`, in which comments are blanks; and `plain`, in which trailing commas are blanks too, which is JSON and is read
by Python's own parser.

Laws: what this does not refuse, the parser of the standard library took as a whole. Refuses to know: what the values
mean, files.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from xsessionctl.harness.trees import Path

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_NO_LINE_END = re.compile(r"[^\r\n]")
_SPACE = re.compile(r"[ \t\r\n]*")


class BadText(Exception):
    """A text that cannot be taken apart, or that has not the shape that is needed. The text is half a sentence."""


class Child(NamedTuple):
    """A member of an object or an element of an array.

    name: the key, or the number. start: of the key where there is one, else of the value. value: where that begins.
    end: behind the value.
    """

    name: str | int
    start: int
    value: int
    end: int


class Spans:
    """A text that was taken apart. value: all that it says; a text with nothing in it says `{}`. comments: from where
    to where each goes."""

    def __init__(self, text: str) -> None:
        """Raises BadText."""
        self.text = self.code = self.plain = text
        self.comments: list[tuple[int, int]] = []
        self.value: object = {}
        try:
            self.value = _read(text)  # the parser alone, for a file of many megabytes has no comments in most cases
        except BadText:
            self._read_marked_up()
        self.root = _skip(self.code, 0)

    def _read_marked_up(self) -> None:
        text = self.text
        self.comments = [found.span() for found in _TOKEN.finditer(text) if not found[0].startswith('"')]
        self.code = self.plain = _TOKEN.sub(_blank_comment, text) if self.comments else text
        if _skip(self.code, 0) == len(text):
            return
        try:
            self.value = _read(self.plain)
        except BadText:
            self.plain = _blank_trailing(self.code)
            self.value = _read(self.plain)

    def find(self, path: Path) -> Child | None:
        """The value at this path, None where there is none. Raises BadText where the way leads through another kind of
        value, or a key on it is there twice, so that it is not known which of them counts."""
        if self.root == len(self.text):
            return None
        child = Child("", self.root, self.root, self._end_of(self.root))
        for name in path:
            found = [one for one in self.children(child.value, list_wanted=isinstance(name, int)) if one.name == name]
            if not found:
                return None
            if len(found) > 1:
                raise BadText(f"the key {json.dumps(name)} stands there twice")
            child = found[0]
        return child

    def children(self, at: int, *, list_wanted: bool) -> list[Child]:
        """What the object, or list, that begins at `at` holds. Raises BadText where another value stands there."""
        if self.plain[at] != ("[" if list_wanted else "{"):
            wanted = "a list" if list_wanted else "an object"
            raise BadText(f"line {self.text.count(chr(10), 0, at) + 1}: {wanted} was expected")
        found: list[Child] = []
        spot = _skip(self.plain, at + 1)
        while self.plain[spot] not in "}]":
            start, name = spot, len(found)
            if not list_wanted:
                key = _STRING.match(self.plain, start)
                assert key is not None, "json accepted what this does not know"
                name = json.loads(key[0])
                spot = _skip(self.plain, _skip(self.plain, key.end()) + 1)
            end = self._end_of(spot)
            found.append(Child(name, start, spot, end))
            spot = _skip(self.plain, end)
            if self.plain[spot] == ",":
                spot = _skip(self.plain, spot + 1)
        return found

    def _end_of(self, at: int) -> int:
        """Behind the value that begins at `at`."""
        return json.JSONDecoder().raw_decode(self.plain, at)[1]


def _read(plain: str) -> object:
    try:
        return json.loads(plain, parse_constant=_refuse_constant)
    except json.JSONDecodeError as problem:
        raise BadText(f"line {problem.lineno}, column {problem.colno}: {problem.msg}") from None
    except RecursionError:
        raise BadText("its values are nested too deep") from None
    except ValueError as problem:
        raise BadText(f"{problem}") from None


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _blank_comment(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else _NO_LINE_END.sub(" ", found[0])


def _blank_trailing(code: str) -> str:
    """Without the commas behind a last value. One that stands behind no value is left for the parser to refuse."""
    pieces, done = [], 0
    before, last, where = "", "", 0
    for found in _WORD.finditer(code):
        token = found[0]
        if last == "," and token in ("}", "]") and before not in ("", "{", "[", ",", ":"):
            pieces += [code[done:where], " "]
            done = where + 1
        before, last, where = last, token, found.start()
    return "".join([*pieces, code[done:]])


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")

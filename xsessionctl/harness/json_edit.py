"""Changes in a JSON text, comments and trailing commas allowed, that leave every other character where it was.

A value is put in the place of the old one, or behind the last one of its object or list; what is new is indented as
its neighbours are, and on one line where they are. Taking out undoes putting in, to the character, but for an object
that held nothing and was written in an unusual way.

Laws: what comes out was parsed and says what came in said and the change, or nothing comes out. Refuses to know: files,
what the values mean.
"""

from __future__ import annotations

import json
import re

from xsessionctl.harness.common import count_common
from xsessionctl.harness.json_spans import BadText, Child, Spans
from xsessionctl.harness.trees import Path, with_value, without

_SPACE = " \t\r\n"
_SAME_LINE = re.compile(r"(?:[ \t]*(?:/\*.*?\*/|//[^\r\n]*))*", re.DOTALL)
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)


class Json:
    """How a program reads its JSON: whether it knows comments, and commas behind a last value.

    A text that it could not read itself is refused, since it will be mended or thrown away.
    """

    def __init__(self, *, comments: bool = False, commas: bool = False) -> None:
        self._comments, self._commas = comments, commas

    def parse(self, text: str) -> object:
        """What the text says. Raises BadText."""
        spans = Spans(text)
        if spans.comments and not self._comments:
            raise BadText(f"line {_line_of(text, spans.comments[0][0])}: a comment, which its own program cannot read")
        if spans.plain != spans.code and not self._commas:
            place = count_common(spans.plain, spans.code)
            raise BadText(f"line {_line_of(text, place)}: a comma too many, which its own program cannot read")
        return spans.value

    def put(self, text: str, path: Path, value: object) -> str:
        """As the function."""
        return put(text, path, value)

    def append(self, text: str, path: Path, value: object) -> str:
        """As the function."""
        return append(text, path, value)

    def remove(self, text: str, path: Path) -> str:
        """As the function."""
        return remove(text, path)


def _line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def parse(text: str) -> object:
    """What the text says. Raises BadText."""
    return Spans(text).value


def put(text: str, path: Path, value: object) -> str:
    """The text with the value at this path, and with the objects on the way there. Raises BadText."""
    spans = Spans(text)
    wanted = with_value(spans.value, path, value)
    for depth in range(len(path), -1, -1):
        child = spans.find(path[:depth])
        if child is None:
            continue
        if depth == len(path):
            inline = "\n" not in text[child.value : child.end].strip("{}[]") or _is_inline(spans, child)
            new = _render(value, spans, _indent_of(text, child.start), inline=inline)
            return _checked(text[: child.value] + new + text[child.end :], wanted)
        for name in reversed(path[depth + 1 :]):
            value = {name: value}
        return _checked(_insert(spans, child, path[depth], value), wanted)
    return _checked(_begin(text, wanted), wanted)


def append(text: str, path: Path, value: object) -> str:
    """The text with one more element at the end of the list at this path, which is made if need be. Raises BadText."""
    spans = Spans(text)
    child = spans.find(path)
    if child is None:
        return put(text, path, [value])
    number = len(spans.children(child.value, list_wanted=True))
    return _checked(_insert(spans, child, number, value), with_value(spans.value, (*path, number), value))


def remove(text: str, path: Path) -> str:
    """The text without the member or element at this path; the same text where there is none. Raises BadText."""
    spans = Spans(text)
    child = spans.find(path)
    if child is None or not path:
        return text
    holder = spans.find(path[:-1])
    assert holder is not None
    return _checked(_cut(spans, holder, child), without(spans.value, path))


# -- putting in --------------------------------------------------------------------------------------------------------


def _insert(spans: Spans, holder: Child, name: str | int, value: object) -> str:
    text, code = spans.text, spans.code
    kids = spans.children(holder.value, list_wanted=isinstance(name, int))
    if not kids:
        return _insert_first(spans, holder, name, value)
    last = kids[-1]
    before = kids[-2].end if len(kids) > 1 else holder.value
    inline = "\n" not in text[before : last.start]
    indent = _indent_of(text, last.start)
    new = _named(name, _render(value, spans, indent, inline=inline), text, last)
    comma = _next(code, last.end)
    trailing = code[comma] == ","
    behind = comma + 1 if trailing else last.end
    if inline:
        return text[:behind] + (f" {new}," if trailing else f", {new}") + text[behind:]
    found = _SAME_LINE.match(text, behind)
    assert found is not None
    point = found.end()
    head = text[:behind] if trailing else text[:behind] + ","
    return head + text[behind:point] + _line_end(text) + indent + new + ("," if trailing else "") + text[point:]


def _insert_first(spans: Spans, holder: Child, name: str | int, value: object) -> str:
    text = spans.text
    inside = text[holder.value + 1 : holder.end - 1]
    outer = _indent_of(text, holder.start)
    if not inside.strip(_SPACE) and _is_inline(spans, holder):
        new = _named(name, _render(value, spans, outer, inline=True), text, None)
        return text[: holder.value + 1] + new + text[holder.end - 1 :]
    inner = outer + _unit(text)
    new = _line_end(text) + inner + _named(name, _render(value, spans, inner, inline=False), text, None)
    kept = inside.rstrip(_SPACE)
    rest = inside[len(kept) :]
    if not kept or "\n" not in rest:
        rest = _line_end(text) + outer
    return text[: holder.value + 1] + kept + new + rest + text[holder.end - 1 :]


def _begin(text: str, wanted: object) -> str:
    """What a file with no value in it becomes; its comments stay."""
    kept = text.rstrip(_SPACE)
    gap = _line_end(text) if kept else ""
    new = json.dumps(wanted, indent=2, ensure_ascii=False).replace("\n", _line_end(text))
    return kept + gap + new + _line_end(text)


def _named(name: str | int, rendered: str, text: str, neighbour: Child | None) -> str:
    if isinstance(name, int):
        return rendered
    tight = neighbour is not None and text[neighbour.value - 1] == ":"
    return json.dumps(name, ensure_ascii=False) + (":" if tight else ": ") + rendered


def _render(value: object, spans: Spans, indent: str, *, inline: bool) -> str:
    if inline:
        return json.dumps(value, ensure_ascii=False)
    text = spans.text
    return json.dumps(value, indent=_unit(text), ensure_ascii=False).replace("\n", _line_end(text) + indent)


def _is_inline(spans: Spans, child: Child) -> bool:
    """Whether the text is written on one line from its beginning to where the value ends."""
    return "\n" not in spans.text[spans.root : child.end] and child.start != spans.root


def _unit(text: str) -> str:
    """One step of the text's indentation."""
    found = _INDENT.search(text)
    return "  " if found is None else "\t" if found[1].startswith("\t") else found[1]


def _indent_of(text: str, at: int) -> str:
    """What the line begins with in which `at` stands."""
    begin = text.rfind("\n", 0, at) + 1
    line = text[begin:at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


# -- taking out --------------------------------------------------------------------------------------------------------


def _cut(spans: Spans, holder: Child, child: Child) -> str:
    text, code = spans.text, spans.code
    kids = spans.children(holder.value, list_wanted=isinstance(child.name, int))
    if len(kids) == 1 and not _has_comment(spans, holder, child):
        return text[: holder.value + 1] + text[holder.end - 1 :]
    behind = _next(code, child.end)
    follows = code[behind] == ","
    end = behind + 1 if follows else child.end
    kept = text[child.end : behind] if follows else ""
    start = len(text[: child.start].rstrip(_SPACE))
    comment = next((one for one in spans.comments if one[0] < start <= one[1]), None)
    start = start if comment is None else comment[1]  # the blanks at its end are its own
    if follows and child is kids[0] and "\n" not in text[start : child.start]:
        start, end = child.start, end + len(text[end:]) - len(text[end:].lstrip(" \t"))
    elif comment and text.startswith("//", comment[0]) and (kept + text[end:]).lstrip(" \t")[:1] not in ("\r", "\n"):
        start = child.start  # the line end is the comment's
    comma = len(code[: child.start].rstrip(_SPACE)) - 1
    if follows or code[comma] != ",":
        return text[:start] + kept + text[end:]
    return text[:comma] + text[comma + 1 : start] + text[end:]


def _has_comment(spans: Spans, holder: Child, child: Child) -> bool:
    around = spans.text[holder.value + 1 : child.start] + spans.text[child.end : holder.end - 1]
    return bool(around.strip(_SPACE + ","))


def _next(text: str, at: int) -> int:
    """The next place at or after `at` that is not blank."""
    return len(text) - len(text[at:].lstrip(_SPACE))


# -- what is said ------------------------------------------------------------------------------------------------------


def _checked(text: str, wanted: object) -> str:
    try:
        found = parse(text)
    except BadText as problem:
        raise BadText(f"the change does not fit in: {problem}") from None
    if found != wanted:
        raise BadText("the change does not fit in")
    return text

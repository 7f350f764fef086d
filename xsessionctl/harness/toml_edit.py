"""Changes in a TOML text that leave every other character where it was: a table of ours comes last, and goes again.

What stands in a table of ours already, perhaps written by hand or in braces, is changed value by value, in its place.

Laws: what comes out was parsed and says what came in said and the change, or nothing comes out. Refuses to know: files,
what the values mean.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

from xsessionctl.harness.json_spans import BadText
from xsessionctl.harness.trees import Path, value_at, with_value, without
from xsessionctl.settings import write_value
from xsessiond.core.settings_edit import EditFailed, set_value
from xsessiond.core.toml_spots import Entry, find_entries, write_key


def parse(text: str) -> object:
    """What the text says. Raises BadText."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise BadText(str(problem)) from None
    except RecursionError:
        raise BadText("its values are nested too deep") from None


def put(text: str, path: Path, value: object) -> str:
    """The text with the value at this path, which has no numbers in it. Raises BadText."""
    tree = parse(text)
    keys = tuple(map(str, path))
    wanted = with_value(tree, path, value)
    if isinstance(value, dict) and value_at(tree, path) is None:
        made = _append_tables(text, [(keys, value)])
        if _says(made, wanted):
            return made
    try:
        made = set_value(text, keys, _write(value))
    except (EditFailed, tomllib.TOMLDecodeError):
        raise BadText(f"{write_key(keys)} cannot be put in there") from None
    return made


def append(text: str, path: Path, value: object) -> str:
    """The text with one more table in the array of tables at this path; what it holds lists of tables for becomes such
    arrays too. Raises BadText where an array stands in brackets."""
    tree = parse(text)
    found = value_at(tree, path)
    items = found if isinstance(found, list) else []
    made = _append_tables(text, list(_tables_of(tuple(map(str, path)), value)), array=True)
    if not _says(made, with_value(tree, path, [*items, value])):
        raise BadText(f"{write_key(tuple(map(str, path)))} is no array of [[tables]] and is not added to")
    return made


def remove(text: str, path: Path) -> str:
    """The text without the value, table or element of an array of tables at this path; the same text where there is
    none. Raises BadText where it stands in braces with others."""
    tree = parse(text)
    if value_at(tree, path) is None:
        return text
    made = text
    for start, end in sorted(_find_spans(text, path), reverse=True):
        made = made[:start] + made[end:]
    wanted = without(tree, path)
    said = _says(made, wanted)
    for depth in range(len(path) - 1, 0, -1):  # what holds nothing any more may be there or not
        if value_at(wanted, path[:depth]) in ({}, []):
            wanted = without(wanted, path[:depth])
            said = said or _says(made, wanted)
    if not said:
        raise BadText(f"{write_key(tuple(map(str, path)))} cannot be taken out there; remove it by hand")
    return made


# -- putting in --------------------------------------------------------------------------------------------------------


def _append_tables(text: str, tables: list[tuple[tuple[str, ...], object]], *, array: bool = False) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = []
    for keys, value in tables:
        assert isinstance(value, dict)
        lines += ["", f"[[{write_key(keys)}]]" if array else f"[{write_key(keys)}]"]
        lines += [f"{write_key((name,))} = {_write(one)}" for name, one in value.items()]
    if not text.strip():
        lines = lines[1:]
    elif not text.endswith("\n"):
        text += newline
    return text + "".join(line + newline for line in lines)


def _tables_of(keys: tuple[str, ...], value: object) -> Iterator[tuple[tuple[str, ...], object]]:
    """A table, and those that it has lists of, as arrays of tables are written."""
    assert isinstance(value, dict)
    below = {name: one for name, one in value.items() if _is_tables(one)}
    yield keys, {name: one for name, one in value.items() if name not in below}
    for name, items in below.items():
        for item in items:
            yield from _tables_of((*keys, name), item)


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _write(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{write_key((name,))} = {_write(one)}" for name, one in value.items()) + " }"
    return write_value(value)


# -- taking out --------------------------------------------------------------------------------------------------------


def _find_spans(text: str, path: Path) -> list[tuple[int, int]]:
    """What of the text is about the value at this path: whole lines, and what stands in braces. A header has one entry
    for each part of its key; the last is taken for it."""
    entries = find_entries(text)
    headers = [n for n, entry in enumerate(entries) if entry.value is None and entry.path == entry.header]
    headers.append(len(entries))
    low, high = 0, len(headers) - 1
    keys: tuple[str, ...] = ()
    for name in path:
        if isinstance(name, str):
            keys = (*keys, name)
            continue
        found = [n for n in range(low, high) if entries[headers[n]].path == keys]
        if name >= len(found):
            return []
        ends = [n for n in range(found[name] + 1, high) if not _is_below(entries[headers[n]].path, keys)]
        low, high = found[name], min([*found[name + 1 : name + 2], *ends[:1], high])
    spans = []
    for number in range(low, high):
        if _is_below(entries[headers[number]].path, keys):
            behind = headers[number + 1]
            parts = len(entries[behind].path) if behind < len(entries) else 1
            spans.append(_lines_of(text, entries[headers[number]], entries[behind - parts]))
    for entry in entries:
        if entry.value is not None and _is_below(entry.path, keys) and not _is_below(entry.header, keys):
            if not entry.inline:
                spans.append(_lines_of(text, entry, entry))
            elif entry.path == keys:
                spans.append(_between_commas(text, entry))
    return spans


def _is_below(path: tuple[str, ...], above: tuple[str, ...]) -> bool:
    return path[: len(above)] == above


def _lines_of(text: str, first: Entry, last: Entry) -> tuple[int, int]:
    """From the line of the first to that of the last, with the blank line that sets them apart: before them at the end
    of the text, else behind them."""
    start = text.rfind("\n", 0, first.key) + 1
    end = text.find("\n", last.value[1] if last.value is not None else last.key) + 1 or len(text)
    behind = text[end:]
    blank = len(behind) - len(behind.removeprefix("\r").removeprefix("\n"))
    if not behind.strip() and text[:start].endswith(("\n\n", "\n\r\n")):
        start = text.rfind("\n", 0, start - 1) + 1
    elif blank and first.value is None:
        end += blank
    return start, end


def _between_commas(text: str, entry: Entry) -> tuple[int, int]:
    assert entry.value is not None
    end = entry.value[1]
    before = text[: entry.key].rstrip()
    if before.endswith(","):
        return len(before) - 1, end
    behind = text[end:].lstrip()
    if behind.startswith(","):
        return entry.key, len(text) - len(behind[1:].lstrip(" \t"))
    return entry.key, end


def _says(text: str, wanted: object) -> bool:
    try:
        return parse(text) == wanted
    except BadText:
        return False

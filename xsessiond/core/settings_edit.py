"""Changes one value in a settings file and nothing else: comments, order, quotes and line ends stay the user's.

Where the value goes, the first that applies: in the place of the old one; below the last key of its table; into its
table's braces; beside its table's other dotted keys; into a new table at the end. What comes of it is parsed and
compared, and given out only when it says what it said before and the new value.

Laws: the text that comes in is valid; what goes out is valid or nothing goes out. Refuses to know: files, which values
there may be.
"""

from __future__ import annotations

import tomllib

from xsessiond.core.toml_spots import Entry, find_entries, write_key


class EditFailed(Exception):
    """The text is written in a way that this does not know how to change. The text is a sentence."""


def set_value(text: str, path: tuple[str, ...], value: str) -> str:
    """The text with the value (TOML) at this path. Raises EditFailed, tomllib.TOMLDecodeError for what comes in."""
    wanted = _with_value(tomllib.loads(text), path, tomllib.loads(f"x = {value}")["x"])
    return _checked(_insert(text, path, value), wanted)


def remove_value(text: str, path: tuple[str, ...]) -> str:
    """The text without the line that sets this path; the same text where none does. Raises as `set_value`."""
    wanted = tomllib.loads(text)
    table: object = wanted
    for part in path[:-1]:
        table = table.get(part) if isinstance(table, dict) else None
    if not isinstance(table, dict) or path[-1] not in table:
        return text
    del table[path[-1]]
    entry = _find_leaf(find_entries(text), path)
    if entry is None or entry.value is None or entry.inline:
        raise EditFailed(f"{write_key(path)} stands in braces. Remove it by hand.")
    start, end = text.rfind("\n", 0, entry.key) + 1, text.find("\n", entry.value[1])
    return _checked(text[:start] + (text[end + 1 :] if end >= 0 else ""), wanted)


def _checked(text: str, wanted: dict[str, object]) -> str:
    try:
        found = _without_empty(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise EditFailed(f"The value cannot be put in there: {error}. Change the file by hand.") from None
    if found != _without_empty(wanted):
        raise EditFailed("The value cannot be put in there. Change the file by hand.")
    return text


def _insert(text: str, path: tuple[str, ...], value: str) -> str:
    entries = find_entries(text)
    old = _find_leaf(entries, path)
    if old is not None and old.value is not None:
        return text[: old.value[0]] + value + text[old.value[1] :]
    newline = "\r\n" if "\r\n" in text else "\n"
    table = path[:-1]
    for depth in range(len(table), 0, -1):  # the table, or one above it whose braces it must stand in
        braces = _find_leaf(entries, table[:depth])
        if braces is not None and braces.value is not None:
            return _insert_in_braces(text, braces.value, write_key(path[depth:]), value)
    last = _find_last(entries, table)
    if last is not None:
        line = f"{write_key(path[len(last.header) :])} = {value}"
        return _insert_line(text, last, line, newline)
    gap = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
    return f"{text}{gap}[{write_key(table)}]{newline}{write_key(path[-1:])} = {value}{newline}"


def _find_leaf(entries: list[Entry], path: tuple[str, ...]) -> Entry | None:
    return next((entry for entry in entries if entry.path == path and entry.value is not None), None)


def _find_last(entries: list[Entry], table: tuple[str, ...]) -> Entry | None:
    """The last key of the table, or its header where it has none. Its own header goes before dotted keys elsewhere: a
    table has only one of both."""
    own = [entry for entry in entries if entry.header == table and (entry.value is not None or entry.path == table)]
    if own:
        return [entry for entry in own if not entry.inline][-1]
    dotted = [entry for entry in entries if entry.path[: len(table)] == table and entry.value is not None]
    return next((entry for entry in reversed(dotted) if len(entry.header) < len(table) and not entry.inline), None)


def _insert_line(text: str, above: Entry, line: str, newline: str) -> str:
    """A line of its own below that entry's, with the same indent."""
    begin = text.rfind("\n", 0, above.key) + 1
    indent = text[begin : len(text) - len(text[begin:].lstrip(" \t"))]
    end = text.find("\n", above.value[1] if above.value else above.key)  # no header has a line end in it
    if end < 0:
        return f"{text}{newline}{indent}{line}{newline}"
    return f"{text[: end + 1]}{indent}{line}{newline}{text[end + 1 :]}"


def _insert_in_braces(text: str, braces: tuple[int, int], key: str, value: str) -> str:
    inside = text[braces[0] + 1 : braces[1] - 1]
    kept = inside.rstrip(" \t")
    comma = "" if not kept.strip() or kept.rstrip().endswith(",") else ","
    return f"{text[: braces[0] + 1]}{kept}{comma} {key} = {value} {text[braces[1] - 1 :]}"


def _with_value(table: dict[str, object], path: tuple[str, ...], value: object) -> dict[str, object]:
    here = table
    for part in path[:-1]:
        below = here.setdefault(part, {})
        if not isinstance(below, dict):
            raise EditFailed(f"{part} is no table there. Mend the file first.")
        here = below
    here[path[-1]] = value
    return table


def _without_empty(table: dict[str, object]) -> dict[str, object]:
    """Without tables that say nothing."""
    found = {name: _without_empty(value) if isinstance(value, dict) else value for name, value in table.items()}
    return {name: value for name, value in found.items() if value != {}}

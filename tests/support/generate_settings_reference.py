"""Writes the table of docs/settings.md: `python -m tests.support.generate_settings_reference`.

It is made from the list of settings that the program has; a test compares, so that the document cannot drift from it.
"""

from __future__ import annotations

from tests.support.marked_table import MarkedTable
from xsessionctl.settings import write_value
from xsessiond.core.setting_keys import KEYS, Key

DOCUMENT = MarkedTable(
    "settings.md", "<!-- every setting: made by `python -m tests.support.generate_settings_reference` -->"
)


def make_lines() -> list[str]:
    """The table."""
    head = "| setting | may be | default | what it does | a change is in force |"
    return [head, "| --- | --- | --- | --- | --- |", *map(_row, KEYS)]


def _row(key: Key) -> str:
    default = "unset" if key.default is None else f"`{write_value(_short(key.default))}`"
    cells = [f"`{key.name}`" + (" ◆" if key.guard else "") + (" ▲" if key.project else ""), key.may_be, default]
    return "| " + " | ".join([*cells, key.meaning, key.applies]).replace("\n", " ") + " |"


def _short(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


if __name__ == "__main__":
    DOCUMENT.write(make_lines())

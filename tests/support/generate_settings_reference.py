"""Writes the table of docs/settings.md: `python -m tests.support.generate_settings_reference`.

It is made from the list of settings that the program has; a test compares, so that the document cannot drift from it.
"""

from __future__ import annotations

import re
from pathlib import Path

from xsessionctl.settings import write_value
from xsessiond.core.setting_keys import KEYS, Key

TARGET = Path(__file__).parents[2] / "docs" / "settings.md"
BEGIN, END = "<!-- every setting: made by `python -m tests.support.generate_settings_reference` -->", "<!-- end -->"
TABLE = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)


def make_table() -> str:
    """The table with its marks."""
    lines = [
        BEGIN,
        "",
        "| setting | may be | default | what it does | a change is in force |",
        "| --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*lines, *map(_row, KEYS), "", END])


def _row(key: Key) -> str:
    default = "unset" if key.default is None else f"`{write_value(_short(key.default))}`"
    cells = [f"`{key.name}`" + (" ◆" if key.guard else "") + (" ▲" if key.project else ""), key.may_be, default]
    return "| " + " | ".join([*cells, key.meaning, key.applies]).replace("\n", " ") + " |"


def _short(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def put_table(text: str) -> str:
    """The document with the table as it must be."""
    return TABLE.sub(lambda _: make_table(), text)


if __name__ == "__main__":
    TARGET.write_text(put_table(TARGET.read_text(encoding="utf-8")), encoding="utf-8")

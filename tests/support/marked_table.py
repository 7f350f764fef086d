"""A table in a document that is made by a program, between two marks that say by which."""

from __future__ import annotations

import re
from pathlib import Path

END = "<!-- end -->"
DOCS = Path(__file__).parents[2] / "docs"


class MarkedTable:
    """That of `document`, a file of docs/, behind the mark `begin`."""

    def __init__(self, document: str, begin: str) -> None:
        self.path = DOCS / document
        self._begin = begin
        self._place = re.compile(f"{re.escape(begin)}\n.*?{re.escape(END)}", re.DOTALL)

    def read(self) -> str:
        """The document as it is."""
        return self.path.read_text(encoding="utf-8")

    def put(self, lines: list[str]) -> str:
        """The document as it must be: with these lines between the marks, which it has once."""
        text = self.read()
        assert len(self._place.findall(text)) == 1, f"{self.path} must have one {self._begin}"
        table = "\n".join([self._begin, "", *lines, "", END])
        return self._place.sub(lambda _: table, text)

    def write(self, lines: list[str]) -> None:
        """Makes it so."""
        self.path.write_text(self.put(lines), encoding="utf-8")

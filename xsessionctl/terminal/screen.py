"""The screen of a program, kept up with what it writes. The terminal's rules are pyte's."""

from __future__ import annotations

import pyte


class Screen:
    """So many columns and rows, empty at first."""

    def __init__(self, columns: int, rows: int) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)

    def feed(self, output: bytes) -> None:
        """What the program wrote. Never raises: a sequence that pyte trips over is left out."""
        try:
            self._stream.feed(output)
        except Exception:
            # It has bugs with rare sequences; a wrong screen is one that is not understood, and nothing is typed then.
            self._stream = pyte.ByteStream(self._screen)

    def resize(self, columns: int, rows: int) -> None:
        """The terminal has another size now."""
        self._screen.resize(rows, columns)

    def lines(self) -> list[str]:
        """From above, without trailing blanks."""
        return [line.rstrip() for line in self._screen.display]

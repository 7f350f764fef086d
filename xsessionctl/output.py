"""Writing for people and for programs: standard output and error, whatever they are connected to.

Laws: a document for programs is one line of ASCII, so that no locale and no terminal can change or be changed by it.
Text for people keeps what the stream can say and shows the rest as escapes. A reader that goes away, or a stream that
was closed from the start, is no fault of the command and changes nothing about its exit code. Refuses to know: what is
said.
"""

from __future__ import annotations

import os
import sys

from xsessionctl.codec import encode_ascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


class Sink:
    """Where a command writes. color: auto, always or never, as the user said."""

    __slots__ = ("color",)

    def __init__(self, color: str = "auto") -> None:
        self.color = color

    def lines(self, lines: Iterable[str]) -> bool:
        """Lines for people, which hold text from outside only through `inert`. As `write_text`."""
        return write_text(sys.stdout, "".join(line + "\n" for line in lines))

    def document(self, value: object) -> bool:
        """One JSON document, alone on its line. As `write_text`."""
        return write_text(sys.stdout, encode_ascii(value) + "\n")

    def paint(self, text: str, style: str, stream: TextIO | None = None) -> str:
        """`text` in a style (a key of STYLES) if standard output, or `stream`, is to be coloured."""
        if not text or not self.colored(sys.stdout if stream is None else stream):
            return text
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m"

    def colored(self, stream: TextIO | None) -> bool:
        """Whether text on `stream` gets colours."""
        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
            return False
        return is_terminal(stream)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at `stream`."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False  # closed


def line_width() -> int | None:
    """Columns that a line should fit in, or None when nobody looks and nothing needs to be shortened."""
    if not is_terminal(sys.stdout):
        return None
    try:
        return int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        pass
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def write_text(stream: TextIO | None, text: str) -> bool:
    """All of `text`, through whatever `stream` is. Whether all of it went out: nobody may read. Raises OSError when
    the data could not be stored (a full disk), and only then.
    """
    if stream is None or not text:
        return not text
    try:
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        _abandon(stream)
        return False
    except ValueError:
        return False  # closed
    return True


def _abandon(stream: TextIO) -> None:
    """Points a stream that nobody reads at nothing, so that Python's own flush at the end has nothing to complain
    about.
    """
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, stream.fileno())
        os.close(descriptor)
    except (OSError, ValueError):
        pass

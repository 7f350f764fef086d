"""Plain columns: aligned by what a terminal shows, and shortened only where a person looks.

Laws: a cell is one line and arrives inert. Wide characters count two, combining ones nothing. Refuses to know: what
the columns mean.
"""

from __future__ import annotations

GAP = "  "
ELLIPSIS = "…"


def cell_width(text: str) -> int:
    """Columns that `text` takes in a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    width = 0
    for char in text:
        if category(char) in ("Mn", "Me", "Cf"):
            continue
        width += 2 if east_asian_width(char) in "WF" else 1
    return width


def shorten(text: str, width: int, *, keep_end: bool = False) -> str:
    """`text` in at most `width` columns; a cut shows as an ellipsis at the end, or at the start with `keep_end`."""
    if cell_width(text) <= width:
        return text
    if width <= 0:
        return ""
    kept: list[str] = []
    left = width - 1
    for char in reversed(text) if keep_end else text:
        left -= cell_width(char)
        if left < 0:
            break
        kept.append(char)
    return ELLIPSIS + "".join(reversed(kept)) if keep_end else "".join(kept) + ELLIPSIS


def pad(text: str, width: int, *, right: bool = False) -> str:
    """`text` filled with spaces to `width` columns; on its left side with `right`."""
    space = " " * max(0, width - cell_width(text))
    return space + text if right else text + space


def lay_out(
    headers: list[str], rows: list[list[str]], *, width: int | None, elastic: dict[int, int], right: set[int]
) -> list[list[str]]:
    """The header and the rows with every cell but a last left-aligned one padded.

    width: columns of a line, None for as many as it takes. elastic: columns that give way when it gets narrow, in
    order, each with the width that it keeps; a column called FOLDER keeps its end. right: columns of numbers.
    """
    table = [headers, *rows]
    widths = [max(cell_width(row[column]) for row in table) for column in range(len(headers))]
    if width is not None:
        excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
        for column, least in elastic.items():
            if excess <= 0:
                break
            less = min(excess, max(0, widths[column] - least))
            widths[column] -= less
            excess -= less
    last = len(headers) - 1
    lines = []
    for row in table:
        cells = []
        for column, text in enumerate(row):
            fitted = shorten(text, widths[column], keep_end=headers[column] == "FOLDER")
            plain_end = column == last and column not in right
            cells.append(fitted if plain_end else pad(fitted, widths[column], right=column in right))
        lines.append(cells)
    return lines

r"""Text that somebody else wrote, made safe to look at.

Laws: what `inert` returns holds nothing that moves a cursor, changes a terminal's state, reorders other text or
hides. Each such character is shown as a backslash escape (`\x1b`, `\u202e`), so that a reader sees that it was there;
a backslash itself stays, so `inert` of an inert text is that text. Ordinary text in any script is untouched, also
joiners inside Persian, Hindi or an emoji.
Refuses to know: terminals, colours, widths. Imports nothing, because the fast way into the command line uses it.
"""

_HIDDEN = (
    (0x00, 0x1F),  # C0 controls: ESC, carriage return, backspace, bell
    (0x7F, 0x9F),  # DEL and C1 controls: 0x9B opens an escape sequence in one character
    (0xAD, 0xAD),  # soft hyphen
    (0x34F, 0x34F),  # combining grapheme joiner
    (0x61C, 0x61C),  # Arabic letter mark (bidi)
    (0x115F, 0x1160),  # Hangul fillers: letters without a glyph
    (0x17B4, 0x17B5),  # Khmer inherent vowels: marks without a glyph
    (0x180B, 0x180F),  # Mongolian selectors and vowel separator
    (0x200B, 0x200F),  # zero-width space and joiners, direction marks
    (0x2028, 0x202E),  # line and paragraph separators, bidi embeddings and overrides
    (0x2060, 0x206F),  # word joiner, invisible operators, bidi isolates
    (0x3164, 0x3164),  # Hangul filler
    (0xD800, 0xDFFF),  # lone surrogates: cannot be printed as UTF-8
    (0xFE00, 0xFE0D),  # variation selectors that no emoji uses: bytes can be smuggled in them
    (0xFEFF, 0xFEFF),  # byte order mark
    (0xFFA0, 0xFFA0),  # half-width Hangul filler
    (0xFFF0, 0xFFFB),  # interlinear annotation and its unassigned neighbours
    (0x1BCA0, 0x1BCA3),  # shorthand format controls
    (0x1D173, 0x1D17A),  # musical format controls
    (0xE0000, 0xE0FFF),  # tags and selectors: a copy of ASCII that nobody sees
)
"""Ranges of characters that are never shown as they are. Unicode's Default_Ignorable_Code_Point, the controls and
surrogates."""

_JOINERS = "\u200c\u200d"
"""Zero-width non-joiner and joiner: part of correct spelling in some scripts and of emoji, a hiding place everywhere
else."""


def inert(text: str, *, multiline: bool) -> str:
    r"""The text as people and terminals may safely see it.

    multiline: keep line ends (`\r\n` becomes `\n`) and tabs. Otherwise a line end is shown as `\n` and a tab as a
    space, so that the result is one line. Never raises. `inert(inert(x)) == inert(x)`.
    """
    if text.isascii():
        if (text.replace("\n", "").replace("\t", "") if multiline else text).isprintable():
            return text
    if multiline:
        text = text.replace("\r\n", "\n")
    table = {}
    for char in set(text):
        code = ord(char)
        for first, last in _HIDDEN:
            if code <= last:
                if code >= first:
                    table[code] = _shown(char, code, multiline=multiline)
                break
    if not table:
        return text
    if 0x200C in table or 0x200D in table:
        return _keep_joiners(text, table)
    return text.translate(table)


def _shown(char: str, code: int, *, multiline: bool) -> str:
    if char == "\n":
        return char if multiline else "\\n"
    if char == "\t":
        return char if multiline else " "
    if char == "\r":
        return "\\r"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _keep_joiners(text: str, table: dict[int, str]) -> str:
    # A joiner is kept where it can be spelling: between two visible characters beyond ASCII. Those are never changed
    # here, so a second pass decides alike.
    parts = []
    last = len(text) - 1
    for at, char in enumerate(text):
        if char in _JOINERS and 0 < at < last:
            before, after = text[at - 1], text[at + 1]
            if before > "\x7f" and after > "\x7f" and ord(before) not in table and ord(after) not in table:
                parts.append(char)
                continue
        parts.append(table.get(ord(char), char))
    return "".join(parts)

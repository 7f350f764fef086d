"""What a harness's screen says about the field that its user types into.

Laws: pure; a screen that is not understood is `UNKNOWN`, and into that nothing is ever typed. What each harness draws
stands only here. Refuses to know: how a screen comes about, who types.
"""

from __future__ import annotations

from collections.abc import Sequence

EMPTY, FILLED, UNKNOWN = "empty", "filled", "unknown"
"""Nothing is in the field · there is text in it · there is no such field, or a dialog has its place."""
_GEMINI_PLACEHOLDER = "Type your message or @path/to/file"
_GEMINI_MARKS = (">", "*", "!")
"""What stands before the field: by the approval mode, or for a command of the shell."""
_RULES = frozenset("─▀▄━")


def read_gemini(lines: Sequence[str]) -> tuple[str, str]:
    """Gemini CLI: (the field's state, its text). lines: the screen from above, without trailing blanks.

    The field is the last one between a rule and the status lines, its first line marked; a longer text has more lines.
    """
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number].strip()
        mark, _, rest = line.partition(" ")
        if mark not in _GEMINI_MARKS:
            continue
        above = [text.strip() for text in lines[max(0, number - 3) : number]]
        if not any(text and _RULES.issuperset(text) for text in above):
            continue  # what was said before has the same mark, and no rule above it
        text = rest.strip()
        if text == _GEMINI_PLACEHOLDER:
            return EMPTY, ""
        return (FILLED, text) if text else (UNKNOWN, "")
    return UNKNOWN, ""


READERS = {"gemini": read_gemini}
"""By the name of the program."""

"""Makes xsessiond/core/confusables.py from Unicode's table of look-alikes, as the package `confusable_homoglyphs`
carries it.

    python -m tests.support.generate_confusables > xsessiond/core/confusables.py

Only what can be part of a name is kept: letters, digits and marks, less the compatibility forms that NFKD undoes
anyway. What is kept is decided by the package's data and by fixed blocks, never by the running Python's own Unicode
version, so that every Python makes the same file.
"""

from __future__ import annotations

import sys
import textwrap

from confusable_homoglyphs import categories, confusables  # type: ignore[import-untyped]

_COMPATIBILITY_BLOCKS = (
    (0x2100, 0x218F),  # letter-like symbols, number forms
    (0x2460, 0x24FF),  # enclosed alphanumerics
    (0x2E80, 0x2FDF),  # CJK radicals
    (0x3130, 0x318F),  # Hangul compatibility letters
    (0xF900, 0xFDFF),  # compatibility ideographs, Latin and Arabic presentation forms
    (0xFE70, 0xFFEF),  # Arabic presentation forms, half-width and full-width forms
    (0x1CCD6, 0x1CCF9),  # outlined letters and digits
    (0x1D400, 0x1D7FF),  # mathematical letters and digits
    (0x1EE00, 0x1EEFF),  # Arabic mathematical letters
    (0x1FBF0, 0x1FBF9),  # segmented digits
    (0x2F800, 0x2FA1F),  # compatibility ideographs
)

_HEADER = '''"""Unicode's table of look-alikes (UTS #39), cut to what can be part of a name. Generated: do not edit.

Laws: the data lives only here, and only as `tests/support/generate_confusables.py` makes it. A prototype is followed
by the code points, in hexadecimal, that are mistaken for it.
Refuses to know: what it is used for. Nothing is unpacked before the first name or token that is not ASCII.
Derived from the Unicode data file confusables.txt, copyright Unicode, Inc., under the Unicode License v3
(https://www.unicode.org/license.txt).
"""

from __future__ import annotations

from functools import cache
from typing import Final

_GROUPS: Final = """
'''

_FOOTER = '''"""


@cache
def prototypes() -> dict[int, str]:
    """What each code point that looks like something else looks like: one or more characters. Treat it as frozen."""
    table = {}
    prototype = ""
    for word in _GROUPS.split():
        if word.endswith("="):
            prototype = "".join(chr(int(code, 16)) for code in word[:-1].split("+"))
        else:
            table[int(word, 16)] = prototype
    return table
'''


def render() -> str:
    """The text of the module."""
    groups: dict[str, list[int]] = {}
    for source, prototype in sorted(_pairs().items()):
        groups.setdefault(prototype, []).append(source)
    words = []
    for prototype, sources in sorted(groups.items()):
        words.append("+".join(f"{ord(char):x}" for char in prototype) + "=")
        words += [f"{source:x}" for source in sources]
    return _HEADER + textwrap.fill(" ".join(words), 118, break_on_hyphens=False) + "\n" + _FOOTER


def _pairs() -> dict[int, str]:
    # The package keeps each pair of the table both ways round and drops which one is the prototype. A source has one
    # prototype and a prototype is never a source, so what has several characters, several partners or a part in a
    # longer prototype is a prototype. Where that decides nothing, the lower code point is taken: only equality
    # matters.
    partners = {
        _strip(key): [_strip(entry["c"]) for entry in entries] for key, entries in confusables.confusables_data.items()
    }
    parts = {char for key in partners if len(key) > 1 for char in key}
    pairs = {}
    for source, targets in partners.items():
        if len(source) != 1 or len(targets) != 1 or source in parts:
            continue
        (target,) = targets
        if len(target) == 1 and len(partners[target]) == 1 and target not in parts and target > source:
            continue
        if _may_be_in_a_name(source) and all(_may_be_in_a_name(char, compatible=True) for char in target):
            pairs[ord(source)] = target
    return pairs


def _strip(text: str) -> str:
    # Right-to-left characters stand between direction marks in the package's source.
    return text.replace("\u200e", "")


def _may_be_in_a_name(char: str, *, compatible: bool = False) -> bool:
    code = ord(char)
    if not compatible and any(first <= code <= last for first, last in _COMPATIBILITY_BLOCKS):
        return False
    return categories.category(char)[0] in {"L", "M"} or categories.category(char) == "Nd"


if __name__ == "__main__":
    sys.stdout.write(render())

"""Names: what people and models call a session.

Laws: the grammar of names, their comparison, their look-alikes and the making of new ones live only here. A name is
letters and digits of any script with `-`, `_` and `.`, in NFC, at most 64 characters, and cannot be taken for a ref,
an id or a command-line option. Two names are the same if they fold alike, and look alike if they share a skeleton.
Refuses to know: which names are in use, who holds one, and where it came from.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from xsessiond.core.errors import Refusal
from xsessiond.core.limits import MAX_NAME, MIN_REF
from xsessiond.core.words import NOUNS, QUALITIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_PUNCTUATION: Final = "-_."
_MAX_MARKS: Final = 4
"""Combining marks in a row. Written languages need at most four (UTS #39); a stack of them is a defacement."""
_DERIVED_MAX: Final = 40
"""Characters of a name made from a title, so that two words still fit behind it and a person still reads it."""

_plain = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}").fullmatch
_like_a_ref = re.compile(rf"(?:[sm]-)?[0-9a-f]{{{MIN_REF},}}", re.IGNORECASE).fullmatch
_like_a_uuid = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE).fullmatch

_INVISIBLE: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    + "".join(map(chr, range(0xFE00, 0xFE10)))  # variation selectors
)
"""Letters and marks without a glyph. (The selectors beyond the BMP are marks from 0xE0100 on, see `_fault`.)"""

_KINDS: Final = {
    "Cc": "a control character",
    "Cf": "an invisible format character",
    "Cs": "half of a character",
    "Co": "a private-use character",
    "Cn": "an unassigned character",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
    "Zs": "a space",
    "Me": "an enclosing mark",
}


class BadName(Refusal):
    """A text that cannot be a name (`bad_name`). Its text says why."""

    __slots__ = ()

    def __init__(self, reason: str) -> None:
        super().__init__(
            "bad_name", reason, f"Use letters and digits with - _ . between them, at most {MAX_NAME} characters."
        )


def check_name(text: str) -> str:
    """The name as it is kept (NFC). Raises BadName with a sentence that says what is wrong with it."""
    if _plain(text) is None:
        if len(text) > 4 * MAX_NAME:  # before any work on it; NFC shortens a text to a third at most
            raise BadName(f"The name is too long: {len(text)} characters, {MAX_NAME} are allowed.")
        text = unicodedata.normalize("NFC", text)
        fault = _fault(text)
        if fault:
            raise BadName(fault)
    if _like_a_ref(text):
        raise BadName(f"The name {text} could be taken for a ref or an id: it is {MIN_REF} or more hex digits.")
    if _like_a_uuid(text):
        raise BadName(f"The name {text} could be taken for the id of a conversation.")
    if not _RESERVED.isdisjoint(skeletons(text)):
        raise BadName(f"The name {text} is reserved: a session must not pass for a person or for the broker.")
    return text


def fold_name(name: str) -> str:
    """The key under which names are the same: `Web` and `web` are one name."""
    if name.isascii():
        return name.lower()
    for _ in range(2):  # Unicode's canonical caseless match (definition D145), which folds twice
        name = unicodedata.normalize("NFD", name).casefold()
    return unicodedata.normalize("NFC", name)


def skeleton(name: str) -> str:
    """What a name looks like as it is written: equal for `paypal` and its double with a Cyrillic letter in it.

    UTS #39's skeleton, and stricter: letter case, Latin accents, and 0/o, 1/l/i and rn/m make no difference. Only for
    comparing.
    """
    if name.isascii():
        return _fold_ascii(name)
    looks = _look_once(name)
    while (
        looks != name
    ):  # settles after two or three rounds: a prototype is never a source, but folding can make one of it
        name, looks = looks, _look_once(looks)
    return looks


def skeletons(name: str) -> tuple[str, ...]:
    """The one or two keys of a name for the look-alike rule: two names look alike if they share a key.

    The skeleton as written, and that of the folded name, because an address finds a name in any case and a look-alike
    may exist in one case only (Cyrillic Ve, O, Te double `BOT` as capitals, and do not double `bot` as small letters).
    """
    written = skeleton(name)
    if name.isascii():
        return (written,)
    folded = skeleton(fold_name(name))
    return (written,) if folded == written else (written, folded)


def derive_name(title_or_folder: str) -> str:
    """A legal name out of any text: a harness's title, a folder's name. `session` if nothing of it can be kept.

    Spaces and slashes become `-`, what a name cannot hold goes, long titles end at a word.
    """
    kept: list[str] = []
    room = 0
    for char in unicodedata.normalize("NFC", title_or_folder[: 8 * _DERIVED_MAX]):
        if char.isspace() or char in "/\\:,;|-":
            if kept and kept[-1] != "-":
                kept.append("-")
            room = 0
            continue
        next_room, fault = _follow(char, room)
        if not fault:
            kept.append(char)
            room = next_room
    name = unicodedata.normalize("NFC", "".join(kept))
    if len(name) > _DERIVED_MAX:
        name = name[: _DERIVED_MAX + 1]
        word_end = name.rfind("-")
        name = name[: word_end if word_end > _DERIVED_MAX // 2 else _DERIVED_MAX]
    name = name.strip("-").rstrip(_PUNCTUATION)
    for candidate in (name, f"{name}-session"):
        try:
            return check_name(candidate)
        except BadName:
            continue
    return "session"


def suggest_names(base: str, taken: Callable[[str], bool], entropy: bytes) -> Iterator[str]:
    """Free names made of a base and two plain words, in an order that the entropy decides; no end in sight.

    base: a legal name. taken: whether a name is held or looks like one that is. entropy: a few random bytes; the same
    bytes give the same names.
    """
    words = len(QUALITIES) * len(NOUNS)
    seed = int.from_bytes(entropy, "big")
    at = seed % words
    step = 2 * (seed // words) + 1  # odd, and the number of pairs is a power of two: each pair comes once
    number = 0
    while True:
        for _ in range(words):
            quality, noun = QUALITIES[at % len(QUALITIES)], NOUNS[at // len(QUALITIES)]
            tail = f"-{quality}-{noun}" + (f"-{number}" if number else "")
            name = base[: MAX_NAME - len(tail)].rstrip(_PUNCTUATION) + tail
            if not taken(name):
                yield name
            at = (at + step) % words
        number = number + 1 if number else 2


def free_name(base: str, taken: Callable[[str], bool], entropy: bytes) -> str:
    """The base if it is free, else the first of `suggest_names`."""
    return base if not taken(base) else next(suggest_names(base, taken, entropy))


def near_names(wanted: str, names: Iterable[str], limit: int) -> list[str]:
    """Those of the names that somebody may have meant, best first, at most `limit`. Never a reason to choose one of
    them.

    Near is: the same to the eye; or as few slips of the keyboard away as the nearest is (what all names begin with
    does not count); or one of the two is the other's beginning at a `-`, `_` or `.`.
    """
    wanted = fold_name(wanted[: 2 * MAX_NAME])
    if not wanted:
        return []
    looks = skeleton(wanted)
    letters = set(wanted)
    most = 1 if len(wanted) < 5 else 2 if len(wanted) < 12 else 3
    ranked: list[tuple[int, int, str]] = []  # how alike, how far, the name
    for name in names:
        folded = fold_name(name)
        longer = abs(len(folded) - len(wanted))
        if skeleton(folded) == looks:
            ranked.append((0, 0, name))
        elif _begins(folded, wanted) or _begins(wanted, folded):
            ranked.append((2, longer, name))
        elif longer <= most and len(letters.symmetric_difference(folded)) <= 2 * most:
            slips = _slips_between(wanted, folded, most)
            if slips < most:
                ranked = [one for one in ranked if one[0] != 1]
                most = slips
            if slips == most:
                ranked.append((1, slips, name))
    ranked.sort()
    return [name for _, _, name in ranked[:limit]]


def _fault(text: str) -> str | None:
    """What is wrong with a text (in NFC) as a name, apart from what it could be taken for."""
    if not text:
        return "The name is empty."
    if len(text) > MAX_NAME:
        return f"The name is too long: {len(text)} characters, {MAX_NAME} are allowed."
    room = 0
    for char in text:
        room, fault = _follow(char, room)
        if fault:
            return fault
    if not any(map(str.isalnum, text)):
        return "The name has neither a letter nor a digit."
    if text[0] == "-":
        return "The name begins with a hyphen and could be taken for an option."
    return None


def _follow(char: str, room: int) -> tuple[int, str | None]:
    """One character of a name. room: how many combining marks may stand here. Returns that for the next, and what is
    wrong."""
    kind = unicodedata.category(char)
    if char in _INVISIBLE or "\U000e0100" <= char <= "\U000e01ef":
        return 0, f"The name holds an invisible character (U+{ord(char):04X})."
    if kind[0] == "L":
        return _MAX_MARKS, None
    if kind == "Nd" or char in _PUNCTUATION:
        return 0, None
    if kind in {"Mn", "Mc"}:
        if not room:
            return 0, f"The name holds a combining mark (U+{ord(char):04X}) that does not belong to a letter."
        return room - 1, None
    if kind in _KINDS:
        return 0, f"The name holds {_KINDS[kind]} (U+{ord(char):04X})."
    return 0, f"The name holds {char}, which is neither a letter nor a digit nor one of - _ and a full stop."


def _look_once(name: str) -> str:
    # The table first: NFKD makes a Greek sigma of the lunate one, which looks like a `c`.
    name = unicodedata.normalize("NFKD", unicodedata.normalize("NFD", name).translate(_prototypes()))
    return _fold_ascii("".join([char for char in name if char not in _INVISIBLE and not _is_accent(char)]).casefold())


def _is_accent(char: str) -> bool:
    # Accents of Latin, Greek and Cyrillic only: a vowel sign of Thai or Hindi is not decoration.
    return "\u0300" <= char <= "\u036f" or "\u1ab0" <= char <= "\u1aff" or "\u1dc0" <= char <= "\u1dff"


def _fold_ascii(text: str) -> str:
    return text.lower().translate(_ASCII_LOOK_ALIKES)


_ASCII_LOOK_ALIKES: Final = str.maketrans({"0": "o", "1": "l", "i": "l", "m": "rn"})


_RESERVED: Final = frozenset(
    map(_fold_ascii, ("human", "user", "you", "system", "broker", "assistant", "xsessiond", "xsessionctl"))
)
"""Skeletons of names that would make a session pass for somebody else in what a model reads."""


def _prototypes() -> dict[int, str]:
    from xsessiond.core.confusables import prototypes

    return prototypes()


def _begins(longer: str, shorter: str) -> bool:
    return len(shorter) >= 3 and longer.startswith(tuple(shorter + mark for mark in _PUNCTUATION))


def _slips_between(one: str, other: str, most: int) -> int:
    """Insertions, deletions, changes and swaps of neighbours between two texts, counted no further than `most + 1`."""
    start = 0
    for char, target in zip(one, other, strict=False):
        if char != target:
            break
        start += 1
    one, other = one[start:], other[start:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, char in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, target in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (char != target))
            if i > 1 and j > 1 and char == other[j - 2] and one[i - 2] == target:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]

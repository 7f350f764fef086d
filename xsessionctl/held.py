"""Held messages from a terminal: ids as people write them, and questions that only a human may ask.

Laws: an id may be shortened to any beginning that means one message; what could mean two is refused before anything is
decided. A passphrase comes from the terminal and goes to the broker, through no argument, variable or file. Refuses to
know: printing, options.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xsessionctl.client import ClientError, deadline_in
from xsessionctl.requests import ask

Document = Mapping[str, object]

LEAST_DIGITS = 4
"""Of a shortened id. Fewer are a typing mistake more often than an id."""
SHOWN_DIGITS = 6
"""Of an id in a table, or as many more as tell it from its neighbours."""
WHOLE = {"m-": 32, "t-": 16}
"""Digits of a whole id: of a message, of a remembered approval."""
PAST = 1000
"""Messages of the log in which one is looked for that is not held any more."""
TRIES = 3
"""How often a passphrase may be typed before the command gives up. The broker counts for itself."""


def held_of(queue: Document) -> dict[str, Document]:
    """The messages of an answer to `hold_queue`, by id."""
    found = queue.get("held")
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    return {str(row.get("id")): row for row in rows}


def shorten_ids(ids: Iterable[str]) -> dict[str, str]:
    """For each id the beginning that tables show: no other of these begins so."""
    known = sorted(ids)
    short = {}
    for number, this in enumerate(known):
        near = [*known[max(0, number - 1) : number], *known[number + 1 : number + 2]]
        size = len("m-") + SHOWN_DIGITS
        while size < len(this) and any(other.startswith(this[:size]) for other in near):
            size += 1
        short[this] = this[:size]
    return short


def find_messages(words: Sequence[str], queue: Document, timeout: float) -> list[str]:
    """Whole ids for ids of held messages as they were typed. queue: the answer to `hold_queue`. What is not in it is
    looked for in the log, and stays as it is if it is not there either: the broker says what it thinks of it. Raises
    ClientError: usage, ambiguous.
    """
    held = held_of(queue)
    past: dict[str, Document] | None = None
    found = []
    for word in words:
        beginning = _beginning(word, "m-")
        if _is_whole(beginning):
            found.append(beginning)
            continue
        if queue.get("left_out"):
            raise ClientError(
                "usage", "The queue is too long for shortened ids.", "Write them whole, or decide some of it first."
            )
        match = _find_only(beginning, held)
        if match is None:
            past = _read_past(timeout) if past is None else past
            match = _find_only(beginning, past)
        found.append(match or beginning)
    return list(dict.fromkeys(found))


def complete_id(word: str, timeout: float) -> str:
    """The whole id of any message, where `word` is the beginning of one; else the word itself, of which the broker
    says what it thinks. Raises ClientError: ambiguous."""
    try:
        beginning = _beginning(word, "m-")
    except ClientError:
        return word
    if _is_whole(beginning):
        return beginning
    return _find_only(beginning, _read_past(timeout)) or beginning


def _find_only(beginning: str, known: Mapping[str, Document]) -> str | None:
    """The one id that begins so, or None. Raises ClientError: ambiguous."""
    matches = [one for one in known if one.startswith(beginning)]
    if len(matches) > 1:
        raise ClientError(
            "ambiguous",
            f"{len(matches)} messages begin with {beginning}. Nothing was done.",
            "Write more of it.",
            candidates=[{key: known[one].get(key) for key in ("id", "from", "to")} for one in matches],
        )
    return matches[0] if matches else None


def find_trust(word: str, trusts: Document) -> str:
    """The whole id of a remembered approval. trusts: the answer to `trusts`. Raises ClientError: usage, ambiguous."""
    beginning = _beginning(word, "t-")
    rows = trusts.get("trusts")
    known = [str(row.get("id")) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    matches = [one for one in known if one.startswith(beginning)]
    if len(matches) > 1:
        raise ClientError("ambiguous", f"{', '.join(matches)} begin with {beginning}. Nothing was done.", "Write more.")
    return matches[0] if matches else beginning


def _beginning(word: str, prefix: str) -> str:
    """An id or the beginning of one, as it is compared. Raises ClientError."""
    digits = word.strip().lower().removeprefix(prefix)
    if not digits or set(digits) - set("0123456789abcdef") or len(digits) > WHOLE[prefix]:
        raise ClientError(
            "usage", f"{word!r} is no id.", f"One is {prefix} and {WHOLE[prefix]} hex digits, or the first of them."
        )
    if len(digits) < LEAST_DIGITS:
        raise ClientError("usage", f"{word!r} is too short.", f"Write at least {LEAST_DIGITS} digits of the id.")
    return prefix + digits


def _is_whole(beginning: str) -> bool:
    return len(beginning) == len("m-") + WHOLE["m-"]


def _read_past(timeout: float) -> dict[str, Document]:
    """The last messages that the log shows to this caller, by id."""
    entries = ask("log", {"limit": PAST}, deadline_in(timeout)).get("entries")
    rows = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return {str(entry.get("id")): entry for entry in rows}


# --------------------------------------------------------------------------------------------------------- passphrase


def ask_human(method: str, params: Document, timeout: float) -> dict[str, object]:
    """As `requests.ask`, for what only a human may do: where the broker wants a passphrase, the terminal is asked for
    it. timeout: seconds for each request; typing takes as long as it takes. Raises ClientError.
    """
    more: dict[str, object] = {}
    tried = 0
    while True:
        try:
            return ask(method, {**params, **more}, deadline_in(timeout))
        except ClientError as problem:
            if not wants_passphrase(problem) or tried == TRIES:
                raise
            from xsessionctl.prompt import read_secret

            secret = read_secret(problem.text)
            if secret is None:
                raise
            more, tried = {"passphrase": secret}, tried + 1


def wants_passphrase(problem: ClientError) -> bool:
    """Whether the same request with a passphrase may be permitted."""
    return isinstance(problem.detail, dict) and problem.detail.get("passphrase") is True

"""Every setting: what it may be, what it is when nobody sets it, what it does.

Laws: this is the one list; what is not in it is unknown, and the documentation is made from it. A setting that decides
what reaches a session, or who decides, is a guard: where it cannot be read, nothing gets through in its place. Refuses
to know: files, layers, TOML.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from xsessiond.core import limits

POLICIES = ("accept", "hold", "refuse")
SCOPES = ("machine", "project")
CLASSES = ("bypass", "prompting")
HARNESSES = ("claude", "codex", "gemini", "opencode")
"""Those whose names are known here. Any MCP client may be a harness, under the name that it gives."""

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LONGEST_MS = 3650 * 86_400_000
_DURATION = re.compile(r"([0-9]{1,12})([smhd])")
_MOST_WORDS, _LONGEST_WORD = 64, 4096

AT_ONCE, AT_START, NOT_YET = "at once", "at the broker's next start", "not in this version"


class BadValue(ValueError):
    """A value that a setting cannot have. The text goes on from its name: "must be …"."""


Check = Callable[[object], object]
"""Returns what the setting means, from what TOML says. Raises BadValue."""


class Key(NamedTuple):
    """One setting. path: `*` is any name. default: as it is written, None for unset. may_be: for people.

    applies: when a change is in force. project: whether a project's file may have it, in which it can only tighten.
    """

    path: tuple[str, ...]
    check: Check
    default: object
    may_be: str
    meaning: str
    guard: bool = False
    project: bool = False
    applies: str = AT_ONCE
    words: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As people write it."""
        return ".".join(self.path).replace("*", "NAME")


def one_of(*words: str) -> Check:
    """One of these words."""
    may_be = " or ".join((", ".join(f'"{word}"' for word in words[:-1]), f'"{words[-1]}"'))

    def check(value: object) -> object:
        if not isinstance(value, str) or value not in words:
            raise BadValue(f"must be {may_be}")
        return value

    return check


def number(value: object) -> object:
    """A float of at least 0. Infinity would be no number in JSON."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1_000_000:
        raise BadValue("must be a number from 0 to 1000000")
    return float(value)


def count(value: object) -> object:
    """An int of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
        raise BadValue("must be a whole number from 1 to 1000000")
    return value


def yes_or_no(value: object) -> object:
    """A bool, and nothing that could be taken for one."""
    if not isinstance(value, bool):
        raise BadValue("must be true or false")
    return value


def duration(value: object) -> object:
    """Milliseconds from `"90s"`, `"5m"`, `"1h"`, `"7d"`, or from a number of seconds."""
    found: float = -1
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        found = value * 1000
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value)):
        found = int(match[1]) * _UNITS_MS[match[2]]
    if not 1 <= found <= _LONGEST_MS:
        raise BadValue('must be a time such as "90s", "5m", "1h" or "7d", of ten years at most')
    return round(found)


def duration_or_never(value: object) -> object:
    """Milliseconds, or None for `"never"`."""
    if value == "never":
        return None
    try:
        return duration(value)
    except BadValue as wrong:
        raise BadValue(f'{wrong}, or "never"') from None


RESUME_PLACES = re.compile(r"\{(harness_session_id|cwd)\}")
"""What is filled into the arguments of a command that resumes a conversation."""


def resume_command(value: object) -> object:
    """As `command`. The program is the user's to name, and the conversation must be told to it."""
    words = command(value, example='["gemini", "--resume", "{harness_session_id}"]')
    assert isinstance(words, tuple)
    if RESUME_PLACES.search(words[0]):
        raise BadValue("must begin with a program of yours, in which nothing is filled in")
    if not any("{harness_session_id}" in word for word in words[1:]):
        raise BadValue("must have {harness_session_id} in one of its arguments, to say which conversation")
    return words


def command(value: object, example: str = '["notify-send", "{title}", "{text}"]') -> object:
    """A program and its arguments, as a tuple of str."""
    words = value if isinstance(value, list) else []
    fits = 1 <= len(words) <= _MOST_WORDS
    if not fits or not all(isinstance(word, str) and len(word) <= _LONGEST_WORD and "\0" not in word for word in words):
        raise BadValue(f"must be a command as a list of texts, such as {example}")
    if not words[0]:
        raise BadValue("must begin with a program")
    return tuple(words)


def _word(path: str, words: tuple[str, ...], default: str | None, meaning: str, **more: bool | str) -> Key:
    may_be = " ".join(f"`{word}`" for word in words)
    return Key(tuple(path.split(".")), one_of(*words), default, may_be, meaning, words=words, **more)  # type: ignore[arg-type]


def _pace(name: str, check: Check, default: float, meaning: str) -> Key:
    may_be = "a whole number" if check is count else "a number"
    return Key(("pacing", name), check, default, may_be, meaning)


KEYS: tuple[Key, ...] = (
    _word(
        "inbound.policy",
        POLICIES,
        None,
        "What comes for your sessions: delivered, held for you to decide, or refused. Unset: by the classes of both "
        "sides; one that asks before it acts takes all but what comes from one that does not, one that does not ask "
        "takes only what comes from another such, and where it is not known, it is held.",
        guard=True,
        project=True,
    ),
    Key(
        ("inbound", "hold_expiry"),
        duration_or_never,
        "1h",
        "a time (`60s` `5m` `10m` `1h`), `never`",
        "How long what is held without a setting that says so waits for you.",
        guard=True,
    ),
    _word(
        "inbound.scope",
        SCOPES,
        "machine",
        "`project`: what comes from outside the receiver's project is held, also where the policy is `accept`.",
        guard=True,
        project=True,
    ),
    _word(
        "outbound.policy",
        POLICIES,
        "accept",
        "What your sessions' agents send: goes to the receiver, is held for you to see first, or is refused.",
        guard=True,
        project=True,
    ),
    _word(
        "harness.*.assume_class",
        CLASSES,
        None,
        "For a harness that cannot tell whether it asks before it acts: `prompting` does, `bypass` does not.",
        guard=True,
    ),
    Key(
        ("harness", "*", "resume"),
        resume_command,
        None,
        "a command",
        "Starts a conversation again, for messages sent with `when_offline = resume`. `{harness_session_id}` and "
        "`{cwd}` are replaced in its arguments.",
    ),
    Key(
        ("approvals", "without_terminal"),
        yes_or_no,
        False,
        "`true` `false`",
        "Whether a process without a terminal may decide what is held.",
        guard=True,
    ),
    Key(
        ("approvals", "passphrase"),
        yes_or_no,
        False,
        "`true` `false`",
        "Whether each decision asks for your passphrase.",
        guard=True,
    ),
    Key(
        ("approvals", "elicitation"),
        yes_or_no,
        False,
        "`true` `false`",
        "Whether an answer in a harness's own dialog counts as yours. It never does: an agent's looks the same.",
        guard=True,
        applies=NOT_YET,
    ),
    Key(
        ("approvals", "notify"),
        command,
        None,
        "a command",
        "Tells you that something is held, that sessions were stopped, or that a session is idle which you asked "
        "about. `{title}` and `{text}` are replaced in its arguments.",
        guard=True,
    ),
    _pace("target_burst", number, limits.TARGET_BURST, "Messages that one sender may send to one target at once."),
    _pace("target_per_second", number, limits.TARGET_PER_SECOND, "How fast that comes back."),
    _pace("sender_burst", number, limits.SENDER_BURST, "Messages that one sender may send at once, to all."),
    _pace("sender_per_second", number, limits.SENDER_PER_SECOND, "How fast that comes back."),
    _pace("duplicate_window", number, limits.DUPLICATE_WINDOW_S, "Seconds in which the same text is a repeat."),
    _pace("queue_per_session", count, limits.QUEUE_PER_SESSION, "Messages that wait for one receiver."),
    _pace("held_per_session", count, limits.HELD_PER_SESSION, "Messages that are held for one receiver."),
    _pace("max_hops", count, limits.MAX_HOPS, "How many messages in a row may each cause the next."),
    _pace(
        "exchange_per_minute",
        count,
        limits.EXCHANGE_PER_MINUTE,
        "Messages a minute between two sessions, either way, that other messages caused.",
    ),
    _word(
        "offline.default",
        ("refuse", "queue"),
        "refuse",
        "What becomes of a message to a session that does not run, when the sender does not say.",
    ),
    Key(
        ("offline", "keep"),
        duration,
        "7d",
        "a time",
        "How long a message waits for a session that does not run, and how long the past is kept.",
    ),
    _word(
        "store.durability",
        ("full", "normal"),
        "full",
        "`full`: what was accepted survives a power cut. `normal`: it survives the end of the broker, however hard.",
        applies=AT_START,
    ),
    Key(
        ("sessions", "off"),
        yes_or_no,
        False,
        "`true` `false`",
        "Switches the whole thing off: these sessions are not listed, reach nobody and are reached by nobody.",
        guard=True,
        project=True,
    ),
)

LATER = "remote"
"""A table that is known and does nothing yet, whatever is in it."""

SECTIONS: Mapping[str, tuple[Key, ...]] = {
    name: tuple(key for key in KEYS if key.path[0] == name) for name in dict.fromkeys(key.path[0] for key in KEYS)
}
"""The tables of the first level, in the order of the documentation."""
GUARDED = frozenset({"inbound", "outbound", "approvals", "sessions"})
"""Tables in which everything is a guard, also what is unknown."""


def find_key(path: tuple[str, ...]) -> Key | None:
    """The setting at this path, without `*`."""
    for key in SECTIONS.get(path[0], ()) if path else ():
        if len(key.path) == len(path) and all(want in ("*", is_) for want, is_ in zip(key.path, path, strict=True)):
            return key
    return None

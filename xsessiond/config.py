"""Settings: TOML text in, one frozen `Config` out, with everything that is wrong with it.

Laws: a file that cannot be read or parsed changes nothing and is told with file, line and column; an unknown key is
told with the nearest known one; a bad value leaves the default and is told. Refuses to know: who uses a setting, and
where the files lie.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from xsessiond.core.limits import KEEP_MS
from xsessiond.core.pacing import PaceSettings

LONGEST_S = 100 * 365 * 86400
"""A century: longer than any time here can mean, short enough to count with."""
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Config:
    """What is in force. problems: sentences, worst first; ok: none of them is an error. sources: `section.key` →
    file."""

    pacing: PaceSettings = field(default_factory=PaceSettings)
    durability: Literal["full", "normal"] = "full"
    keep_ms: int = KEEP_MS
    offline_default: Literal["refuse", "queue"] = "refuse"
    ok: bool = True
    problems: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


class BadValue(ValueError):
    """A value that a key cannot have. The text says what it must be."""


def _number(least: float) -> Callable[[object], float]:
    def check(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < 1e12:
            raise BadValue(f"must be a number of at least {least:g}")
        return float(value)

    return check


def _count(least: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 1_000_000:
            raise BadValue(f"must be a whole number from {least} to 1000000")
        return value

    return check


def _one_of(*words: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in words:
            raise BadValue("must be " + " or ".join(f'"{word}"' for word in words))
        return str(value)

    return check


def parse_duration(value: object) -> float:
    """Seconds from `"90s"`, `"5m"`, `"1h"`, `"7d"`, or from a number of seconds; at most a century. Raises BadValue."""
    seconds: float = 0
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    elif isinstance(value, str) and value.isascii() and value[-1:] in UNITS_S and value[:-1].isdecimal():
        seconds = int(value[:-1][:20]) * UNITS_S[value[-1]]
    if 0 < seconds <= LONGEST_S:
        return float(seconds)
    raise BadValue('must be a time such as "90s", "5m", "1h" or "7d"')


KEYS: Mapping[str, Mapping[str, Callable[[object], object]]] = {
    "pacing": {
        "target_burst": _number(0),
        "target_per_second": _number(0),
        "sender_burst": _number(0),
        "sender_per_second": _number(0),
        "duplicate_window": _number(0),
        "queue_per_session": _count(1),
    },
    "offline": {"default": _one_of("refuse", "queue"), "keep": parse_duration},
    "store": {"durability": _one_of("full", "normal")},
}
"""Every key that is in force, with what checks its value."""

PLANNED = frozenset({"inbound", "outbound", "harness", "approvals", "remote"})
"""Sections of the contract that this version does not act on. Nothing may look as if it were protected."""


def read_config(text: str, path: str) -> Config:
    """The settings of one file's text. Never raises: what is wrong is in `problems`."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return Config(ok=False, problems=(f"{path}: {error}.",))
    problems: list[str] = []
    values: dict[str, object] = {}
    ok = True
    for section, entries in table.items():
        if section in PLANNED:
            problems.append(f"{path}: [{section}] has no effect in this version.")
            ok = False
            continue
        known = KEYS.get(section)
        if known is None or not isinstance(entries, dict):
            problems.append(f"{path}: [{section}] is unknown{_nearest(section, [*KEYS, *PLANNED])}.")
            continue
        for key, value in entries.items():
            check = known.get(key)
            if check is None:
                problems.append(f"{path}: {section}.{key} is unknown{_nearest(key, known)}.")
                continue
            try:
                values[f"{section}.{key}"] = check(value)
            except BadValue as wrong:
                problems.append(f"{path}: {section}.{key} {wrong}; the default holds.")
                ok = False
    return _build(values, ok, problems, path)


def _build(values: dict[str, object], ok: bool, problems: list[str], path: str) -> Config:  # noqa: FBT001 - private
    pacing = {key.partition(".")[2]: value for key, value in values.items() if key.startswith("pacing.")}
    keep = values.get("offline.keep")
    return Config(
        pacing=PaceSettings(**pacing),  # type: ignore[arg-type]  # each value was checked by its key's check
        durability="normal" if values.get("store.durability") == "normal" else "full",
        keep_ms=KEEP_MS if not isinstance(keep, float) else round(keep * 1000),
        offline_default="queue" if values.get("offline.default") == "queue" else "refuse",
        ok=ok,
        problems=tuple(problems),
        sources=dict.fromkeys(values, path),
    )


def _nearest(word: str, known: object) -> str:
    near = difflib.get_close_matches(word, list(known), 1) if isinstance(known, Mapping | list) else []
    return f'; did you mean "{near[0]}"?' if near else ""


def load_config(path: str) -> Config:
    """The settings of the file, which need not exist. Never raises."""
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8-sig")
    except FileNotFoundError:
        return Config()
    except UnicodeDecodeError:
        return Config(ok=False, problems=(f"{path} is not UTF-8; it was ignored.",))
    except OSError as error:
        return Config(ok=False, problems=(f"{path} cannot be read: {error.strerror}.",))
    return read_config(text, path)

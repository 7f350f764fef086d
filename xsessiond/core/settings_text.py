"""One settings file: its text in, its values out, with all that is wrong with it by line and column.

Laws: never raises; what is wrong loosens nothing. A text that cannot be parsed leaves every policy unclear, and so does
an unknown name or a value that cannot be where a guard stands or was probably meant; elsewhere what is wrong is left
out and told. A project's file is somebody else's: it can tighten and do nothing else. Refuses to know: which file goes
before which, where files lie, who may write them.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from xsessiond.core.setting_keys import (
    GUARDED,
    HARNESSES,
    KEYS,
    LATER,
    NOT_YET,
    SECTIONS,
    BadValue,
    Key,
    find_key,
)
from xsessiond.core.toml_spots import START, Spot, find_entries, spot_of, spot_of_error, write_key

MAX_TEXT = 64 << 10
"""Characters of a file. Every setting there is fits many times."""
MAX_LINE = 2000
"""Characters of a line: what `tomllib` does with a dotted key grows with the square of its length."""
DECISIONS = ("inbound", "outbound", "scope", "approvals")
"""What `FileSettings.unclear` can name: the policies, and what stands in [approvals]."""
GUARD_NAMES = GUARDED | {key.path[-1] for key in KEYS if key.guard}
"""What must not be lost, wherever it stands."""
_TOUCHED = {
    "inbound": ("inbound", "scope"),
    "outbound": ("outbound",),
    "approvals": ("inbound", "scope", "approvals"),
    "sessions": ("inbound", "scope"),
    "harness": ("inbound", "scope"),
}
"""By table, what is unclear when something is wrong in it; in another table, or outside of all: everything."""
MOST_PROBLEMS = 20
"""A file with more is not looked at further."""
LOOSEST = frozenset({"accept", "machine", False})
"""Values that cannot tighten anything."""
CALLED = {
    "auth": "approvals",
    "security": "approvals",
    "permissions": "approvals",
    "receive": "inbound",
    "send": "outbound",
}
"""Names that other programs have for these tables."""


NOT_USED = "Nothing in it is used, and messages are held until it is mended."
"""What follows from a file that is broken, where it was never good."""


class Problem(NamedTuple):
    """Something wrong. level: an error makes the settings bad, a warning is only told. text: one or two sentences."""

    level: Literal["error", "warning"]
    path: str
    line: int
    column: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.level}: {self.text}"


class Written(NamedTuple):
    """A value as somebody wrote it. raw: what TOML says. meant: what its `Key.check` made of it."""

    raw: object
    meant: object
    spot: Spot


@dataclass(frozen=True, slots=True)
class FileSettings:
    """What a file says.

    values: by path. unclear: those of `DECISIONS` of which it cannot be told what
    the file says, with the place that is to blame. broken: nothing of the file could be used.
    """

    path: str
    values: Mapping[tuple[str, ...], Written] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    unclear: Mapping[str, Spot] = field(default_factory=dict)
    broken: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing is an error."""
        return not any(problem.level == "error" for problem in self.problems)


def read_settings(text: str, path: str, *, project: bool = False) -> FileSettings:
    """What the text of a file means. path: for people. project: it is one of a repository's."""
    if len(text) > MAX_TEXT:
        return broken_settings(path, f"has more than {MAX_TEXT} characters, and was not read.")
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_LINE:
            return broken_settings(
                path, f"has more than {MAX_LINE} characters in this line.", Spot(number, MAX_LINE + 1)
            )
    try:
        table = tomllib.loads(text)
        entries = find_entries(text)
    except tomllib.TOMLDecodeError as error:
        said, spot = spot_of_error(text, error)
        return broken_settings(path, f"cannot be parsed: {said}.", spot)
    except RecursionError:
        return broken_settings(path, "cannot be parsed: it is nested too deeply.")
    except ValueError as error:  # a number of thousands of digits
        return broken_settings(path, f"cannot be parsed: {error}.")
    offsets: dict[tuple[str, ...], int] = {}
    for entry in entries:
        if entry.value is not None:
            offsets[entry.path] = entry.key
        else:
            offsets.setdefault(entry.path, entry.key)
    reading = _Reading(path, {where: spot_of(text, offset) for where, offset in offsets.items()}, project=project)
    reading.read(table)
    return FileSettings(path, reading.values, tuple(reading.problems), reading.unclear)


def broken_settings(path: str, what: str, spot: Spot = START) -> FileSettings:
    """A file of which nothing can be used. what: goes on from its name."""
    problem = Problem("error", path, *spot, f"The file {what} {NOT_USED}")
    return FileSettings(path, {}, (problem,), dict.fromkeys(DECISIONS, spot), broken=True)


class _TooMuch(Exception):
    """There are `MOST_PROBLEMS` problems."""


class _Reading:
    """One walk through a file's tables."""

    def __init__(self, path: str, spots: Mapping[tuple[str, ...], Spot], *, project: bool) -> None:
        self._path, self._spots, self._project = path, spots, project
        self.values: dict[tuple[str, ...], Written] = {}
        self.problems: list[Problem] = []
        self.unclear: dict[str, Spot] = {}

    def read(self, table: Mapping[str, object]) -> None:
        try:
            for name, value in table.items():
                self._read_section(name, value)
        except _TooMuch:
            spot = Spot(self.problems[-1].line, self.problems[-1].column)
            for decision in DECISIONS:
                self.unclear.setdefault(decision, spot)
            text = "There is more wrong than this, which was not looked at. What it could decide holds."
            self.problems.append(Problem("error", self._path, *spot, text))

    def _read_section(self, name: str, value: object) -> None:
        keys = SECTIONS.get(name)
        if keys is None and name == LATER:
            self._warn((name,), f"[{name}] has no effect in this version.")
        elif keys is None:
            self._read_unknown((name,), value)
        elif not isinstance(value, dict):
            example = f"write [{name}] and below it {keys[0].path[-1]} = …"
            self._tell((name,), f"{name} must be a table: {example}", guard=any(key.guard for key in keys))
        elif name == "harness":
            for harness, settings in value.items():
                self._read_harness(harness, settings)
        else:
            for key, setting in value.items():
                self._read_key((name, key), setting)

    def _read_harness(self, harness: str, settings: object) -> None:
        path = "harness", harness
        if not isinstance(settings, dict):
            self._tell(
                path,
                f"[harness] has a table for each harness: write [harness.NAME] and below it {harness} = ….",
                guard=True,
            )
            return
        near = difflib.get_close_matches(harness.lower(), HARNESSES, 1, 0.75)
        if near and harness not in HARNESSES:
            self._warn(path, f'No harness is known as "{_clip(harness)}"; did you mean "{near[0]}"?')
        for key, setting in settings.items():
            self._read_key((*path, key), setting)

    def _read_key(self, path: tuple[str, ...], raw: object) -> None:
        key = find_key(path)
        if key is None:
            self._read_unknown(path, raw)
            return
        try:
            meant = key.check(raw)
        except BadValue as wrong:
            self._tell(path, f"{_dotted(path)} {wrong}{_near(raw, key.words)}", guard=key.guard)
            return
        if self._project and not key.project:
            self._warn(path, f"{_dotted(path)} does nothing in a project's file.")
        elif self._project and isinstance(raw, str | bool) and raw in LOOSEST:
            said = f'"{raw}"' if isinstance(raw, str) else "false"
            self._warn(path, f"{_dotted(path)} = {said} does nothing in a project's file, which can only tighten.")
        else:
            self.values[path] = Written(raw, meant, self._spot(path))
            if key.applies == NOT_YET:
                self._warn(path, f"{_dotted(path)} has no effect in this version.")

    def _read_unknown(self, path: tuple[str, ...], value: object) -> None:
        meant, words = _find_meant(path)
        guard = meant or path[0] in GUARDED or bool(GUARD_NAMES.intersection(path[1:])) or _has_guards(value)
        self._tell(path, f"{_dotted(path)} is unknown{words}", guard=guard)

    # -- what is wrong -----------------------------------------------------------------------------------------------

    def _tell(self, path: tuple[str, ...], text: str, *, guard: bool) -> None:
        """Something is wrong; text: without its end. guard: so what it could have decided holds."""
        if not guard:
            self._warn(path, f"{text} It is left out." if text.endswith("?") else f"{text}; it is left out.")
            return
        spot = self._spot(path)
        outbound = path[0] == "outbound"
        for decision in _TOUCHED.get(path[0], DECISIONS):
            self.unclear.setdefault(decision, spot)
        what = "What your sessions send" if outbound else "What comes for your sessions"
        end = " " if text.endswith(("?", ".")) else ". "
        self._add(Problem("error", self._path, *spot, f"{text}{end}{what} is held until this is mended."))

    def _warn(self, path: tuple[str, ...], text: str) -> None:
        self._add(Problem("warning", self._path, *self._spot(path), text))

    def _add(self, problem: Problem) -> None:
        self.problems.append(problem)
        if len(self.problems) >= MOST_PROBLEMS:
            raise _TooMuch

    def _spot(self, path: tuple[str, ...]) -> Spot:
        return self._spots.get(path, START)


def _has_guards(value: object) -> bool:
    """Whether something in there has the name of a guard: a table that stands in the wrong place."""
    ahead = [value]
    while ahead:
        here = ahead.pop()
        if isinstance(here, dict):
            if not GUARD_NAMES.isdisjoint(here):
                return True
            ahead += here.values()
        elif isinstance(here, list):
            ahead += here
    return False


def _find_meant(path: tuple[str, ...]) -> tuple[bool, str]:
    """Whether an unknown key was probably meant for a guard, and what was probably meant, as the end of a sentence."""
    word = path[-1].lower().replace("-", "_")
    own = SECTIONS.get(path[0], ()) if len(path) > 1 else ()
    if near := _nearest(word, [key.path[-1] for key in own]):
        return any(key.guard for key in own if key.path[-1] == near), f'; did you mean "{near}"?'
    if len(path) == 1 and (near := CALLED.get(word) or _nearest(word, [*SECTIONS, LATER])):
        return near != LATER and any(key.guard for key in SECTIONS[near]), f'; did you mean "{near}"?'
    if near := _nearest(word, [key.path[-1] for key in KEYS]):
        keys = [key for key in KEYS if key.path[-1] == near]
        places = " or ".join(_in_its_table(key) for key in keys)
        return any(key.guard for key in keys), f"; did you mean {places}?"
    return False, ""


def _in_its_table(key: Key) -> str:
    return f'"{key.path[-1]}" in [{".".join(key.path[:-1]).replace("*", "NAME")}]'


def _nearest(word: str, words: Iterable[str]) -> str | None:
    near = difflib.get_close_matches(word[:64], list(words), 1, 0.7)
    return near[0] if near else None


def _near(raw: object, words: tuple[str, ...]) -> str:
    if not isinstance(raw, str):
        return ""
    near = difflib.get_close_matches(raw[:64].lower(), words, 1)
    return f'; did you mean "{near[0]}"?' if near else ""


def _dotted(path: tuple[str, ...]) -> str:
    return _clip(write_key(path))


def _clip(text: str) -> str:
    return text if len(text) <= 64 else text[:63] + "…"

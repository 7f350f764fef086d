"""What a module of a harness has to say: where its files are, what should stand in them, what it can do.

A `Harness` is a value. `known.HARNESSES` has them all; a new one is one module that makes one, and its line there.

Laws: only this and `plans` are used by the verbs, so that nothing outside knows one harness from another. Refuses to
know: what any of them wants.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xsessionctl.harness.entries import Entry, Format, value_at

Version = tuple[int, ...]


@dataclass(frozen=True)
class Site:
    """Where and for whom something is installed.

    home: the user's. environ: the environment, from which a harness takes where its files are. command: the absolute
    path of `xsessionctl`. hook: that of our hook program. settings: variables for every program of ours that the
    harness starts. version: the harness's; None if it is not known.
    """

    home: str
    environ: Mapping[str, str]
    command: str
    hook: str
    settings: Mapping[str, str] = field(default_factory=dict)
    version: Version | None = None

    def folder(self, variable: str, default: str) -> str:
        """What an absolute path in `variable` says, else `default` below the home directory."""
        value = self.environ.get(variable, "")
        return os.path.normpath(value) if value.startswith("/") else os.path.join(self.home, default)


@dataclass(frozen=True)
class Part:
    """One file, and what should stand in it.

    strict: the harness itself reads no comments and no trailing commas there. lock: a directory that exists while the
    harness, too, writes the file; empty where it has none.
    """

    path: str
    form: Format
    entries: Sequence[Entry]
    strict: bool = False
    lock: str = ""


@dataclass(frozen=True)
class PlainFile:
    """A whole file of ours in a folder of the harness. mark: what only a file of ours has in it."""

    path: str
    text: str
    mark: str


@dataclass(frozen=True)
class Doors:
    """How a message gets in, in words: to an idle session, to a busy one, at its own next step; and what proves it."""

    wake: str
    mid_turn: str
    own_turn: str
    evidence: str


@dataclass(frozen=True)
class Harness:
    """One harness.

    name: as in the settings and in `list`. title: its own name. program: what is started. programs: where else that
    may be, below the home directory, when it is not in PATH. tested: the oldest and the newest version that the tests
    ran with. class_source: where the permission class comes from; class_told: whether the harness tells it. resume: the
    command that goes on with a conversation. parts: what should be where. left: files of other layouts in which entries
    of ours may be left. advice: what the user has to do, by what is found in the files.
    """

    name: str
    title: str
    program: str
    programs: tuple[str, ...]
    tested: tuple[Version, Version]
    doors: Doors
    class_source: str
    class_told: bool
    resume: tuple[str, ...]
    parts: Callable[[Site], Sequence[Part | PlainFile]]
    advice: Callable[[Site], Sequence[str]] = lambda site: ()
    switched_off: Callable[[Mapping[str, object]], Sequence[str]] = lambda trees: ()

    def in_tested_range(self, version: Version) -> bool:
        """Whether the tests ran with this version, or with older and newer ones."""
        return self.tested[0] <= version <= self.tested[1]


def is_on(tree: object, *path: str) -> bool:
    """Whether a switch in a parsed file is true."""
    return value_at(tree, path) is True

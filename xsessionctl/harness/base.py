"""What a module of a harness has to say: where its files are, what should stand in them, what it can do.

A `Harness` is a value. `known.HARNESSES` has them all; a new one is one module that makes one, and its line there.

Laws: only this and `plans` are used by the verbs, so that nothing outside knows one harness from another. Refuses to
know: what any of them wants.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xsessionctl.harness.entries import Entry, Format
from xsessionctl.harness.trees import value_at

Version = tuple[int, ...]


@dataclass(frozen=True)
class Site:
    """Where and for whom something is installed.

    home: the user's. environ: the environment, from which a harness takes where its files are. command: the absolute
    path of `xsessionctl`. data: that of the folder with our hook program and plugin. settings: variables for every
    program of ours that the harness starts. version: the harness's; None if it is not known.
    """

    home: str
    environ: Mapping[str, str]
    command: str
    data: str
    settings: Mapping[str, str] = field(default_factory=dict)
    version: Version | None = None

    def hook(self, harness: str, event: str) -> str:
        """The shell's words for our hook program. Without a word of its own for the shell it would need the right to be
        executed, which not every installer gives."""
        variables = "".join(f"{name}={shlex.quote(value)} " for name, value in self.settings.items())
        return f"{variables}/bin/sh {shlex.quote(f'{self.data}/hook.sh')} {harness} {event}"

    def folder(self, variable: str, default: str) -> str:
        """What an absolute path in `variable` says, else `default` below the home directory."""
        value = self.environ.get(variable, "")
        return os.path.normpath(value) if value.startswith("/") else os.path.join(self.home, default)


@dataclass(frozen=True)
class Part:
    """One file, and what should stand in it.

    lock: a directory that exists while the harness, too, writes the file; empty where it has none.
    """

    path: str
    form: Format
    entries: Sequence[Entry]
    lock: str = ""


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

    name: as in the settings and in `list`. title: its own name. program: what is started. programs: where else that may
    be, below the home directory, when it is not in PATH. tested: the oldest and the newest version that the tests ran
    with. class_source: where the permission class comes from; class_told: whether the harness tells it. subagents: what
    tells that a subagent sent a message, None if nothing does. resume: the command that goes on with a conversation.
    parts: what should be where. advice: what the user has to do besides. switched_off: what they have switched off that
    we need, by what their files say. inspect: what the harness itself says of ours, asked through its program; the last
    three as sentences.
    """

    name: str
    title: str
    program: str
    programs: tuple[str, ...]
    tested: tuple[Version, Version]
    doors: Doors
    class_source: str
    class_told: bool
    subagents: str | None
    resume: tuple[str, ...]
    parts: Callable[[Site], Sequence[Part]]
    advice: Callable[[Site], Sequence[str]] = lambda site: ()
    switched_off: Callable[[Mapping[str, object]], Sequence[str]] = lambda trees: ()
    inspect: Callable[[Site, str], Sequence[str]] = lambda site, program: ()

    def in_tested_range(self, version: Version) -> bool:
        """Whether the tests ran with this version, or with older and newer ones."""
        return self.tested[0] <= version <= self.tested[1]


def is_on(tree: object, *path: str) -> bool:
    """Whether a switch in a parsed file is true."""
    return value_at(tree, path) is True

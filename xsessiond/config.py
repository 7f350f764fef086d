"""What is in force: the administrator's and the user's settings in one frozen `Config`, each value with its place.

The first value wins: managed file, the session's launch (which the broker adds), user file, default. A file of which
it cannot be told what it says stands in its place with a value that holds, so that nothing below it gets through.

Laws: values in, values out; whatever is wrong is in `problems` and loosens nothing. Refuses to know: how files are
read, which sessions there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from xsessiond.core.admission import Setting
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.policy import CoreSettings, ProjectSettings, ShownValue
from xsessiond.core.setting_keys import KEYS, Key, find_key
from xsessiond.core.settings_text import FileSettings, Written
from xsessiond.core.toml_spots import Spot, write_key

Path = tuple[str, ...]

POLICIES: Mapping[str, Path] = {
    "inbound": ("inbound", "policy"),
    "outbound": ("outbound", "policy"),
    "scope": ("inbound", "scope"),
}
NOBODY_DECIDES = (
    "approvals.passphrase is true and no passphrase is set, so nobody can decide. "
    "Set one with `xsessionctl passphrase`."
)
UNREADABLE = "unreadable"
"""Shown where a value stands and cannot be read. It holds."""
STRICT: Mapping[Path, object] = {("approvals", "without_terminal"): False}
"""What holds where a file cannot be read; None for the others: no expiry, no command, and it cannot be told whether a
passphrase is wanted."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One file with its rank."""

    source: Literal["managed", "user"]
    file: FileSettings


@dataclass(frozen=True, slots=True)
class Config:
    """What is in force. Times are milliseconds.

    inbound, outbound, scope: for `CoreSettings`. hold_expiry_ms: None for never. assume_class, resume: by harness.
    passphrase: None where it cannot be told. notify: empty for none. shown: every setting. problems: sentences, errors
    first; ok: none of them is an error.
    """

    inbound: tuple[Setting, ...]
    outbound: tuple[Setting, ...]
    scope: tuple[Setting, ...]
    hold_expiry_ms: int | None
    assume_class: Mapping[str, str]
    resume: Mapping[str, tuple[str, ...]]
    without_terminal: bool
    passphrase: bool | None
    notify: tuple[str, ...]
    pacing: PaceSettings
    held_per_session: int
    offline_default: Literal["refuse", "queue"]
    keep_ms: int
    durability: Literal["full", "normal"]
    off: bool
    shown: tuple[ShownValue, ...]
    ok: bool
    problems: tuple[str, ...]


def merge_layers(layers: Sequence[Layer]) -> Config:
    """What the files mean together. layers: managed, user, those that there are."""
    found = _Found(layers)
    passphrase = found.first(("approvals", "passphrase"))
    expiry, keep, held = (
        found.first(path) for path in (("inbound", "hold_expiry"), ("offline", "keep"), ("pacing", "held_per_session"))
    )
    assert expiry is None or isinstance(expiry, int)
    assert isinstance(keep, int)
    assert isinstance(held, int)
    pace = {name: found.first(("pacing", name)) for name in PaceSettings.__struct_fields__}
    problems = sorted((problem for layer in layers for problem in layer.file.problems), key=lambda one: one.level)
    return Config(
        inbound=found.settings("inbound"),
        outbound=found.settings("outbound"),
        scope=found.settings("scope"),
        hold_expiry_ms=expiry,
        assume_class={name: str(meant) for name, meant in found.by_harness("assume_class")},
        resume={name: _words(meant) for name, meant in found.by_harness("resume")},
        without_terminal=found.first(("approvals", "without_terminal")) is True,
        passphrase=passphrase if isinstance(passphrase, bool) else None,
        notify=_words(found.first(("approvals", "notify"))),
        pacing=PaceSettings(**pace),  # type: ignore[arg-type]  # each was checked by its key's check
        held_per_session=held,
        offline_default="queue" if found.first(("offline", "default")) == "queue" else "refuse",
        keep_ms=keep,
        durability="normal" if found.first(("store", "durability")) == "normal" else "full",
        off=found.first(("sessions", "off")) is True,
        shown=tuple(found.shown()),
        ok=all(layer.file.ok for layer in layers),
        problems=tuple(map(str, problems)),
    )


def to_core(config: Config, *, has_passphrase: bool) -> CoreSettings:
    """What the core needs of it. has_passphrase: the user has set one, which is asked for where the settings cannot be
    read."""
    problems, ok = config.problems, config.ok
    if config.passphrase and not has_passphrase:
        problems, ok = (*problems, NOBODY_DECIDES), False
    return CoreSettings(
        pacing=config.pacing,
        keep_ms=config.keep_ms,
        offline_default=config.offline_default,
        inbound=config.inbound,
        outbound=config.outbound,
        scope=config.scope,
        hold_expiry_ms=config.hold_expiry_ms,
        held_per_session=config.held_per_session,
        assume_class=config.assume_class,
        resume=config.resume,
        without_terminal=config.without_terminal,
        passphrase=has_passphrase if config.passphrase is None else config.passphrase,
        passphrase_is_set=has_passphrase,
        notifies=bool(config.notify),
        off=config.off,
        shown=config.shown,
        config_ok=ok,
        config_problems=problems,
    )


def merge_project(files: Sequence[FileSettings], root: str | None) -> ProjectSettings:
    """What a project's files mean together: each tightens. root: the project's folder, None where there is none."""
    inbound, outbound, scope = (
        tuple(setting for file in files for setting in _of_file(file, "project", policy)) for policy in POLICIES
    )
    off = any(("sessions", "off") in file.values for file in files)
    return ProjectSettings(
        root, inbound, outbound, scope, off, tuple(str(one) for file in files for one in file.problems)
    )


def _of_file(file: FileSettings, source: Literal["managed", "user", "project"], policy: str) -> Iterator[Setting]:
    """The setting of a policy in a file, if it has one. Where something that could have decided it is wrong, it is
    unreadable, but a `refuse` stays: it is tighter than that."""
    written = file.values.get(POLICIES[policy])
    unclear = file.unclear.get(policy)
    if written is not None and (unclear is None or written.meant == "refuse"):
        yield Setting(str(written.meant), source, _place(file, written.spot))
    elif unclear is not None:
        yield Setting(None, source, _place(file, unclear))


def _place(file: FileSettings, spot: Spot) -> str:
    return f"{file.path}:{spot.line}"


def _words(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


class _Found:
    """The layers, to look things up in."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = layers

    def settings(self, policy: str) -> tuple[Setting, ...]:
        return tuple(setting for layer in self._layers for setting in _of_file(layer.file, layer.source, policy))

    def first(self, path: Path) -> object:
        """What a setting means; `STRICT` says what, where the first file that could have said it cannot be read."""
        key = find_key(path)
        assert key is not None
        found = self._find(path)
        if found is None:
            return None if key.default is None else key.check(key.default)
        written = found[1]
        return written.meant if isinstance(written, Written) else STRICT.get(path)

    def by_harness(self, what: str) -> list[tuple[str, object]]:
        """What is set for harnesses."""
        paths = dict.fromkeys(path for layer in self._layers for path in layer.file.values)
        return [(path[1], self.first(path)) for path in paths if path[0] == "harness" and path[2] == what]

    def _find(self, path: Path) -> tuple[Layer, Written | Spot] | None:
        """The first layer that says it, or of which it is unclear whether it does, with the place."""
        for layer in self._layers:
            written = layer.file.values.get(path)
            if written is not None:
                return layer, written
            unclear = layer.file.unclear.get(path[0])
            if unclear is not None:
                return layer, unclear
        return None

    def shown(self) -> Iterator[ShownValue]:
        for key in KEYS:
            if "*" not in key.path:
                yield self._show(key, key.path)
                continue
            for name, _ in self.by_harness(key.path[-1]):
                yield self._show(key, (key.path[0], name, key.path[2]))

    def _show(self, key: Key, path: Path) -> ShownValue:
        name = write_key(path)
        for policy, of in POLICIES.items():
            if of == path and (settings := self.settings(policy)):
                value = settings[0].value
                return ShownValue(name, UNREADABLE if value is None else value, settings[0].source, settings[0].where)
        found = self._find(path)
        if found is None:
            return ShownValue(name, None if key.default is None else as_shown(key.default), "default", None)
        layer, written = found
        if isinstance(written, Written):
            return ShownValue(name, as_shown(written.raw), layer.source, _place(layer.file, written.spot))
        return ShownValue(name, UNREADABLE, layer.source, _place(layer.file, written))


def as_shown(value: object) -> str:
    """A value as people read it: a text without its quotes, all else as in TOML."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

"""What we want to stand in a harness's file, and what of that stands there: compared by meaning, never by bytes.

What is ours is known by what it starts: a server called `xsession` that runs `xsessionctl mcp`, a hook that calls that
server or runs our hook program. What a user changed in an entry of ours stays, as long as it does not decide whether
the entry works: other timeouts, more variables, a narrower matcher.

Laws: nothing is touched that is not ours; one entry each, however often it is put in. Refuses to know: files, single
harnesses, how a text is changed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

from xsessionctl.harness.json_spans import BadText
from xsessionctl.harness.trees import Path, value_at

SERVER = "xsession"
"""What our MCP server is called in every harness. Its tools are called after it."""
PROGRAM = "xsessionctl"
HOOK_PROGRAM = "harness/hook.sh"
ESSENTIAL = frozenset(("type", "command", "args", "asyncRewake", "server", "tool", "input"))
"""What makes a hook do what it should. All else of it is its user's to change."""

Value = Mapping[str, object]


class Format(Protocol):
    """How a kind of file is read and changed: the modules `json_edit` and `toml_edit`. All raise BadText."""

    def parse(self, text: str) -> object:
        """What a text says."""

    def put(self, text: str, path: Path, value: object) -> str:
        """The text with the value at this path."""

    def append(self, text: str, path: Path, value: object) -> str:
        """The text with one more element in the list at this path."""

    def remove(self, text: str, path: Path) -> str:
        """The text without the value at this path."""


@dataclass(frozen=True)
class Server:
    """Our MCP server, as an object at `path`. value: what must stand in it."""

    path: Path
    value: Value

    @property
    def title(self) -> str:
        """For people."""
        return f"MCP server {SERVER}"

    def ways(self) -> list[Path]:
        """The objects that it stands in."""
        return [self.path[:depth] for depth in range(1, len(self.path))]

    def find_fault(self, tree: object) -> str | None:
        """What is wrong, None if it is as wanted: `missing`, or `outdated`. Raises BadText if another's has its
        name."""
        found = value_at(tree, self.path)
        if found is None:
            return "missing"
        if not is_our_server(found):
            raise BadText(f"it has a server {SERVER!r} that does not run {PROGRAM}")
        return "outdated" if list(_differences(found, self.value)) else None

    def put(self, form: Format, text: str) -> str:
        """The text with it."""
        found = value_at(form.parse(text), self.path)
        if found is None:
            return form.put(text, self.path, self.value)
        self.find_fault(form.parse(text))
        for path, value in _differences(found, self.value):
            text = form.put(text, (*self.path, *path), value)
        return text

    def remove(self, form: Format, text: str) -> str:
        """The text without it."""
        if is_our_server(value_at(form.parse(text), self.path)):
            return form.remove(text, self.path)
        return text


@dataclass(frozen=True)
class Element:
    """An element of ours in the list at `path`, which others have theirs in. is_ours tells which those are."""

    path: Path
    value: object
    title: str
    is_ours: Callable[[object], bool]

    def ways(self) -> list[Path]:
        """The list, and the objects that it stands in."""
        return [self.path[:depth] for depth in range(1, len(self.path) + 1)]

    def find_fault(self, tree: object) -> str | None:
        """What is wrong, None if it is as wanted: `missing`, or `outdated`."""
        found = self._ours(tree)
        if not found:
            return "missing"
        return None if [one for _, one in found] == [self.value] else "outdated"

    def put(self, form: Format, text: str) -> str:
        """The text with it, once."""
        if self.find_fault(form.parse(text)) is None:
            return text
        return form.append(self.remove(form, text), self.path, self.value)

    def remove(self, form: Format, text: str) -> str:
        """The text without any of ours."""
        for number, _ in reversed(self._ours(form.parse(text))):
            text = form.remove(text, (*self.path, number))
        return text

    def _ours(self, tree: object) -> list[tuple[int, object]]:
        found = value_at(tree, self.path)
        return [pair for pair in enumerate(found if isinstance(found, list) else ()) if self.is_ours(pair[1])]


class Handler(NamedTuple):
    """A hook of ours in a file: in which group of its event it is, where in that, and what it says."""

    group: int
    place: int
    value: Value


@dataclass(frozen=True)
class Hooks:
    """Our hooks, in the lists that `table` has by event, as Claude Code has them: `{event: [{matcher, hooks: […]}]}`.

    groups: what should be there for each event, with one handler of ours in each group. Of a handler, only what is in
    ESSENTIAL has to be as it is here.
    """

    groups: Mapping[str, Sequence[Value]]
    table: str = "hooks"

    @property
    def title(self) -> str:
        """For people."""
        return "hooks"

    def ways(self) -> list[Path]:
        """The object and the lists that they stand in; none where none are wanted."""
        return [(self.table, *event) for event in ((), *((event,) for event in self.groups)) if self.groups]

    def find_fault(self, tree: object) -> str | None:
        """What is wrong, None if they are as wanted: `missing`, or `outdated`."""
        ours = self._ours(tree)
        if not ours and self.groups:
            return "missing"
        events = ours.keys() | self.groups.keys()
        return "outdated" if any(any(self._compare(event, ours.get(event, []))) for event in events) else None

    def put(self, form: Format, text: str) -> str:
        """The text with them, each once. Ours that are not wanted any more go; what their user had added to one goes
        over to the one that comes in its place."""
        ours = self._ours(form.parse(text))
        for event in [*self.groups, *(ours.keys() - self.groups.keys())]:
            wrong, missing = self._compare(event, ours.get(event, []))
            text = self._take(form, text, event, wrong)
            for number, group in enumerate(missing):
                handler = _handler_of(group)
                if number < len(wrong):
                    kept = {key: one for key, one in wrong[number].value.items() if key not in ESSENTIAL}
                    handler = {**handler, **kept}
                text = form.append(text, (self.table, event), {**group, "hooks": [handler]})
        return text

    def remove(self, form: Format, text: str) -> str:
        """The text without any of ours."""
        for event, found in self._ours(form.parse(text)).items():
            text = self._take(form, text, event, found)
        return text

    def _take(self, form: Format, text: str, event: str, found: Sequence[Handler]) -> str:
        """Without these handlers, and without a group that has none left. Backwards, so that the numbers hold."""
        for group, place, _ in reversed(found):
            path = (self.table, event, group)
            handlers = value_at(form.parse(text), (*path, "hooks"))
            alone = isinstance(handlers, list) and len(handlers) == 1
            text = form.remove(text, path if alone else (*path, "hooks", place))
        return text

    def _compare(self, event: str, found: Sequence[Handler]) -> tuple[list[Handler], list[Value]]:
        """Which of ours are not wanted so, or not again; and which groups are wanted and not there."""
        missing = list(self.groups.get(event, ()))
        wrong = []
        for one in found:
            fits = [group for group in missing if _essence(_handler_of(group)) == _essence(one.value)]
            if fits:
                missing.remove(fits[0])
            else:
                wrong.append(one)
        return wrong, missing

    def _ours(self, tree: object) -> dict[str, list[Handler]]:
        """Those that are there, by event."""
        table = value_at(tree, (self.table,))
        found: dict[str, list[Handler]] = {}
        for event, groups in table.items() if isinstance(table, dict) else ():
            for number, group in enumerate(groups if isinstance(groups, list) else ()):
                handlers = group.get("hooks") if isinstance(group, dict) else None
                for place, handler in enumerate(handlers if isinstance(handlers, list) else ()):
                    if is_our_hook(handler):
                        found.setdefault(event, []).append(Handler(number, place, handler))
        return found


Entry = Server | Element | Hooks


def is_our_server(value: object) -> bool:
    """Whether an MCP server runs `xsessionctl mcp`, by whatever path and through whatever starter."""
    if not isinstance(value, dict):
        return False
    command, args = value.get("command"), value.get("args")
    words = [*(command if isinstance(command, list) else [command]), *(args if isinstance(args, list) else [])]
    return _runs(words, PROGRAM, "mcp")


def is_our_hook(value: object) -> bool:
    """Whether a hook calls our server or runs our hook program."""
    if not isinstance(value, dict):
        return False
    if value.get("type") == "mcp_tool":
        return value.get("server") == SERVER
    command, args = value.get("command"), value.get("args")
    if not isinstance(command, str):
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        return False  # ours are well formed
    words += args if isinstance(args, list) else []
    return _runs(words, PROGRAM, "hook") or any(str(word).endswith(f"{PROGRAM}/{HOOK_PROGRAM}") for word in words)


def _runs(words: Sequence[object], program: str, verb: str) -> bool:
    texts = [word if isinstance(word, str) else "" for word in words]
    return any(first.rpartition("/")[2] == program and second == verb for first, second in pairwise(texts))


def _handler_of(group: Value) -> Value:
    handlers = group["hooks"]
    assert isinstance(handlers, list)
    handler = handlers[0]
    assert isinstance(handler, dict)
    return handler


def _essence(handler: Value) -> Value:
    return {key: one for key, one in handler.items() if key in ESSENTIAL}


def _differences(found: object, wanted: Value) -> list[tuple[Path, object]]:
    """Where `found` says another thing than `wanted`, and what it should say. What it says besides does not count."""
    different: list[tuple[Path, object]] = []
    for name, value in wanted.items():
        has = found.get(name) if isinstance(found, dict) else None
        if isinstance(value, dict) and isinstance(has, dict):
            different += [((name, *path), part) for path, part in _differences(has, value)]
        elif has != value:
            different.append(((name,), value))
    return different

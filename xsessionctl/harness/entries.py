"""What we want to stand in a harness's file, and what of that stands there: compared by meaning, never by bytes.

What is ours is known by what it starts: a server called `xsession` that runs `xsessionctl mcp`, a hook that calls that
server or runs our hook program. What a user changed in an entry of ours stays, as long as it does not decide whether
the entry works: other timeouts, more variables, a narrower matcher.

Laws: nothing is touched that is not ours; one entry each, however often it is put in. Refuses to know: files, single
harnesses, how a text is changed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from xsessionctl.harness.json_spans import BadText, Path

SERVER = "xsession"
"""What our MCP server is called in every harness. Its tools are called after it."""
PROGRAM = "xsessionctl"
HOOK_PROGRAM = "harness/hook.sh"

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
class Hooks:
    """Our hooks, in the lists that `table` has by event, as Claude Code has them: `{event: [{matcher, hooks: […]}]}`.

    groups: what to add for each event, with one handler of ours each. essential: what of a handler must be as it is
    here.
    """

    groups: Mapping[str, Value]
    table: str = "hooks"
    essential: frozenset[str] = field(
        default=frozenset(("type", "command", "args", "asyncRewake", "server", "tool", "input"))
    )

    @property
    def title(self) -> str:
        """For people."""
        return f"{len(self.groups)} hooks"

    def ways(self) -> list[Path]:
        """The object and the lists that they stand in."""
        return [(self.table,), *((self.table, event) for event in self.groups)]

    def find_fault(self, tree: object) -> str | None:
        """What is wrong, None if they are as wanted: `missing`, or `outdated`."""
        ours = {event: [handler for _, _, handler in found] for event, found in self._ours(tree).items()}
        if not ours:
            return "missing"
        if ours.keys() != self.groups.keys():
            return "outdated"
        return "outdated" if any(not self._fits(event, handlers) for event, handlers in ours.items()) else None

    def put(self, form: Format, text: str) -> str:
        """The text with them, each once. Ours that are not wanted any more go."""
        for event, found in self._ours(form.parse(text)).items():
            if event not in self.groups:
                text = self._take(form, text, event, found)
                continue
            number, place, handler = found[0]
            text = self._take(form, text, event, found[1:])
            if not self._fits(event, [handler]):
                kept = {key: value for key, value in handler.items() if key not in self.essential}
                path = (self.table, event, number, "hooks", place)
                text = form.put(text, path, {**_handler_of(self.groups[event]), **kept})
        present = self._ours(form.parse(text))
        for event, group in self.groups.items():
            if event not in present:
                text = form.append(text, (self.table, event), group)
        return text

    def remove(self, form: Format, text: str) -> str:
        """The text without any of ours."""
        for event, found in self._ours(form.parse(text)).items():
            text = self._take(form, text, event, found)
        return text

    def _take(self, form: Format, text: str, event: str, found: list[tuple[int, int, Value]]) -> str:
        """Without these handlers, and without a group that has none left. Backwards, so that the numbers hold."""
        for number, place, _ in reversed(found):
            path = (self.table, event, number)
            handlers = value_at(form.parse(text), (*path, "hooks"))
            alone = isinstance(handlers, list) and len(handlers) == 1
            text = form.remove(text, path if alone else (*path, "hooks", place))
        return text

    def _fits(self, event: str, handlers: list[Value]) -> bool:
        wanted = _handler_of(self.groups[event])
        return len(handlers) == 1 and all(
            handlers[0].get(key) == wanted.get(key) for key in self.essential if key in wanted or key in handlers[0]
        )

    def _ours(self, tree: object) -> dict[str, list[tuple[int, int, Value]]]:
        """By event, where handlers of ours are: the group's number, the handler's in it, the handler."""
        table = value_at(tree, (self.table,))
        found: dict[str, list[tuple[int, int, Value]]] = {}
        for event, groups in table.items() if isinstance(table, dict) else ():
            for number, group in enumerate(groups if isinstance(groups, list) else ()):
                handlers = group.get("hooks") if isinstance(group, dict) else None
                for place, handler in enumerate(handlers if isinstance(handlers, list) else ()):
                    if is_our_hook(handler):
                        found.setdefault(event, []).append((number, place, handler))
        return found


Entry = Server | Hooks


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
        words = command.split()
    words += args if isinstance(args, list) else []
    return _runs(words, PROGRAM, "hook") or any(str(word).endswith(f"{PROGRAM}/{HOOK_PROGRAM}") for word in words)


def _runs(words: Sequence[object], program: str, verb: str) -> bool:
    texts = [word if isinstance(word, str) else "" for word in words]
    return any(first.rpartition("/")[2] == program and second == verb for first, second in pairwise(texts))


def value_at(tree: object, path: Path) -> object:
    """What stands there, None where nothing does."""
    for name in path:
        if isinstance(tree, dict):
            tree = tree.get(name)
        elif isinstance(tree, list) and isinstance(name, int) and name < len(tree):
            tree = tree[name]
        else:
            return None
    return tree


def _handler_of(group: Value) -> Value:
    handlers = group["hooks"]
    assert isinstance(handlers, list)
    handler = handlers[0]
    assert isinstance(handler, dict)
    return handler


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

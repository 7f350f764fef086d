"""Parsed files as plain values: what stands at a path, and what they say with or without it.

Laws: nothing is changed in place. Refuses to know: texts.
"""

from __future__ import annotations

Path = tuple[str | int, ...]
"""The keys and numbers that lead to a value."""


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


def with_value(tree: object, path: Path, value: object) -> object:
    """The tree with the value there. A list may grow by one; what is missing on the way is an object."""
    if not path:
        return value
    name, rest = path[0], path[1:]
    if isinstance(name, int):
        items = tree if isinstance(tree, list) else []
        below = items[name] if name < len(items) else {}
        return [*items[:name], with_value(below, rest, value), *items[name + 1 :]]
    members = tree if isinstance(tree, dict) else {}
    return {**members, name: with_value(members.get(name, {}), rest, value)}


def without(tree: object, path: Path) -> object:
    """The tree without what stands there, which must be something."""
    name, rest = path[0], path[1:]
    if isinstance(tree, dict):
        if rest:
            return {**tree, name: without(tree[name], rest)}
        return {key: one for key, one in tree.items() if key != name}
    assert isinstance(tree, list)
    assert isinstance(name, int)
    return [*tree[:name], *([without(tree[name], rest)] if rest else []), *tree[name + 1 :]]

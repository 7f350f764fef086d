"""xsessionctl.harness.json_edit: one change, and every other character where it was."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.json_texts import KEYS, VALUES, json_texts
from xsessionctl.harness.json_edit import append, parse, put, remove
from xsessionctl.harness.json_spans import BadText
from xsessionctl.harness.trees import Path, value_at, with_value

TEXTS = json_texts()
OURS = st.just({"command": "/x", "args": ["mcp"], "env": {}}) | VALUES


def fits(tree: object, path: Path) -> bool:
    """Whether all that is there on the way is an object."""
    for name in path:
        if not isinstance(tree, dict):
            return False
        if name not in tree:
            return True
        tree = tree[name]
    return True


def has(tree: object, path: Path) -> bool:
    """Whether something stands there, if only null."""
    for name in path:
        if not isinstance(tree, dict) or name not in tree:
            return False
        tree = tree[name]
    return True


@given(TEXTS)
def test_what_is_read_is_what_it_means(example: tuple[str, dict[str, object]]) -> None:
    text, value = example
    assert parse(text) == value


@pytest.mark.slow
@given(TEXTS, st.lists(KEYS, min_size=1, max_size=3), OURS)
def test_what_was_put_in_is_there_and_nothing_else_changed(
    example: tuple[str, dict[str, object]], keys: list[str], ours: object
) -> None:
    text, value = example
    path = tuple(keys)
    if fits(value, path):
        assert parse(put(text, path, ours)) == with_value(value, path, ours)
    else:
        with pytest.raises(BadText, match="an object was expected"):
            put(text, path, ours)


@pytest.mark.slow
@given(TEXTS, st.lists(KEYS, min_size=1, max_size=3), OURS)
def test_taking_out_undoes_putting_in(example: tuple[str, dict[str, object]], keys: list[str], ours: object) -> None:
    """I3: to the character, but for what an empty object looked like."""
    text, value = example
    path = tuple(keys)
    depth = next((n for n in range(1, len(path) + 1) if not has(value, path[:n])), None)
    assume(fits(value, path) and depth is not None)
    assert depth is not None
    made = put(text, path, ours)
    back = remove(made, path[:depth])
    assert parse(back) == value
    if not value or (depth > 1 and not value_at(value, path[: depth - 1])):
        assert comments_of(back) == comments_of(text)
    else:
        assert back == text


def comments_of(text: str) -> list[str]:
    found = re.findall(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', text, re.DOTALL)
    return [one.strip() for one in found if not one.startswith('"')]


@pytest.mark.slow
@given(json_texts(), st.integers(0, 3), OURS)
def test_lists_grow_at_their_end_and_shrink_back(
    example: tuple[str, dict[str, object]], which: int, ours: object
) -> None:
    text, value = example
    lists = [key for key, one in value.items() if isinstance(one, list)]
    assume(lists)
    key = lists[which % len(lists)]
    old = value[key]
    assert isinstance(old, list)
    made = append(text, (key,), ours)
    assert parse(made) == {**value, key: [*old, ours]}
    back = remove(made, (key, len(old)))
    assert parse(back) == value
    assert back == text if old else comments_of(back) == comments_of(text)


@given(TEXTS, st.integers(0, 9))
def test_what_is_taken_out_takes_no_comment_of_others_along(example: tuple[str, dict[str, object]], which: int) -> None:
    text, value = example
    assume(value)
    key = list(value)[which % len(value)]
    made = remove(text, (key,))
    assert parse(made) == {name: one for name, one in value.items() if name != key}
    # those inside of what went go with it
    outside = comments_of(text)
    for comment in comments_of(made):
        assert comment in outside
        outside.remove(comment)
    inside = sum(len(comment) for comment in outside)
    assert inside <= len(text) - len(made)


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("", '{\n  "s": {\n    "x": 1\n  }\n}\n'),
        ("{}", '{\n  "s": {\n    "x": 1\n  }\n}'),
        ("// mine\n", '// mine\n{\n  "s": {\n    "x": 1\n  }\n}\n'),
        ('{"a":1}', '{"a":1, "s":{"x": 1}}'),
        ('{ "a": 1 }\n', '{ "a": 1, "s": {"x": 1} }\n'),
        ('{\n\t"a": 1\n}\n', '{\n\t"a": 1,\n\t"s": {\n\t\t"x": 1\n\t}\n}\n'),
        ('{\r\n    "a": 1\r\n}', '{\r\n    "a": 1,\r\n    "s": {\r\n        "x": 1\r\n    }\r\n}'),
        ('{\n  "a": 1, // one\n  // two\n}', '{\n  "a": 1, // one\n  "s": {\n    "x": 1\n  },\n  // two\n}'),
        ('{\n  "a": 1 // one\n}', '{\n  "a": 1, // one\n  "s": {\n    "x": 1\n  }\n}'),
        ('{\n  "s": {}\n}', '{\n  "s": {\n    "x": 1\n  }\n}'),
        ('{\n  "s": {\n    // none\n  }\n}', '{\n  "s": {\n    // none\n    "x": 1\n  }\n}'),
        ('{\n  "s": { "x": 0, "y": 2 }\n}', '{\n  "s": { "x": 1, "y": 2 }\n}'),
    ],
)
def test_it_looks_like_its_neighbours(text: str, wanted: str) -> None:
    assert put(text, ("s", "x"), 1) == wanted


@pytest.mark.parametrize(
    "text, why",
    [
        ('{"a": 1', "line 1, column 8"),
        ("{,}", "line 1, column 2"),
        ('{"a": 1,,}', "line 1, column 9"),
        ("[1, 2]", "an object was expected"),
        ('{"s": [1]}', "line 1: an object was expected"),
        ('{"s": {}, "s": {}}', 'the key "s" stands there twice'),
        ('{"a": NaN}', "NaN is no JSON"),
        ("[" * 100_000, "nested too deep"),
        ('{"a": "b\nc"}', "Invalid control character"),
        ("/* open", "line 1, column 1"),
    ],
)
def test_what_cannot_be_changed_safely_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadText, match=re.escape(why)):
        put(text, ("s", "x"), 1)


def test_a_large_file_takes_no_time() -> None:
    """Claude Code's own file grows by all that was ever typed."""
    tree = {"projects": {f"/p{n}": {"history": [{"display": "x" * 60}] * 50} for n in range(500)}, "mcpServers": {}}
    text = json.dumps(tree, indent=2)
    assert len(text) > 2_000_000
    made = put(text, ("mcpServers", "xsession"), {"command": "/x"})
    assert remove(made, ("mcpServers", "xsession")) == text

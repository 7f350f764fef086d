"""xsessionctl.harness.toml_edit: one table, and every other character where it was."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.toml_texts import PARTS, SCALARS, toml_texts
from xsessionctl.harness.json_spans import BadText
from xsessionctl.harness.toml_edit import append, parse, put, remove
from xsessionctl.harness.trees import Path, value_at, with_value

SERVER = {"command": "/x y/xsessionctl", "args": ["mcp"], "env": {"CODEX_HOME": "/h"}}
GROUP = {"matcher": "", "hooks": [{"type": "mcp_tool", "input": {"event": "${e}"}}, {"type": "command"}]}
TABLES = st.just(SERVER) | st.dictionaries(PARTS, SCALARS, max_size=3)


@given(toml_texts(), st.lists(PARTS, min_size=1, max_size=3), TABLES)
def test_taking_out_undoes_putting_in(
    example: tuple[str, dict[str, object]], keys: list[str], ours: dict[str, object]
) -> None:
    """I3: to the character, but for the end of a last line that had none."""
    text, value = example
    path: Path = tuple(keys)
    way = [value_at(value, path[:depth]) for depth in range(1, len(path) + 1)]
    assume(way[-1] is None)
    try:
        made = put(text, path, ours)
    except BadText:
        return
    assert parse(made) == with_value(value, path, ours)
    if all(isinstance(one, dict) for one in way[:-1] if one is not None) and made.startswith(text):
        back = remove(made, path)
        assert back in (text, text + "\n", text + "\r\n")


@given(toml_texts(), TABLES)
def test_tables_go_to_the_end_of_an_array(example: tuple[str, dict[str, object]], ours: dict[str, object]) -> None:
    text, value = example
    assume("hooks" not in value)
    made = text
    for count in range(1, 4):
        made = append(made, ("hooks", "Stop"), {**ours, "n": count})
    assert parse(made) == {**value, "hooks": {"Stop": [{**ours, "n": count} for count in (1, 2, 3)]}}
    for gone in (1, 0, 0):
        made = remove(made, ("hooks", "Stop", gone))
    assert parse(made) == value
    assert made in (text, text + "\n", text + "\r\n")


@given(toml_texts(), st.integers(0, 9))
def test_any_value_can_be_taken_out_or_says_that_it_cannot(example: tuple[str, dict[str, object]], which: int) -> None:
    text, value = example
    assume(value)
    key = list(value)[which % len(value)]
    try:
        made = remove(text, (key,))
    except BadText:
        return
    assert tomllib.loads(made) == {name: one for name, one in value.items() if name != key}


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("", '[s.x]\nc = "y"\n'),
        ("a = 1", 'a = 1\n\n[s.x]\nc = "y"\n'),
        ("a = 1\r\n", 'a = 1\r\n\r\n[s.x]\r\nc = "y"\r\n'),
        ("[s]\n# none\n\n[t]\n", '[s]\n# none\n\n[t]\n\n[s.x]\nc = "y"\n'),
        ("[s.y]\nc = 1 # mine\n", '[s.y]\nc = 1 # mine\n\n[s.x]\nc = "y"\n'),
        ('s.y.c = 1\nm = "z"\n', 's.y.c = 1\nm = "z"\n\n[s.x]\nc = "y"\n'),
        ("s = { y = { c = 1 } } # all\nz = 1\n", 's = { y = { c = 1 }, x = { c = "y" } } # all\nz = 1\n'),
        ("[s]\nx = { c = 1, d = 2 }\n", '[s]\nx = { c = "y", d = 2 }\n'),
        ('[s.x]\nc = "z"  # path\nd = 2\n[t]\n', '[s.x]\nc = "y"  # path\nd = 2\n[t]\n'),
        ('[s]\nx.c = "z"\n', '[s]\nx.c = "y"\n'),
    ],
)
def test_where_it_goes(text: str, wanted: str) -> None:
    if value_at(parse(text), ("s", "x")) is None:
        assert put(text, ("s", "x"), {"c": "y"}) == wanted
    else:
        assert put(text, ("s", "x", "c"), "y") == wanted


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("a = 1\n\n[s.x]\nc = 1\n\n[t]\nd = 1\n", "a = 1\n\n[t]\nd = 1\n"),
        ("a = 1\n[s.x]\nc = 1\n# about t\n[t]\nd = 1\n", "a = 1\n# about t\n[t]\nd = 1\n"),
        ("[s.x]\nc = 1\n[s.x.env]\nE = 1\n[t]\n[s.x.more]\ny = 1\n", "[t]\n"),
        ("s.x.c = 1\ns.x.d = 2 # two\nb = 1\n", "b = 1\n"),
        ("[s]\nx = { c = 1 }\ny = 1\n", "[s]\ny = 1\n"),
        ("s = { x = { c = 1 }, y = 1 }\n", "s = { y = 1 }\n"),
        ("s = { y = 1, x = { c = 1 } }\n", "s = { y = 1 }\n"),
        ("[s.xx]\nc = 1\n", "[s.xx]\nc = 1\n"),
    ],
)
def test_what_goes(text: str, wanted: str) -> None:
    assert remove(text, ("s", "x")) == wanted


def test_a_handler_among_others_goes_alone() -> None:
    text = append(append("", ("hooks", "Stop"), GROUP), ("hooks", "Stop"), GROUP)
    assert parse(text) == {"hooks": {"Stop": [GROUP, GROUP]}}
    made = remove(text, ("hooks", "Stop", 1, "hooks", 0))
    assert parse(made) == {"hooks": {"Stop": [GROUP, {**GROUP, "hooks": [{"type": "command"}]}]}}
    assert remove(text, ("hooks", "Stop", 2)) == text


@pytest.mark.parametrize(
    "text", ["hooks = { Stop = [] }\n", "hooks.Stop = [ { matcher = 1 } ]\n", "[hooks]\nStop = [{ matcher = '' }]\n"]
)
def test_an_array_in_brackets_is_left_alone(text: str) -> None:
    with pytest.raises(BadText, match=r"hooks.Stop is no array of \[\[tables\]\]"):
        append(text, ("hooks", "Stop"), GROUP)


def test_what_cannot_be_parsed_is_refused() -> None:
    with pytest.raises(BadText, match="Invalid value"):
        put("a = ", ("s",), {})
    with pytest.raises(BadText, match="nested too deep"):
        parse("a = " + "[" * 100_000)
    with pytest.raises(BadText, match=r"s\.x cannot be put in there"):
        put("s = 1\n", ("s", "x"), {"c": 1})

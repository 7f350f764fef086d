"""Changing one value: the rest of the text is the user's, to the last blank."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.toml_texts import PARTS, toml_texts
from xsessiond.core.settings_edit import EditFailed, remove_value, set_value

POLICY = ("inbound", "policy")
CLASS = ("harness", "gemini", "assume_class")

CASES: list[tuple[str, tuple[str, ...], str]] = [
    ("", POLICY, '[inbound]\npolicy = "hold"\n'),
    ("# mine\n", POLICY, '# mine\n\n[inbound]\npolicy = "hold"\n'),
    ("[store]\nx = 1", POLICY, '[store]\nx = 1\n\n[inbound]\npolicy = "hold"\n'),
    ("[inbound]\npolicy = 'accept'  # why\n# end", POLICY, '[inbound]\npolicy = "hold"  # why\n# end'),
    ("[inbound]\r\npolicy='accept'\r\n", POLICY, '[inbound]\r\npolicy="hold"\r\n'),
    ("[inbound]\r\n[store]\r\n", POLICY, '[inbound]\r\npolicy = "hold"\r\n[store]\r\n'),
    ("[inbound] # m\n  x = 1 # s\n\n# b\n[b]\n", POLICY, '[inbound] # m\n  x = 1 # s\n  policy = "hold"\n\n# b\n[b]\n'),
    ("[inbound]", POLICY, '[inbound]\npolicy = "hold"\n'),
    ("[inbound]\na=[\n 1, # a\n] # b\n", POLICY, '[inbound]\na=[\n 1, # a\n] # b\npolicy = "hold"\n'),
    ("[inbound]\n\ta='''\n x'''\n", POLICY, "[inbound]\n\ta='''\n x'''\n\tpolicy = \"hold\"\n"),
    ("inbound = {}\n", POLICY, 'inbound = { policy = "hold" }\n'),
    ("inbound = {scope='x'} # x\n", POLICY, "inbound = {scope='x', policy = \"hold\" } # x\n"),
    ("inbound = { policy = 'accept', scope='x' }\n", POLICY, "inbound = { policy = \"hold\", scope='x' }\n"),
    ("inbound.scope = 'x'\na = 1\n", POLICY, "inbound.scope = 'x'\ninbound.policy = \"hold\"\na = 1\n"),
    ("[inbound.x]\ny = 1\n", POLICY, '[inbound.x]\ny = 1\n\n[inbound]\npolicy = "hold"\n'),
    ("[harness]\ngemini.resume=['x']\n", CLASS, "[harness]\ngemini.resume=['x']\ngemini.assume_class = \"hold\"\n"),
    ("[harness]\ngemini={resume=['x']}\n", CLASS, "[harness]\ngemini={resume=['x'], assume_class = \"hold\" }\n"),
    ("harness = {gemini={a=1}}\n", CLASS, 'harness = {gemini={a=1, assume_class = "hold" }}\n'),
    ("harness = {codex={}}\n", CLASS, 'harness = {codex={}, gemini.assume_class = "hold" }\n'),
    ("[harness.codex]\na=1\n", ("harness", "my cli", "a"), '[harness.codex]\na=1\n\n[harness."my cli"]\na = "hold"\n'),
]  # fmt: skip


@pytest.mark.parametrize("text, path, wanted", CASES, ids=[row[0] for row in CASES])
def test_a_value_goes_where_a_person_would_put_it(text: str, path: tuple[str, ...], wanted: str) -> None:
    assert set_value(text, path, '"hold"') == wanted
    assert set_value(wanted, path, '"hold"') == wanted


@given(toml_texts(), PARTS, PARTS, st.sampled_from(['"x"', "true", "3", '["a", "b"]']))
def test_nothing_else_changes(example: tuple[str, Mapping[str, object]], table: str, key: str, value: str) -> None:
    """Every old line stands in the new text in its old order, or nothing is changed at all."""
    text, before = example
    wanted = {name: dict(old) if isinstance(old, dict) else old for name, old in before.items()}
    old = wanted.setdefault(table, {})
    try:
        changed = set_value(text, (table, key), value)
    except EditFailed:
        return
    assert isinstance(old, dict)
    old[key] = tomllib.loads(f"x = {value}")["x"]
    assert tomllib.loads(changed) == wanted
    comments = [line for line in text.split("\n") if line.strip().startswith("#")]
    assert [line for line in changed.split("\n") if line.strip().startswith("#")][: len(comments)] == comments
    if "\r\n" in text:
        assert changed.replace("\r\n", "").count("\n") == text.replace("\r\n", "").count("\n")


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("[inbound]\npolicy='x' # c\nscope = 1\n", "[inbound]\nscope = 1\n"),
        ("[inbound]\npolicy='x'", "[inbound]\n"),
        ("[inbound]\nscope = 1\n", "[inbound]\nscope = 1\n"),
        ("inbound.policy = '''\n\n'''\r\na = 1\r\n", "a = 1\r\n"),
        ("", ""),
        ("inbound = 3\n", "inbound = 3\n"),
    ],
)
def test_a_value_is_taken_out_with_its_line(text: str, wanted: str) -> None:
    assert remove_value(text, POLICY) == wanted


def test_what_cannot_be_done_is_refused() -> None:
    for text in ("inbound = 3\n", "[[inbound]]\nx = 1\n"):
        with pytest.raises(EditFailed, match="inbound is no table there"):
            set_value(text, POLICY, '"hold"')
    with pytest.raises(EditFailed, match="Change the file by hand"):
        set_value("[inbound.policy]\nx = 1\n", POLICY, '"hold"')
    with pytest.raises(EditFailed, match="Remove it by hand"):
        remove_value("inbound = { policy = 'x' }\n", POLICY)
    with pytest.raises(EditFailed, match="Remove it by hand"):
        remove_value("[inbound.policy]\nx = 1\n", POLICY)
    with pytest.raises(EditFailed, match="cannot be put in there"):
        set_value("x = nan\n", POLICY, '"hold"')  # which is not equal to itself: it cannot be told that it stayed
    with pytest.raises(tomllib.TOMLDecodeError):
        set_value("[inbound", POLICY, '"hold"')

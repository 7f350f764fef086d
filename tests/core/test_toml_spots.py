"""Where things stand in a TOML text: what is found is what `tomllib` means, at the place where it is written."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.toml_texts import toml_texts
from xsessiond.core.toml_spots import START, Spot, find_entries, read_key, spot_of, spot_of_error, write_key

TEXT = '''\
a = 1 # x
"b c".'d' = """x"""""
[ harness . "ge\\u006dini" ]
x = { y = [1, {z = 2}], "q.r" = 'v' } # c
d = 1979-05-27 07:32:00
w.v = 5  \t
s = "a#b\\"]"
m = [ # comment ]
 1, "]",
]
[[arr."]"]] # ]
k = true
'''


def leaves(table: Mapping[str, object], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Every value below tables and, without numbers, below arrays."""
    for name, value in table.items():
        yield from _leaves_of(value, (*above, name))


def _leaves_of(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    if isinstance(value, dict):
        yield from leaves(value, path)
    else:
        yield path, value
        for item in value if isinstance(value, list) else ():
            if isinstance(item, dict | list):
                yield from ((where, found) for where, found in _leaves_of(item, path) if where != path)


def test_every_key_is_found_where_it_stands() -> None:
    found = {}
    for entry in find_entries(TEXT):
        found.setdefault(entry.path, spot_of(TEXT, entry.key))
    assert found == {
        ("a",): (1, 1),
        ("b c",): (2, 1),
        ("b c", "d"): (2, 7),
        ("harness",): (3, 3),
        ("harness", "gemini"): (3, 13),
        ("harness", "gemini", "x"): (4, 1),
        ("harness", "gemini", "x", "y"): (4, 7),
        ("harness", "gemini", "x", "y", "z"): (4, 16),
        ("harness", "gemini", "x", "q.r"): (4, 25),
        ("harness", "gemini", "d"): (5, 1),
        ("harness", "gemini", "w"): (6, 1),
        ("harness", "gemini", "w", "v"): (6, 3),
        ("harness", "gemini", "s"): (7, 1),
        ("harness", "gemini", "m"): (8, 1),
        ("arr",): (11, 3),
        ("arr", "]"): (11, 7),
        ("arr", "]", "k"): (12, 1),
    }


def test_values_are_cut_out_exactly() -> None:
    values = {entry.path[-1]: TEXT[slice(*entry.value)] for entry in find_entries(TEXT) if entry.value}
    assert values["a"] == "1"
    assert values["d"] == "1979-05-27 07:32:00"
    assert values["v"] == "5"
    assert values["s"] == '"a#b\\"]"'
    assert values["m"] == '[ # comment ]\n 1, "]",\n]'
    assert values["x"] == "{ y = [1, {z = 2}], \"q.r\" = 'v' }"


@given(toml_texts())
def test_what_is_found_is_what_it_means(example: tuple[str, Mapping[str, object]]) -> None:
    """C3: no key of any table hides from being told with its place."""
    text, table = example
    assert tomllib.loads(text) == table
    found = [
        (entry, tomllib.loads("x = " + text[slice(*entry.value)])["x"]) for entry in find_entries(text) if entry.value
    ]
    assert {path for path, _ in leaves(table)} <= {entry.path for entry in find_entries(text)}
    for entry, value in found:
        line, column = spot_of(text, entry.key)
        assert text.split("\n")[line - 1][column - 1 :].startswith(text[entry.key : entry.key + 1])
        if not entry.inline and not isinstance(value, dict):
            assert (entry.path, value) in list(leaves(table))


@pytest.mark.parametrize(
    "text, said, spot",
    [
        ("[inbound", "Expected ']'", Spot(1, 9)),
        ("\n\nx = \n", "Invalid value", Spot(3, 5)),
        ("a = 1\na = 2\n", "Cannot overwrite a value", Spot(2, 6)),
        ('x = """\n\n', "Unterminated string", Spot(3, 1)),
    ],
)
def test_errors_have_their_place(text: str, said: str, spot: Spot) -> None:
    """C1."""
    with pytest.raises(tomllib.TOMLDecodeError) as caught:
        tomllib.loads(text)
    found, where = spot_of_error(text, caught.value)
    assert found.startswith(said)
    assert " (at " not in found
    assert where == spot


def test_an_error_without_a_place_is_one_of_the_whole_text() -> None:
    assert spot_of_error("", tomllib.TOMLDecodeError("Odd.")) == ("Odd.", START)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x7f")), min_size=1, max_size=4))
def test_keys_are_read_as_they_were_written(path: list[str]) -> None:
    assert read_key(write_key(tuple(path))) == tuple(path)


@pytest.mark.parametrize("text", ["", "a.", "a b", "a=1", "a\nb", "[a]", "a = 1\nb", "'", "a = {b = 0}\nc"])
def test_what_is_no_key_names_nothing(text: str) -> None:
    assert read_key(text) is None


def test_names_are_quoted_only_where_needed() -> None:
    assert write_key(("harness", "my cli", "assume_class")) == 'harness."my cli".assume_class'

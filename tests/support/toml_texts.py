"""TOML texts as people write them, for hypothesis: the same tables with headers, dotted keys, braces and odd quotes."""

from __future__ import annotations

import json
from collections.abc import Mapping

import tomli_w
from hypothesis import strategies as st

PARTS = st.sampled_from(["inbound", "policy", "a", "b-c", "1", "ä ö", 'q"', "d.e", "x]y", "#", "'", ""])
TEXTS = st.text(st.sampled_from("ab \"'#[]{}=,\\\té\n"), max_size=8)
SCALARS = st.booleans() | st.integers(-(10**9), 10**9) | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PARTS, inner, max_size=3),
    max_leaves=6,
)
TABLES = st.dictionaries(PARTS, VALUES, max_size=4)
SPACE = st.sampled_from(["", " ", "\t ", "  "])
TAIL = st.sampled_from(["", " ", ' # policy = "hold"', "\t# ]}'''"])


@st.composite
def toml_texts(draw: st.DrawFn) -> tuple[str, Mapping[str, object]]:
    """A text and what it means."""
    table = draw(TABLES)
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    if draw(st.booleans()):
        return tomli_w.dumps(table, multiline_strings=draw(st.booleans())), table
    lines: list[str] = []
    headers: list[tuple[str, Mapping[str, object]]] = []
    value: object
    for key, value in table.items():
        if isinstance(value, dict) and draw(st.booleans()):
            headers.append((key, value))
        elif isinstance(value, dict) and value and draw(st.booleans()):
            lines += [
                _pair(draw, f"{_name(draw, key)}{draw(SPACE)}.{draw(SPACE)}{_name(draw, k)}", v)
                for k, v in value.items()
            ]
        else:
            lines.append(_pair(draw, _name(draw, key), value))
    for key, below in headers:
        lines += draw(st.sampled_from([[], [""], ["# about it", ""]]))
        lines.append(f"{draw(SPACE)}[{draw(SPACE)}{_name(draw, key)}{draw(SPACE)}]{draw(TAIL)}")
        lines += [_pair(draw, _name(draw, k), v) for k, v in below.items()]
    return newline.join(lines) + draw(st.sampled_from(["", newline])), table


def _pair(draw: st.DrawFn, name: str, value: object) -> str:
    return f"{draw(SPACE)}{name}{draw(SPACE)}={draw(SPACE)}{_value(draw, value)}{draw(TAIL)}"


def _name(draw: st.DrawFn, part: str) -> str:
    forms = [_quoted(part)]
    if part and part.isascii() and part.replace("-", "").isalnum():
        forms.append(part)
    if "'" not in part:
        forms.append(f"'{part}'")
    return draw(st.sampled_from(forms))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _value(draw: st.DrawFn, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        forms = [_quoted(value), '"""' + _quoted(value)[1:-1] + '"""']
        if not set("'\n") & set(value):
            forms.append(f"'{value}'")
        if "'" not in value and not value.startswith("\n"):
            forms.append(f"'''{value}'''")
        return draw(st.sampled_from(forms))
    if isinstance(value, list):
        between = draw(st.sampled_from([", ", ",\n  ", ", # ]\n"]))
        return "[" + between.join(_value(draw, item) for item in value) + draw(st.sampled_from(["", "\n"])) + "]"
    assert isinstance(value, dict)
    return "{ " + ", ".join(f"{_name(draw, k)} = {_value(draw, v)}" for k, v in value.items()) + " }"

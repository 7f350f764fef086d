"""JSON texts as people write them, for hypothesis: with comments, trailing commas, odd spaces, and what they mean."""

from __future__ import annotations

import json

from hypothesis import strategies as st

KEYS = st.sampled_from(["hooks", "mcpServers", "a", "b c", "//", "/*", '"', "\\", "ä", "", "}", ","])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.text(st.sampled_from('ab "\\{}[],:/*\té\U0001f600'), max_size=6)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
COMMENTS = ("/* } */", "/* , */", '// "x": {\n', "//\n", "/*\n * /\n*/")


@st.composite
def json_texts(draw: st.DrawFn, *, comments: bool = True) -> tuple[str, dict[str, object]]:
    """A text and what it means."""
    value: dict[str, object] = dict(draw(OBJECTS))
    if draw(st.booleans()):
        indent = draw(st.sampled_from([None, 0, 1, 2, 4, "\t"]))
        text = json.dumps(value, indent=indent, ensure_ascii=draw(st.booleans()))
        text += draw(st.sampled_from(["", "\n"]))
    else:
        text = _gap(draw, comments=comments) + _write(draw, value, comments=comments) + _gap(draw, comments=comments)
    return (text.replace("\n", "\r\n") if draw(st.booleans()) else text), value


def _write(draw: st.DrawFn, value: object, *, comments: bool) -> str:
    def gap() -> str:
        return _gap(draw, comments=comments)

    def joined(parts: list[str]) -> str:
        inside = ",".join(gap() + part + gap() for part in parts)
        return inside + ("," + gap() if parts and comments and draw(st.booleans()) else "") if parts else gap()

    if isinstance(value, dict):
        parts = [f"{json.dumps(k)}{gap()}:{gap()}{_write(draw, v, comments=comments)}" for k, v in value.items()]
        return "{" + joined(parts) + "}"
    if isinstance(value, list):
        return "[" + joined([_write(draw, part, comments=comments) for part in value]) + "]"
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


def _gap(draw: st.DrawFn, *, comments: bool) -> str:
    pieces = ["", "", " ", "\n", "\n  ", "\t", "\n\t\t", *(COMMENTS if comments else ())]
    return "".join(draw(st.lists(st.sampled_from(pieces), max_size=2)))

"""xsessionctl.codec: the C module says what `json` says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsessionctl.codec import decode, encode, encode_ascii

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.slow
@given(VALUES)
def test_encoding_is_that_of_json(value: object) -> None:
    assert encode(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert encode_ascii(value) == json.dumps(value, separators=(",", ":"))
    assert encode_ascii(value).isascii()


@pytest.mark.slow
@given(VALUES)
def test_decoding_is_that_of_json(value: object) -> None:
    assert decode(json.dumps(value)) == value
    assert decode(f" \n{json.dumps(value, indent=1)}\r\n") == value


@pytest.mark.parametrize("text", ["", " ", "{", "[1,]", "{}{}", "NaN", "Infinity", "nul", '"\n"', "[" * 5, "'a'"])
def test_what_is_not_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        decode(text)


def test_what_has_no_json_form_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="a set has no form in JSON"):
        encode({"a": {1}})

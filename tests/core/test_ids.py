"""Identities: how they are written and told apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsessiond.core.ids import is_message_id, is_session_id, message_id_from, ref_digits, session_id_from


@given(st.binary(min_size=16, max_size=16))
def test_sixteen_bytes_make_an_id(entropy: bytes) -> None:
    session, message = session_id_from(entropy), message_id_from(entropy)
    assert (session, message) == ("s-" + entropy.hex(), "m-" + entropy.hex())
    assert is_session_id(session)
    assert is_message_id(message)
    assert not is_session_id(message)
    assert not is_message_id(session)
    assert ref_digits(session) == entropy.hex()


@pytest.mark.parametrize("make", [session_id_from, message_id_from])
@pytest.mark.parametrize("size", [0, 15, 17])
def test_other_sizes_are_our_own_bug(make: object, size: int) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=f"16 bytes, not {size}"):
        make(bytes(size))


@pytest.mark.parametrize(
    "text",
    ["", "s-", "0" * 32, "s-" + "0" * 31, "s-" + "0" * 33, "s-" + "A" * 32, "x-" + "0" * 32, "s-" + "0" * 32 + "\n"],
)
def test_nothing_else_is_an_id(text: str) -> None:
    assert not is_session_id(text)
    assert not is_message_id(text.replace("s-", "m-"))

"""xsessionctl.lean: the C modules say what `json` and `socket` say."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsessionctl.lean import connect_unix, decode, encode, encode_ascii, limit_wait, peer_uid

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_encoding_is_that_of_json(value: object) -> None:
    assert encode(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert encode_ascii(value) == json.dumps(value, separators=(",", ":"))
    assert encode_ascii(value).isascii()


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


def test_connecting_finds_out_who_listens(short_dir: Path) -> None:
    path = str(short_dir / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        link = connect_unix(path, monotonic() + 10)
        assert peer_uid(link) == os.geteuid()
        link.close()


def test_a_full_backlog_is_waited_for(short_dir: Path) -> None:
    path = str(short_dir / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        waiting = [connect_unix(path, monotonic() + 10)]  # as many as the kernel takes without an accept
        try:
            while True:
                waiting.append(connect_unix(path, monotonic() + 0.1))
        except TimeoutError:
            pass
        accepted: list[socket.socket] = []
        thread = threading.Thread(target=lambda: accepted.extend(listener.accept()[0] for _ in range(len(waiting) + 1)))
        thread.start()
        waiting.append(connect_unix(path, monotonic() + 10))
        thread.join(10)
        for link in (*waiting, *accepted):
            link.close()


def test_connecting_to_nobody_is_told_as_it_is(short_dir: Path) -> None:
    with pytest.raises(FileNotFoundError):
        connect_unix(str(short_dir / "s"), monotonic() + 10)


def test_a_deadline_that_is_over_is_a_timeout() -> None:
    first, second = socket.socketpair()
    with first, second, pytest.raises(TimeoutError):
        limit_wait(first, monotonic() - 1)

"""Identities: what a session and a message are called for ever.

Laws: an id is 128 random bits, written `s-` or `m-` and 32 lower-case hex digits, and never reused. A ref is the
first hex digits of a session id. Only this module knows how they are written.
Refuses to know: where the bits come from, and how many digits make a ref unique (the roster does).
"""

from __future__ import annotations

import re
from typing import Final, NewType

SessionId = NewType("SessionId", str)
"""`s-` and 32 hex digits."""
MessageId = NewType("MessageId", str)
"""`m-` and 32 hex digits."""

ID_BYTES: Final = 16
"""Random bytes in an id."""

_is_session_id = re.compile(r"s-[0-9a-f]{32}").fullmatch
_is_message_id = re.compile(r"m-[0-9a-f]{32}").fullmatch


def session_id_from(entropy: bytes) -> SessionId:
    """The session id for 16 random bytes. ValueError for any other number of bytes."""
    return SessionId("s-" + _hex_of(entropy))


def message_id_from(entropy: bytes) -> MessageId:
    """The message id for 16 random bytes. ValueError for any other number of bytes."""
    return MessageId("m-" + _hex_of(entropy))


def is_session_id(text: str) -> bool:
    """Whether this is a whole session id, written as we write it."""
    return _is_session_id(text) is not None


def is_message_id(text: str) -> bool:
    """Whether this is a whole message id, written as we write it."""
    return _is_message_id(text) is not None


def ref_digits(session_id: SessionId) -> str:
    """The 32 hex digits of a session id; each of its refs is a beginning of them."""
    return session_id[2:]


def _hex_of(entropy: bytes) -> str:
    if len(entropy) != ID_BYTES:
        raise ValueError(f"an id is made of {ID_BYTES} bytes, not {len(entropy)}")
    return entropy.hex()

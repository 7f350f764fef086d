"""Bodies: what may be sent.

Laws: whether a value is a text that may be sent is decided only here. A body is plain text for a reader. Control
sequences of a terminal are let through, because pasted output has them and they are made inert where they are shown;
what makes a text a binary file, or an order of a harness's own team protocol, is refused.
Refuses to know: how long a body may be (the frame decides), who sends it, how it is shown.
"""

from __future__ import annotations

from typing import Final

from xsessiond.core.errors import Refusal

_TEXT_BYTES: Final = bytes({*range(0x20, 0x100), *b"\a\b\t\n\v\f\r\x1b"})
"""What may be in a body's UTF-8. DEL and C1 too: a mis-decoded quotation mark is no reason to refuse."""

_BLANK: Final = (
    "\a\b\t\n\v\f\r\x1b \x7f\x85\xa0\xad\u034f\u061c\u115f\u1160\u1680\u2028\u2029\u202f\u205f"
    "\u2800\u3000\u3164\ufeff\uffa0"
    + "".join(map(chr, (*range(0x2000, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070))))
)
"""Spaces, and characters that show nothing: a body of nothing else says nothing."""

_PROTOCOL_NAMES: Final = """
    shutdown_request shutdown_response shutdown_approved shutdown_rejected
    plan_approval_request plan_approval_response plan_approved plan_rejected
    task_assignment task_claim task_claimed task_completed idle_notification teammate_terminated
    permission_request permission_response sandbox_permission_request sandbox_permission_response
    mode_set_request team_permission_update join_request join_approved join_rejected
"""
_PROTOCOL_TYPES: Final = frozenset(_PROTOCOL_NAMES.split())
"""`type` of the objects that Claude Code's agent teams steer each other with."""

_PLAIN_TEXT_HINT: Final = "Send what you have to say as plain text."


class BadBody(Refusal):
    """A value that cannot be a body. Its code is `empty` or `not_text`; its text says why."""

    __slots__ = ()

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(code, reason, _PLAIN_TEXT_HINT)


def check_body(value: object) -> str:
    """The value, which is a text that may be sent. Raises BadBody (`empty`, `not_text`) with a sentence."""
    if not isinstance(value, str):
        if isinstance(value, dict) and _is_protocol(value):
            raise BadBody("not_text", _protocol_sentence(value))
        raise BadBody("not_text", f"The message must be a text, not {_kind_of(value)}.")
    try:
        encoded = value.encode()
    except UnicodeEncodeError as error:
        raise BadBody(
            "not_text", f"The message is not a text: it has half of a character (U+{ord(value[error.start]):04X})."
        ) from None
    binary = encoded.translate(None, _TEXT_BYTES)
    if binary:
        raise BadBody("not_text", f"The message is not a text: it has the control character U+{binary[0]:04X}.")
    start = value[:1]
    if start <= " " or start > "\x7e":
        # Only then can the text be blank, or its first visible character be further in.
        start = value.lstrip(_BLANK)[:1]
        if not start:
            raise BadBody("empty", "The message is empty.")
    if start == "{":
        parsed = _parse_object(value.strip(_BLANK))
        if parsed is not None and _is_protocol(parsed):
            raise BadBody("not_text", _protocol_sentence(parsed))
    return value


def _parse_object(text: str) -> dict[object, object] | None:
    if not text.endswith("}") or ('"type"' not in text and "\\u" not in text):
        return None
    import json  # rarely needed, and not small

    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _is_protocol(value: dict[object, object]) -> bool:
    kind = value.get("type")
    return isinstance(kind, str) and kind in _PROTOCOL_TYPES


def _protocol_sentence(value: dict[object, object]) -> str:
    return (
        f"The message is an agent-protocol object ({value['type']}): such orders are for a harness's own teams "
        "and are not carried between sessions."
    )


def _kind_of(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return "a value of another kind"

"""Refusals: what the product says no with. Each is a value with a sentence for people and models.

    Refusal                what a request is answered with; nothing was stored
      BadBody              the text cannot be sent (`core.text`)
    (anything else)        our own bug

A peer that does not speak the protocol raises nothing: its line is a `wire.BadFrame`, a value too.

Laws: the list of codes is closed (`CODES`); every text is a sentence that says what happened, why, and what to do
next, and holds nothing that is not what it looks like. Refuses to know: where the answer goes.
"""

from __future__ import annotations

from xsessiond.core.inert import inert

TYPE_CHECKING = False  # typing's own costs an import of 3 ms, and every client reads this module
if TYPE_CHECKING:
    from typing import Final

CODES: Final = [
    "not_found",
    "not_running",
    "ambiguous",
    "name_moved",
    "self_target",
    "refused",
    "hold_full",
    "queue_full",
    "rate_limited",
    "duplicate",
    "hop_limit",
    "exchange_limit",
    "too_large",
    "not_text",
    "empty",
    "unsupported_mode",
    "key_reused",
    "expired",
    "already_decided",
    "not_permitted",
    "no_broker",
    "timeout",
    "bad_config",
    "bad_token",
    "bad_name",
    "name_taken",
    "feature_off",
    "internal",
    "version_mismatch",
    "usage",
]
"""Every code a client may see. The last two belong to the wire: a program's mistake, and another protocol."""

EXIT_CODES: Final = {
    "internal": 1,
    "usage": 2,
    "bad_name": 2,
    "not_text": 2,
    "empty": 2,
    "too_large": 2,
    "unsupported_mode": 2,
    "key_reused": 2,
    "self_target": 2,
    "not_found": 3,
    "not_running": 3,
    "ambiguous": 4,
    "name_moved": 4,
    "name_taken": 4,
    "refused": 5,
    "expired": 5,
    "already_decided": 5,
    "feature_off": 5,
    "timeout": 7,
    "rate_limited": 8,
    "duplicate": 8,
    "hop_limit": 8,
    "exchange_limit": 8,
    "queue_full": 8,
    "hold_full": 8,
    "no_broker": 9,
    "version_mismatch": 9,
    "bad_token": 10,
    "not_permitted": 10,
    "bad_config": 11,
}
"""Exit status of `xsessionctl` for each code."""


class Refusal(Exception):
    """A request that is refused. Raised inside the core, turned into an answer at its edge.

    code: one of `CODES`. text: one or two sentences. hint: what to do next. candidates: sessions it could have meant
    (each a mapping with name, ref, …). retry_after_s: seconds to wait. detail: anything more, as plain values.
    """

    __slots__ = ("candidates", "code", "detail", "hint", "retry_after_s", "text")

    def __init__(
        self,
        code: str,
        text: str,
        hint: str | None = None,
        *,
        candidates: list[dict[str, object]] | None = None,
        retry_after_s: float | None = None,
        detail: object = None,
    ) -> None:
        # A caller's own words stand in many of them, or another's name.
        text, hint = inert(text, multiline=False), None if hint is None else inert(hint, multiline=False)
        super().__init__(code, text)
        self.code, self.text, self.hint = code, text, hint
        self.candidates = candidates or []
        self.retry_after_s, self.detail = retry_after_s, detail

    def to_json(self) -> dict[str, object]:
        """The `error` object, as docs/protocol.md has it."""
        return {
            "code": self.code,
            "text": self.text,
            "hint": self.hint,
            "candidates": self.candidates,
            "retry_after_s": self.retry_after_s,
            "detail": self.detail,
        }


def not_stored(problem: str, *, retry_after_s: float | None = None) -> Refusal:
    """What whoever waits for an answer hears when the store refused it. problem: a sentence. retry_after_s: of what may
    pass by itself."""
    return Refusal(
        "internal",
        f"The store did not take it: {problem} Nothing was stored.",
        "See xsessionctl status.",
        retry_after_s=retry_after_s,
    )

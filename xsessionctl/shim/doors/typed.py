"""A harness that nothing but typing can wake, started by `xsessionctl run`: its terminal's bell.

It starts a turn and carries no text: what waits comes to the model by the hooks of that turn. Laws: written means that
our line was taken from the composer, and a turn that begins is what proves it. Refuses to know: terminals.
"""

from __future__ import annotations

from xsessionctl.shim.door import REFUSED, WRITTEN, Door
from xsessionctl.shim.doors.knock import Knock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from xsessionctl.shim.identity import Identity

ANSWER_WITHIN_S = 15.0
"""Longer than a line may take to be typed, shown and taken."""


class Typed(Knock):
    """The bell at a path."""

    delivery = "push"
    modes = ("auto", "followup")
    busy_too = False
    announces = True
    within_s = ANSWER_WITHIN_S

    def make_frame(self, text: str) -> bytes:
        """The question; there is no text."""
        return b"wake\n"

    def judge(self, answer: bytes, *, whole: bool) -> str:
        """One word; without it nothing was typed."""
        return WRITTEN if answer == b"typed\n" else REFUSED


def open_door(identity: Identity) -> Door:
    """The way into the session, which may be none."""
    path = identity.variable("XSESSIOND_TERMINAL")
    return Door() if path is None else Typed(path)

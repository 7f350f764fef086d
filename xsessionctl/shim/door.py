"""What a door is: a way into a running harness from outside of its model's own calls.

A door is a source of the shim's loop (`xsessionctl.shim.loop`) that can be given text. Laws: it never waits; each
`post` ends in exactly one outcome, but for a door that `proves` or `keeps`, where WRITTEN may be followed by another;
what it posts it posts whole. Refuses to know: the broker, which messages the text holds, and when to post: at most one
text is under way at a time, and that is its user's business.

    post() ──▶ WRITTEN     the harness has it; that a turn has it too is told by a hook, by the door, or never
           ├─▶ DELIVERED   the harness itself said that it is in a turn
           ├─▶ REFUSED     not now (no turn to steer, the composer is not empty): it may be tried again
           └─▶ GONE        the door is broken and stays so until `reopen`
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

WRITTEN, DELIVERED, REFUSED, GONE = "written", "delivered", "refused", "gone"
if TYPE_CHECKING:
    Done: TypeAlias = Callable[[str], None]
    """Called with an outcome."""


class Door:
    """A door that is never open: the base of the others, each of which overrides what it needs.

    delivery: what the listing says of a session with this door while it is open: `push` if it can start a turn in an
    idle session, `turn` if it only adds to turns that come by themselves. modes: what it can do, of `auto followup
    inject steer`. most: the longest text that it takes, in characters. busy_too: whether it may be used while a turn
    runs; else the hooks carry what comes then. returns: whether it is closed while a turn runs and opens with its end.
    announces: it carries no text, and only begins a turn; what waits comes to the model by the hooks of that turn.
    keeps: what it has written stays in the conversation and is in the next turn, whenever that is; or the door says
    that it does not (REFUSED, GONE). proves: it tells by itself what becomes of a text, so that it is of use without
    hooks.
    on_change: to be called when `is_open` has changed without a `post`.
    """

    delivery = "push"
    modes: tuple[str, ...] = ("auto", "followup")
    most = 48 << 10
    busy_too = True
    returns = False
    announces = False
    keeps = False
    proves = False
    wants_write = False
    due: float | None = None
    on_change: Callable[[], None]

    def __init__(self) -> None:
        self.on_change = _nothing

    @property
    def is_open(self) -> bool:
        """Whether `post` may succeed now."""
        return False

    def post(self, text: str, *, busy: bool, mode: str, done: Done) -> None:
        """Takes one text (rendered envelopes, or a notice) on its way.

        busy: whether a turn runs, as far as is known. mode: `auto`, or the one that all of its messages ask for.
        """
        done(GONE)

    def shut(self) -> None:
        """What it was given left no trace: it is not open any more before `reopen`."""

    def reopen(self) -> None:
        """It may be used again, if it can: a turn has ended, or evidence came late."""

    def close(self) -> None:
        """The session ends: nothing more is posted or told."""

    # -- as a source of the loop ---------------------------------------------------------------------------------------

    def fileno(self) -> int | None:
        """What to poll; None while nothing is open."""
        return None

    def read(self) -> None:
        """Call when it is readable."""

    def write(self) -> None:
        """Call when it is writable, if `wants_write`."""

    def tick(self, now: float) -> None:
        """Call when `due` is over; may be called at other times."""


def _nothing() -> None:
    pass

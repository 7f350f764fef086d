"""When a message may enter its receiver's work: the modes that a sender may ask for.

    auto      whenever it comes: an idle session begins a turn for it, a busy one reads it between two steps
    followup  in a turn of its own, so not while one runs
    inject    in the turn that runs, at its next step; it begins none
    steer     the same, and says that the receiver should change its course

Laws: a mode is never made into another; where it cannot be kept, the message is refused. A turn that ends before an
`inject` or a `steer` came is no reason to begin another: it waits for the next one. Of a session that does not tell
whether it is busy nothing is waited for. Refuses to know: doors, order, who may send.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from xsessiond.core.roster import Session

MODES = ("auto", "followup", "inject", "steer")
BUSY = frozenset({"busy", "waiting"})
"""States in which a turn runs. One that asks its user something goes on with that turn."""


def is_due(mode: str, state: str) -> bool:
    """Whether a message of this mode may be taken by a session in this state."""
    if mode == "auto" or state == "unknown":
        return True
    return (state in BUSY) is (mode != "followup")


def find_obstacle(mode: str, target: Session) -> str | None:
    """Why this session cannot take a message so now, in the second half of a sentence; None: it can."""
    if target.kind != "session":
        return None if mode in ("auto", "followup") else "a person is not in the middle of a turn"
    if mode not in target.modes:
        return "its harness has no door for that"
    if mode == "auto" or (mode == "followup" and not target.running):
        return None
    if target.state == "unknown":
        return "it does not tell whether it is busy"
    if mode != "followup" and target.state not in BUSY:
        return f"no turn of it runs now, it is {target.shown_state}"
    return None

"""What only a human may do, and how it is told who is one.

Laws: everything counts against the caller that the kernel or the process tree says; nothing that it says counts for
it. A no has its reason as a sentence. Refuses to know: what is being decided.
"""

from __future__ import annotations

from xsessiond.core.callers import find_caller
from xsessiond.core.effects import Peer
from xsessiond.core.errors import Refusal
from xsessiond.core.state import Caller, Core, Wire


def find_obstacle(caller: Caller, peer: Peer, *, without_terminal: bool) -> str | None:
    """Why this caller is not taken for a human, as a sentence; None: it is."""
    if caller.is_session:
        return f"This command runs below the session {caller.session.name}."
    if caller.among:
        return "This command runs below the harness of several sessions."
    if peer.marks:
        return f"This command runs below an agent: its environment has {', '.join(sorted(peer.marks))}."
    if not peer.complete:
        return "It cannot be seen below which programs this command runs."
    if not peer.terminal and not without_terminal:
        return "This command has no terminal."
    return None


def require_human(caller: Caller, peer: Peer, *, without_terminal: bool) -> None:
    """Raises Refusal: not_permitted."""
    obstacle = find_obstacle(caller, peer, without_terminal=without_terminal)
    if obstacle is not None:
        raise Refusal(
            "not_permitted",
            f"Only a human may do that. {obstacle}",
            "Do it in a terminal of your own, outside every session.",
        )


def forbid_sessions(core: Core, wire: Wire, what: str) -> None:
    """For what a script may do and an agent may not. Raises Refusal: not_permitted."""
    caller = find_caller(core, wire)
    if not caller.is_session and not caller.among and not wire.peer.marks:
        return
    obstacle = find_obstacle(caller, wire.peer, without_terminal=True)
    pid = wire.peer.process.pid if wire.peer.process is not None else None
    core.log("warning", "refused: not for agents", act=what, pid=pid)
    core.warn(f"Process {pid} tried to {what} and was refused. {obstacle}")
    raise Refusal("not_permitted", f"An agent may not {what}. {obstacle}", "Do it in a terminal of your own.")

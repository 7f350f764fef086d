"""What only a human may do, and how it is told who is one.

Laws: everything counts against the caller that the kernel or the process tree says; nothing that it says counts for
it. A no has its reason as a sentence, is logged, and is shown to the user. Refuses to know: what is being decided.
"""

from __future__ import annotations

from xsessiond.core.callers import find_caller, was_seen_whole
from xsessiond.core.effects import Notify, Peer
from xsessiond.core.errors import Refusal
from xsessiond.core.policy import CoreSettings
from xsessiond.core.state import Caller, Core, Wire

INSTEAD = "Where the system or the broker's own sandbox hides that, a passphrase stands in for it."
ELSEWHERE = "Do it in a terminal of your own that no agent started."
NAMED_MOST = 5
"""Sessions or marks that a sentence lists."""


def find_obstacle(caller: Caller, peer: Peer, *, without_terminal: bool = False, proven: bool = False) -> str | None:
    """Why this caller is not taken for a human, as a sentence; None: it is.

    without_terminal: the user allows what has no terminal. proven: a passphrase will tell that it is a human, so that
    what could not be seen of its process does not count; what was seen still does.
    """
    below = _find_agent(caller, peer)
    if below is not None:
        return below
    if not proven and not was_seen_whole(peer):
        return _tell_unseen(peer)
    if not peer.terminal and not without_terminal:
        if peer.process is None:
            return _tell_unseen(peer)
        return "It was not started from a terminal, so nobody knows whose it is."
    return None


def _find_agent(caller: Caller, peer: Peer) -> str | None:
    """What shows that an agent's program speaks, or None."""
    if caller.is_session:
        return f"It runs below the session {_call(caller)}."
    if caller.among:
        names = [f"{session.name} [{session.ref}]" for session in caller.among]
        return f"It runs below the harness of several sessions ({_list(names)})."
    if caller.confined:
        return "It came through the socket of a container."
    if caller.silenced:
        return "It runs below an agent whose session has ended, or was switched off by its project's settings."
    if peer.marks:
        return f"It was started by a coding agent: {_list(sorted(peer.marks))} is in its environment or above it."
    return None


def _tell_unseen(peer: Peer) -> str:
    if peer.process is None:
        return "Its process has ended, or is in another container, so nobody knows whose it is."
    if peer.unseen is not None:
        return f"The environment of {peer.unseen} cannot be read, so it may be an agent's. {INSTEAD}"
    return f"Not all programs above it can be seen, so it may run below an agent. {INSTEAD}"


def require_human(core: Core, wire: Wire, act: str) -> None:
    """For what nobody but a human may do; act: as in "to ...". Raises Refusal: not_permitted."""
    caller, settings = find_caller(core, wire), core.settings
    proven = settings.passphrase and settings.passphrase_is_set
    obstacle = find_obstacle(caller, wire.peer, without_terminal=settings.without_terminal, proven=proven)
    if obstacle is not None:
        raise _refuse(core, wire, caller, f"Only a human may {act}.", act, obstacle)


def forbid_agents(core: Core, wire: Wire, act: str) -> None:
    """For what a service manager or a script of the user's may do and an agent may not. Raises Refusal:
    not_permitted."""
    caller = find_caller(core, wire)
    obstacle = _find_agent(caller, wire.peer)
    if obstacle is not None:
        raise _refuse(core, wire, caller, f"An agent may not {act}.", act, obstacle)


def _refuse(core: Core, wire: Wire, caller: Caller, rule: str, act: str, obstacle: str) -> Refusal:
    """The refusal. The attempt is logged; `status` shows it once, however often it is repeated."""
    peer = wire.peer
    pid = peer.process.pid if peer.process is not None else None
    core.log(
        "warning",
        "refused: not a human",
        act=act,
        pid=pid,
        session=caller.session.id if caller.is_session else None,
        among=",".join(session.id for session in caller.among) or None,
        marks=",".join(sorted(peer.marks)) or None,
        seen=was_seen_whole(peer),
        terminal=peer.tty,
    )
    who = f"The session {_call(caller)}" if caller.is_session else "A process that is not known to be yours"
    warning = f"{who} tried to {act} and was refused (process {pid}). {obstacle}"
    # Known by its ref: a session may call itself something else each time.
    same = f"{f'[{caller.session.ref}]' if caller.is_session else who} tried to {act} and was refused "
    core.warnings = [text for text in core.warnings if same not in text]
    core.warn(warning)
    return Refusal("not_permitted", f"{rule} {obstacle}", ELSEWHERE)


def tell_loosening(core: Core, before: CoreSettings) -> None:
    """New settings are in force. Where they make it easier to decide in the user's place, the user hears of it: any
    program of theirs can write the file."""
    told = []
    if before.passphrase and not core.settings.passphrase:
        told.append("Decisions need no passphrase any more (approvals.passphrase).")
    if core.settings.without_terminal and not before.without_terminal:
        told.append("What has no terminal may decide now (approvals.without_terminal).")
    for text in told:
        core.warn(f"The settings were changed: {text}")
        core.log("warning", "approvals were made easier", change=text)
        core.out.append(Notify("The settings for approvals were changed", text))


def _call(caller: Caller) -> str:
    return f"{caller.session.name} [{caller.session.ref}]"


def _list(words: list[str]) -> str:
    more = len(words) - NAMED_MOST
    return ", ".join(words[:NAMED_MOST]) + (f" and {more} more" if more > 0 else "")

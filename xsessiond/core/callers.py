"""Who speaks: found from what the kernel says of the peer, never from what it writes.

Laws: a link that attached with a session's token is that session; a process at or below a session's harness is that
session; a process below several sessions (one harness process that runs them all) is none of them for certain, and may
only say in whose name it speaks; what comes through a granted socket and has shown no token is nobody's, whatever the
kernel says of it; what is outside every session is the human where everything speaks for a person in a terminal and
nothing for an agent, else a script. Refuses to know: what the caller may do.
"""

from __future__ import annotations

from xsessiond.core.effects import Peer, ProcessId
from xsessiond.core.state import Caller, Core, Wire


def find_caller(core: Core, wire: Wire) -> Caller:
    """Who is at the other end of this link now."""
    if wire.caller is not None:
        return wire.caller
    if wire.confined:
        return Caller("script", core.script, confined=True)
    for process in wire.peer.ancestors:
        sessions = core.roster.at_process(process)
        if len(sessions) == 1:
            return Caller("session", next(iter(sessions)))
        if sessions:
            return Caller("script", core.script, among=tuple(s for s in core.roster.running() if s in sessions))
        if process in core.silenced:
            return Caller("script", core.script, silenced=True)
    # People come to the rendezvous; on a session's private socket nobody looked whether it is one.
    if wire.door is None and looks_human(wire.peer):
        return Caller("human", core.human)
    return Caller("script", core.script)


def find_speaker(core: Core, wire: Wire) -> Caller:
    """The same, where all that follows is whose name stands on what is sent. Below several sessions the caller may say
    which conversation it is part of, as a subagent or a command of its shell can. It stays bound by what binds each of
    them (`among`), so that nothing is gained by saying another's; and it gets nobody's mail that way."""
    caller = find_caller(core, wire)
    for session in caller.among:
        if session.harness_session_id is not None and session.harness_session_id == wire.conversation:
            return Caller("session", session, caller.among)
    return caller


def looks_human(peer: Peer) -> bool:
    """Whether a peer that is below no session is a person's command: in a terminal that it was started from, with
    nothing of a harness around it, and nothing that could not be seen."""
    return peer.terminal and was_seen_whole(peer) and not peer.marks


def was_seen_whole(peer: Peer) -> bool:
    """Whether all that could tell of an agent was there to be looked at."""
    return peer.process is not None and peer.complete and peer.unseen is None


def find_ancestor(peer: Peer, pid: int | None) -> ProcessId | None:
    """The process with this pid, if the peer is it or descends from it."""
    for process in peer.ancestors:
        if process.pid == pid:
            return process
    return None


def find_harness(core: Core, peer: Peer, pid: int | None) -> ProcessId | None:
    """The process that a newcomer names as its harness: itself or one above it, but none that is shared ground and none
    above a session that it is inside of. All that is below such a one (the user's commands, other agents) would speak
    as the newcomer."""
    named = find_ancestor(peer, pid)
    for process in peer.ancestors if named is not None and named not in peer.shared else ():
        if process == named:
            return named
        if core.roster.at_process(process):
            return None
    return None


def find_outer(core: Core, peer: Peer, harness: ProcessId | None) -> frozenset[str]:
    """Ids of the sessions that this one was started inside of: at the processes above its harness, or above the peer
    where it has none that is known."""
    above = harness is None or harness not in peer.ancestors
    found: set[str] = set()
    for process in peer.ancestors:
        if above:
            found.update(session.id for session in core.roster.at_process(process))
        above = above or process == harness
    return frozenset(found)

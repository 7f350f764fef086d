"""A session's token: how it is kept, and from where it may be used.

Laws: kept as a hash, compared in constant time; it works below the session's own harness, or below the process that
used it first; that of a granted session works at its own socket only, and while it is in use only from the container
that uses it. Every wrong use is logged, and shown where it is more than a wrong text. Refuses to know: who may have
one.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest

from xsessiond.core.effects import Peer
from xsessiond.core.errors import Refusal
from xsessiond.core.roster import Session
from xsessiond.core.state import Core, Wire


def hash_token(token: str) -> bytes:
    """What is kept of a token."""
    return sha256(token.encode()).digest()


def check_token(core: Core, session: Session, token: str, wire: Wire) -> None:
    """Raises Refusal, bad_token, unless this is the session's token and may be used from there."""
    pid = wire.peer.process.pid if wire.peer.process is not None else None
    if not compare_digest(hash_token(token), session.token_hash):
        core.log("warning", "wrong token", session=session.id, pid=pid)
        raise Refusal("bad_token", "This is not the session's token.", "Register anew.")
    if _may_use(session, wire):
        return
    core.log("warning", "token used from elsewhere", session=session.id, pid=pid)
    core.warn(
        f"The token of {session.name} [{session.ref}] was used by process {pid}, "
        "which is not of that session. It was refused."
    )
    if session.grant is not None:
        text = "This token belongs to another container."
        hint = "It works at the socket that it was granted with, from one container at a time."
    else:
        text = "This token belongs to another process tree."
        hint = "A session's token works only below its own harness."
    raise Refusal("bad_token", text, hint)


def _may_use(session: Session, wire: Wire) -> bool:
    if session.grant is not None:
        return wire.door == session.id and (not session.links or session.place == wire.peer.place)
    return _is_below(session, wire.peer)


def _is_below(session: Session, peer: Peer) -> bool:
    """From the session's harness or below it; where that process is not known, from the process that used the token
    first or below that."""
    if session.process is not None:
        return session.process in peer.ancestors
    return session.bound is None or session.bound in peer.ancestors

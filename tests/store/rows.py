"""Rows for the tests of the store: complete, valid, and different only where a test says so."""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from xsessiond.store.contract import (
    GrantRow,
    HoldRow,
    MarkMessage,
    MessageRow,
    PutGrant,
    PutHold,
    PutMessage,
    PutSession,
    PutTrust,
    PutWatch,
    SessionRow,
    TrustRow,
    WatchRow,
)

HOUR = 3_600_000
NOW = 1_800_000_000_000


def message_id(seq: int) -> str:
    return f"m-{seq:032x}"


def message(seq: int, *, body: str = "the migration finished", **values: object) -> MessageRow:
    """Return a queued message from s-a to s-b that is the first of its thread."""
    row = MessageRow(
        seq=seq,
        id=message_id(seq),
        state="queued",
        sender_kind="session",
        sender_id="s-a",
        sender_name="api",
        sender_harness="claude",
        sender_cwd="/src/api",
        target_id="s-b",
        target_name="web",
        body=body,
        bytes=len(body.encode()),
        sha256=hashlib.sha256(body.encode()).digest(),
        summary=None,
        reply_to=None,
        thread=message_id(seq),
        hop=0,
        mode="auto",
        key=None,
        pair_seq=seq,
        rule="parity",
        sent_at=NOW + seq,
        expires_at=None,
    )
    return replace(row, **values)


def put(seq: int, **values: object) -> PutMessage:
    return PutMessage(message(seq, **values))  # type: ignore[arg-type]


def mark(seq: int, state: str, at: int = NOW, *, by: str | None = None, rule: str | None = None) -> MarkMessage:
    return MarkMessage(seq, message_id(seq), state, at, by, rule)


def session(session_id: str, **values: object) -> SessionRow:
    """Return a live session."""
    row = SessionRow(
        id=session_id,
        ref=session_id[2:8],
        name=f"name of {session_id}",
        label=None,
        harness="claude",
        harness_session_id=None,
        cwd="/src",
        pid=4711,
        pid_start=17,
        boot_id="boot",
        perm_class="prompting",
        delivery="push",
        can_reply=True,
        modes="auto followup",
        token_hash=bytes(range(32)),
        machine="here",
        live=True,
        noted=False,
        started_at=NOW,
        last_seen_at=NOW,
        ended_at=None,
    )
    return replace(row, **values)


def put_session(session_id: str, **values: object) -> PutSession:
    return PutSession(session(session_id, **values))


def hold(seq: int, **values: object) -> HoldRow:
    """Return a hold by parity that nobody has decided about."""
    row = HoldRow(seq, message_id(seq), "mode-mismatch", "parity: as in a test", "bypass", NOW + seq, NOW + HOUR)
    return replace(row, **values)


def put_hold(seq: int, **values: object) -> PutHold:
    return PutHold(hold(seq, **values))


def trust(trust_id: str, sender_id: str = "s-a", target_id: str = "s-b", **values: object) -> TrustRow:
    """Return a trust without an end."""
    row = TrustRow(trust_id, sender_id, "api", target_id, "web", "pair", "human ann (pts/3)", NOW, None)
    return replace(row, **values)


def put_trust(trust_id: str, sender_id: str = "s-a", target_id: str = "s-b", **values: object) -> PutTrust:
    return PutTrust(trust(trust_id, sender_id, target_id, **values))


def grant(session_id: str, **values: object) -> GrantRow:
    """Return a grant without an end."""
    return replace(GrantRow(session_id, f"/grants/{session_id}", "human ann (pts/3)", NOW, None), **values)


def put_grant(session_id: str, **values: object) -> PutGrant:
    return PutGrant(grant(session_id, **values))


def watch(asker_id: str, target_id: str, **values: object) -> WatchRow:
    """Return what somebody asked for half a day."""
    return replace(WatchRow(asker_id, target_id, NOW, NOW + 12 * HOUR), **values)


def put_watch(asker_id: str, target_id: str, **values: object) -> PutWatch:
    return PutWatch(watch(asker_id, target_id, **values))

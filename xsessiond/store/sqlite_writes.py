"""The statements that change something, each within the caller's transaction.

Laws: all operations of a kind go through one prepared statement, in their order; no kind depends on the order of
another, but that a message is put before it is marked. Raises sqlite3's own errors, which the store translates.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final

from msgspec.structs import astuple

from xsessiond.store.contract import (
    CLOCKED_STATES,
    WAITING_STATES,
    DropGrant,
    DropPins,
    DropReceipts,
    DropTrust,
    DropWatch,
    GrantRow,
    HoldRow,
    MarkMessage,
    Op,
    PutGrant,
    PutHold,
    PutMessage,
    PutPin,
    PutReceipt,
    PutSession,
    PutTrust,
    PutWatch,
    SessionRow,
    TrustRow,
    WatchRow,
)
from xsessiond.store.schema import CONTENT_COLUMNS
from xsessiond.store.sqlite_reads import WAITING, next_seq

# Python's sqlite3 binds None and bytes by way of its adapters, at five times the cost of a string (a third of a whole
# insert). What may be None is therefore bound as an empty blob, which equals no text and no number, and made NULL in
# the statement; a hash is bound as a bytearray.
_NULL: Final = bytearray()


def _insert(table: str, columns: Sequence[str], nullable: Sequence[str] = (), verb: str = "INSERT") -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join("nullif(?, x'')" if name in nullable else "?" for name in columns)
    return f"{verb} INTO {table} ({names}) VALUES ({values})"


_PUT_MESSAGE: Final = _insert(
    "message",
    (
        "seq",
        "state",
        "sender_kind",
        "sender_id",
        "target_id",
        "key",
        "pair_seq",
        "sent_at",
        "expires_at",
        "cause",
        "subagent",
    ),
    nullable=("sender_id", "key", "expires_at", "cause"),
)
_PUT_CONTENT: Final = _insert(
    "content", CONTENT_COLUMNS, nullable=("sender_harness", "sender_cwd", "summary", "reply_to")
)
_PUT_TIMES: Final = "UPDATE message SET handed_at = ?, delivered_at = ?, replied_at = ?, ended_at = ? WHERE seq = ?"
_PUT_SESSION: Final = _insert("session", SessionRow.__struct_fields__, verb="REPLACE")
_PUT_PIN: Final = _insert("pin", PutPin.__struct_fields__, verb="REPLACE")
_PUT_RECEIPT: Final = _insert("receipt", PutReceipt.__struct_fields__)
_PUT_HOLD: Final = _insert("hold", HoldRow.__struct_fields__, verb="REPLACE")
_PUT_TRUST: Final = _insert("trust", TrustRow.__struct_fields__, verb="REPLACE")
_PUT_GRANT: Final = _insert("granted", GrantRow.__struct_fields__, verb="REPLACE")
_PUT_WATCH: Final = _insert("watch", WatchRow.__struct_fields__, verb="REPLACE")
_PUT_EVENT: Final = """INSERT INTO event (seq, at, state, "by", rule)
    SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM message WHERE seq = ?1)"""
_NOT_YET: Final = (None, None, None, None)
# One statement for every state keeps marks in their order. A time that is set stays.
_MARK: Final = """UPDATE message SET state = ?, handed_at = coalesce(handed_at, nullif(?, x'')),
    delivered_at = coalesce(delivered_at, nullif(?, x'')), replied_at = coalesce(replied_at, nullif(?, x'')),
    ended_at = coalesce(ended_at, nullif(?, x'')) WHERE seq = ?"""


def write_ops(db: sqlite3.Connection, ops: Sequence[Op]) -> tuple[int, bool]:
    """Writes them all. Returns the bytes of the bodies in it, and whether a row came that was not there before."""
    size, inserted = 0, False
    for kind, group in groupby(sorted(ops, key=_rank), type):
        size += _WRITERS[kind](db, group)
        inserted = inserted or kind is PutMessage or kind is PutReceipt
    return size, inserted


# By table, so that a mixed batch falls into few runs; of one table, what puts and what drops stays in its order.
_RANKS: Final[dict[type[Op], int]] = {
    PutSession: 0,
    PutMessage: 1,
    MarkMessage: 2,
    PutPin: 3,
    DropPins: 3,
    PutReceipt: 4,
    DropReceipts: 4,
    PutHold: 5,
    PutTrust: 6,
    DropTrust: 6,
    PutWatch: 7,
    DropWatch: 7,
    PutGrant: 8,
    DropGrant: 8,
}


def _rank(op: Op) -> int:
    return _RANKS[type(op)]


def _put_messages(db: sqlite3.Connection, ops: Iterable[PutMessage]) -> int:
    messages, contents, times, size = [], [], [], 0
    for op in ops:
        row = op.row
        messages.append(
            (
                row.seq,
                row.state,
                row.sender_kind,
                _NULL if row.sender_id is None else row.sender_id,
                row.target_id,
                _NULL if row.key is None else row.key,
                row.pair_seq,
                row.sent_at,
                _NULL if row.expires_at is None else row.expires_at,
                _NULL if row.cause is None else row.cause,
                row.subagent,
            )
        )
        contents.append(
            (
                row.seq,
                row.id,
                row.sender_name,
                _NULL if row.sender_harness is None else row.sender_harness,
                _NULL if row.sender_cwd is None else row.sender_cwd,
                row.target_name,
                row.bytes,
                bytearray(row.sha256),
                _NULL if row.summary is None else row.summary,
                _NULL if row.reply_to is None else row.reply_to,
                row.thread,
                row.hop,
                row.mode,
                row.rule,
                row.body,
            )
        )
        size += row.bytes
        later = (row.handed_at, row.delivered_at, row.replied_at, row.ended_at)
        if later != _NOT_YET:
            times.append((*later, row.seq))
    db.executemany(_PUT_MESSAGE, messages)
    db.executemany(_PUT_CONTENT, contents)
    if times:
        db.executemany(_PUT_TIMES, times)
    return size


def _mark_messages(db: sqlite3.Connection, ops: Iterable[MarkMessage]) -> int:
    marks, events = [], []
    for op in ops:
        state, at = op.state, op.at
        marks.append(
            (
                state,
                at if state == "handed" else _NULL,
                at if state == "delivered" else _NULL,
                at if state == "replied" else _NULL,
                _NULL if state in WAITING_STATES else at,
                op.seq,
            )
        )
        if op.by is not None or op.rule is not None or state not in CLOCKED_STATES:
            events.append((op.seq, at, state, op.by, op.rule))
    db.executemany(_MARK, marks)
    if events:
        db.executemany(_PUT_EVENT, events)
    return 0


def _put_sessions(db: sqlite3.Connection, ops: Iterable[PutSession]) -> int:
    db.executemany(_PUT_SESSION, [astuple(op.row) for op in ops])
    return 0


def _put_rows(
    statement: str,
) -> Callable[[sqlite3.Connection, Iterable[PutHold | PutTrust | PutWatch | PutGrant]], int]:
    def write(db: sqlite3.Connection, ops: Iterable[PutHold | PutTrust | PutWatch | PutGrant]) -> int:
        db.executemany(statement, [astuple(op.row) for op in ops])
        return 0

    return write


def _run_all(statement: str) -> Callable[[sqlite3.Connection, Iterable[Op]], int]:
    def write(db: sqlite3.Connection, ops: Iterable[Op]) -> int:
        db.executemany(statement, map(astuple, ops))
        return 0

    return write


_WRITERS: Final[dict[type[Op], Callable[..., int]]] = {
    PutSession: _put_sessions,
    PutMessage: _put_messages,
    MarkMessage: _mark_messages,
    PutPin: _run_all(_PUT_PIN),
    DropPins: _run_all("DELETE FROM pin WHERE sender_id = ?"),
    PutReceipt: _run_all(_PUT_RECEIPT),
    DropReceipts: _run_all("DELETE FROM receipt WHERE session_id = ? AND at <= ?"),
    PutHold: _put_rows(_PUT_HOLD),
    PutTrust: _put_rows(_PUT_TRUST),
    DropTrust: _run_all("DELETE FROM trust WHERE id = ?"),
    PutWatch: _put_rows(_PUT_WATCH),
    PutGrant: _put_rows(_PUT_GRANT),
    DropGrant: _run_all("DELETE FROM granted WHERE session_id = ?"),
    DropWatch: _run_all("DELETE FROM watch WHERE asker_id = ? AND target_id = ?"),
}


def find_prunable(db: sqlite3.Connection, older_than_ms: int, after: int, limit: int) -> list[int]:
    """The next messages past `after`, by seq, that ended before that time."""
    rows = db.execute(
        f"""SELECT seq FROM message WHERE seq > ? AND coalesce(ended_at, sent_at) < ? AND state NOT IN ({WAITING})
            ORDER BY seq LIMIT ?""",  # noqa: S608 - constants
        (after, older_than_ms, limit),
    )
    return [seq for (seq,) in rows]


def settle_counters(db: sqlite3.Connection) -> None:
    """Writes down what must go on counting when messages are gone: the next seq, and how far each pair has counted."""
    db.execute(
        """INSERT INTO pair (sender, target_id, pair_seq)
            SELECT coalesce(sender_id, sender_kind), target_id, max(pair_seq) FROM message
            WHERE seq >= coalesce((SELECT value FROM meta WHERE name = 'next_seq'), 0) GROUP BY 1, 2
            ON CONFLICT (sender, target_id) DO UPDATE SET pair_seq = max(pair_seq, excluded.pair_seq)"""
    )
    db.execute("REPLACE INTO meta (name, value) VALUES ('next_seq', ?)", (next_seq(db),))


def delete_messages(db: sqlite3.Connection, seqs: Sequence[int]) -> None:
    """Deletes them with their events. In the same transaction their counters are written down: a message may have come
    and ended since any earlier one."""
    settle_counters(db)
    for table in ("event", "hold", "content", "message"):
        db.executemany(f"DELETE FROM {table} WHERE seq = ?", [(seq,) for seq in seqs])  # noqa: S608 - constants


def delete_ended_sessions(db: sqlite3.Connection, older_than_ms: int) -> None:
    """Deletes sessions that ended before that time, have no waiting mail and no grant, with their pins, receipts,
    watches and counters."""
    db.execute(
        f"""DELETE FROM session WHERE NOT live AND coalesce(ended_at, last_seen_at) < ?
            AND id NOT IN (SELECT target_id FROM message WHERE state IN ({WAITING}))
            AND id NOT IN (SELECT session_id FROM granted)""",  # noqa: S608 - constants
        (older_than_ms,),
    )
    gone = "NOT IN (SELECT id FROM session)"
    db.execute(f"DELETE FROM pin WHERE sender_id {gone}")  # noqa: S608 - constants
    db.execute(f"DELETE FROM receipt WHERE session_id {gone} AND session_id <> 'human'")  # noqa: S608 - constants
    db.execute(f"DELETE FROM trust WHERE sender_id {gone} OR target_id {gone}")  # noqa: S608 - constants
    db.execute(f"DELETE FROM watch WHERE (asker_id {gone} AND asker_id <> 'human') OR target_id {gone}")  # noqa: S608 - constants
    db.execute(
        f"""DELETE FROM pair WHERE (target_id {gone} AND target_id <> 'human')
            OR (sender {gone} AND sender NOT IN ('human', 'script'))"""  # noqa: S608 - constants
    )

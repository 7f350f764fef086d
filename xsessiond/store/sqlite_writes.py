"""The statements that change something, each within the caller's transaction.

Laws: operations are written in their order; neighbours of one kind go through one prepared statement. Raises sqlite3's own errors, which
the store translates.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from msgspec.structs import astuple

from xsessiond.store.contract import (
    CLOCKED_STATES,
    WAITING_STATES,
    DropPins,
    DropReceipts,
    MarkMessage,
    MessageRow,
    Op,
    PutMessage,
    PutPin,
    PutReceipt,
    PutSession,
    SessionRow,
)
from xsessiond.store.schema import CONTENT_COLUMNS, MESSAGE_COLUMNS
from xsessiond.store.sqlite_reads import WAITING, next_seq


def _insert(table: str, columns: Sequence[str], verb: str = "INSERT") -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    return f"{verb} INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"


_FIELDS: Final = MessageRow.__struct_fields__
_TO_MESSAGE: Final = itemgetter(*map(_FIELDS.index, MESSAGE_COLUMNS))
_TO_CONTENT: Final = itemgetter(*map(_FIELDS.index, CONTENT_COLUMNS))
_BODY_SIZE: Final = itemgetter(_FIELDS.index("bytes"))
_PUT_MESSAGE: Final = _insert("message", MESSAGE_COLUMNS)
_PUT_CONTENT: Final = _insert("content", CONTENT_COLUMNS)
_PUT_SESSION: Final = _insert("session", SessionRow.__struct_fields__, "REPLACE")
_PUT_PIN: Final = _insert("pin", PutPin.__struct_fields__, "REPLACE")
_PUT_RECEIPT: Final = _insert("receipt", PutReceipt.__struct_fields__)
_PUT_EVENT: Final = _insert("event", ("seq", "at", "state", "by", "rule"))
# One statement for every state keeps the order of marks; a time that is set stays.
_MARK: Final = """UPDATE message SET state = ?, handed_at = coalesce(handed_at, ?), delivered_at = coalesce(delivered_at, ?),
    replied_at = coalesce(replied_at, ?), ended_at = coalesce(ended_at, ?) WHERE seq = ?"""


Written = tuple[int, bool]
"""What a transaction tells: the bytes of the bodies in it, and whether a row was inserted that was not there before."""


def write_ops(db: sqlite3.Connection, ops: Sequence[Op]) -> Written:
    """Writes them all."""
    size, inserted = 0, False
    for kind, group in groupby(ops, type):
        size += _WRITERS[kind](db, group)
        inserted = inserted or kind is PutMessage or kind is PutReceipt
    return size, inserted


def _put_messages(db: sqlite3.Connection, ops: Iterable[PutMessage]) -> int:
    rows = [astuple(op.row) for op in ops]
    db.executemany(_PUT_MESSAGE, map(_TO_MESSAGE, rows))
    db.executemany(_PUT_CONTENT, map(_TO_CONTENT, rows))
    return sum(map(_BODY_SIZE, rows))


def _mark_messages(db: sqlite3.Connection, ops: Iterable[MarkMessage]) -> int:
    marks, events = [], []
    for op in ops:
        state, at = op.state, op.at
        marks.append(
            (
                state,
                at if state == "handed" else None,
                at if state == "delivered" else None,
                at if state == "replied" else None,
                None if state in WAITING_STATES else at,
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
}


def prunable(db: sqlite3.Connection, older_than_ms: int, after: int, limit: int) -> list[int]:
    """The next messages past `after`, by seq, that ended before that time."""
    rows = db.execute(
        f"SELECT seq FROM message WHERE seq > ? AND ended_at < ? AND state NOT IN ({WAITING}) ORDER BY seq LIMIT ?",  # noqa: S608
        (after, older_than_ms, limit),
    )
    return [seq for (seq,) in rows]


def delete_messages(db: sqlite3.Connection, seqs: Sequence[int]) -> Written:
    """Deletes them with their events; what counts on stays: the next seq, and how far each pair had counted."""
    one = [(seq,) for seq in seqs]
    db.execute("REPLACE INTO meta (name, value) VALUES ('next_seq', ?)", (next_seq(db),))
    db.executemany(
        """INSERT INTO pair (sender, target_id, pair_seq)
            SELECT coalesce(sender_id, sender_kind), target_id, pair_seq FROM message WHERE seq = ?
            ON CONFLICT (sender, target_id) DO UPDATE SET pair_seq = max(pair_seq, excluded.pair_seq)""",
        one,
    )
    for table in ("event", "content", "message"):
        db.executemany(f"DELETE FROM {table} WHERE seq = ?", one)  # noqa: S608 - one of three constants
    return 0, False


def delete_ended_sessions(db: sqlite3.Connection, older_than_ms: int) -> Written:
    """Deletes sessions that ended before that time and have no waiting mail, with their pins, receipts and counters."""
    db.execute(
        f"""DELETE FROM session WHERE NOT live AND coalesce(ended_at, last_seen_at) < ?
            AND id NOT IN (SELECT target_id FROM message WHERE state IN ({WAITING}))""",  # noqa: S608 - constants
        (older_than_ms,),
    )
    gone = "NOT IN (SELECT id FROM session)"
    db.execute(f"DELETE FROM pin WHERE sender_id {gone}")  # noqa: S608 - constants
    db.execute(f"DELETE FROM receipt WHERE session_id {gone}")  # noqa: S608 - constants
    db.execute(f"DELETE FROM pair WHERE target_id {gone} OR (sender {gone} AND sender NOT IN ('human', 'script'))")  # noqa: S608
    return 0, False

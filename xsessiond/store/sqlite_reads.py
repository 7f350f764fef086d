"""The questions that the broker asks of SQLite, each one statement on a connection that it is given.

Laws: nothing here writes; what is returned is complete, so that no read transaction outlives a call. Raises sqlite3's
own errors, which the store translates.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from msgspec.structs import replace

from xsessiond.core.limits import CAUSE_KEPT_MS, LOG_BYTES
from xsessiond.store.contract import (
    WAITING_STATES,
    EventRow,
    GrantRow,
    HoldRow,
    MessageRow,
    PutPin,
    PutReceipt,
    SessionRow,
    Snapshot,
    TrustRow,
    WatchRow,
)
from xsessiond.store.schema import MESSAGE_COLUMNS, SHELF_BITS

WAITING: Final = ", ".join(f"'{state}'" for state in WAITING_STATES)
"""The states of waiting, as SQL."""
_COLUMNS: Final = ", ".join(
    f'{"m" if name in MESSAGE_COLUMNS else "c"}."{name}"' for name in MessageRow.__struct_fields__
)
# The order of the tables is ours to say (CROSS JOIN): `message` is the one that is scanned.
_MESSAGES: Final = f"SELECT {_COLUMNS} FROM message m CROSS JOIN content c ON c.seq = m.seq"  # noqa: S608 - constants
_WITHOUT_TEXT: Final = _MESSAGES.replace('c."body"', "''")

_SEQ_OF_ID: Final = f"""
    WITH RECURSIVE shelf (n) AS (
        SELECT max(seq) >> {SHELF_BITS} FROM content
        UNION ALL SELECT n - 1 FROM shelf WHERE n > (SELECT min(seq) >> {SHELF_BITS} FROM content)
    )
    SELECT c.seq FROM shelf CROSS JOIN content c ON c.seq >> {SHELF_BITS} = shelf.n AND c.id = ? LIMIT 1"""  # noqa: S608 - constants
_SESSIONS: Final = f"SELECT {', '.join(SessionRow.__struct_fields__)} FROM session ORDER BY started_at, id"  # noqa: S608 - constants
_HOLDS: Final = f"""SELECT {", ".join("h." + name for name in HoldRow.__struct_fields__)}
    FROM hold h JOIN message m ON m.seq = h.seq WHERE m.state IN ({WAITING}) ORDER BY h.seq"""  # noqa: S608 - constants
_RECEIPTS: Final = "SELECT session_id, message_id, state, at, text, wake, hop FROM receipt ORDER BY id"
# SQLite takes the other columns of a group from the row that has the maximum.
_ENTERED: Final = f"""SELECT m.target_id, c.id, c.hop, m.delivered_at, max(m.seq)
    FROM message m CROSS JOIN content c ON c.seq = m.seq
    WHERE m.delivered_at > (SELECT max(delivered_at) FROM message) - {CAUSE_KEPT_MS}
    GROUP BY m.target_id, c.hop ORDER BY m.target_id, m.delivered_at, m.seq"""  # noqa: S608 - constants
_TRUSTS: Final = (
    'SELECT id, sender_id, sender_name, target_id, target_name, scope, "by", at, until FROM trust ORDER BY id'
)
_GRANTS: Final = 'SELECT session_id, directory, "by", at, until FROM granted ORDER BY session_id'
_WATCHES: Final = "SELECT asker_id, target_id, at, until, hop FROM watch ORDER BY asker_id, target_id"
_BOUND_MOST: Final = 500
"""Values bound to one statement: SQLite's own limit may be 999."""
_FLAGS: Final = ("can_reply", "live", "noted")

_PAIR_SEQS: Final = """
    SELECT sender, target_id, max(pair_seq) FROM (
        SELECT coalesce(sender_id, sender_kind) AS sender, target_id, pair_seq FROM message
            WHERE seq >= coalesce((SELECT value FROM meta WHERE name = 'next_seq'), 0)
        UNION ALL SELECT sender, target_id, pair_seq FROM pair
    )
    WHERE (target_id = 'human' OR target_id IN (SELECT id FROM session))
        AND (sender IN ('human', 'script') OR sender IN (SELECT id FROM session))
    GROUP BY sender, target_id ORDER BY sender, target_id"""


def load_snapshot(db: sqlite3.Connection) -> Snapshot:
    """All that is live, of one moment. What was read a short time ago is asked for by itself: it alone looks where
    texts are that nobody waits for, and a fault there must not keep the rest."""
    db.execute("BEGIN")
    try:
        found = Snapshot(
            sessions=[_session(row) for row in db.execute(_SESSIONS)],
            messages=_messages(db.execute(f"{_MESSAGES} WHERE m.state IN ({WAITING}) ORDER BY m.seq")),
            pins=[
                PutPin(*row)
                for row in db.execute("SELECT sender_id, name, target_id FROM pin ORDER BY sender_id, name")
            ],
            receipts=[
                PutReceipt(session_id, message_id, state, at, text, bool(wake), hop)
                for session_id, message_id, state, at, text, wake, hop in db.execute(_RECEIPTS)
            ],
            next_seq=next_seq(db),
            pair_seqs=db.execute(_PAIR_SEQS).fetchall(),
            holds=[HoldRow(*row) for row in db.execute(_HOLDS)],
            trusts=[TrustRow(*row) for row in db.execute(_TRUSTS)],
            watches=[WatchRow(*row) for row in db.execute(_WATCHES)],
            grants=[GrantRow(*row) for row in db.execute(_GRANTS)],
        )
    finally:
        db.execute("COMMIT")
    try:
        return replace(found, entered=[row[:4] for row in db.execute(_ENTERED)])
    except sqlite3.DatabaseError as problem:
        if problem.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
        return found


def next_seq(db: sqlite3.Connection) -> int:
    """One more than the highest seq ever used."""
    (value,) = db.execute(
        """SELECT max(coalesce((SELECT max(seq) FROM message), 0) + 1,
                      coalesce((SELECT value FROM meta WHERE name = 'next_seq'), 1))"""
    ).fetchone()
    return int(value)


def find_message(db: sqlite3.Connection, message_id: str) -> tuple[MessageRow, Sequence[EventRow]] | None:
    """One message with its events, in the order in which they were stored."""
    found = db.execute(_SEQ_OF_ID, (message_id,)).fetchone()
    if found is None:
        return None
    rows = _messages(db.execute(f"{_MESSAGES} WHERE m.seq = ?", found))
    if not rows:
        return None
    events = db.execute('SELECT at, state, "by", rule FROM event WHERE seq = ? ORDER BY id', found)
    return rows[0], [EventRow(message_id, *row) for row in events]


def find_key(db: sqlite3.Connection, sender_id: str, key: str) -> MessageRow | None:
    """What the sender sent under the key."""
    rows = _messages(db.execute(f'{_MESSAGES} WHERE m.sender_id = ? AND m."key" = ?', (sender_id, key)))
    return rows[0] if rows else None


def sent_by(db: sqlite3.Connection, sender_id: str, limit: int) -> Sequence[MessageRow]:
    """The sender's last messages, newest first."""
    return _messages(
        db.execute(f"{_WITHOUT_TEXT} WHERE m.sender_id = ? ORDER BY m.seq DESC LIMIT ?", (sender_id, limit))
    )


def read_log(db: sqlite3.Connection, limit: int, since_ms: int | None, thread: str | None) -> Sequence[MessageRow]:
    """The last `limit` messages that match, oldest first; fewer when they have more than LOG_BYTES of text."""
    conditions: list[str] = []
    values: list[int | str] = []
    if thread is not None:
        # Two ways to one answer, because only what is not the first of its thread is indexed by it.
        first = db.execute(_SEQ_OF_ID, (thread,)).fetchone()
        conditions.append("m.seq IN (SELECT seq FROM content WHERE thread = ?1 AND thread <> id UNION ALL SELECT ?2)")
        values += [thread, first[0] if first else 0]
        conditions.append("c.thread = ?1")
    if since_ms is not None:
        conditions.append("m.sent_at >= ?")
        values.append(since_ms)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    rows: list[MessageRow] = []
    size = 0
    cursor = db.execute(f"{_MESSAGES} {where} ORDER BY m.seq DESC LIMIT ?", (*values, limit))
    for found in cursor:
        rows.append(MessageRow(*found))
        size += rows[-1].bytes
        if size > LOG_BYTES:
            break
    cursor.close()  # it holds a read transaction for as long as it is not at its end
    rows.reverse()
    return rows


def events_of(db: sqlite3.Connection, seqs: Sequence[int]) -> Sequence[EventRow]:
    """The events of these messages: by message, then in the order in which they were stored."""
    ordered = sorted(set(seqs))
    found: list[EventRow] = []
    for start in range(0, len(ordered), _BOUND_MOST):
        some = ordered[start : start + _BOUND_MOST]
        rows = db.execute(
            f"""SELECT c.id, e.at, e.state, e."by", e.rule FROM event e JOIN content c ON c.seq = e.seq
                WHERE e.seq IN ({", ".join("?" * len(some))}) ORDER BY e.seq, e.id""",  # noqa: S608 - placeholders
            some,
        )
        found += [EventRow(*row) for row in rows]
    return found


def open_to_look(path: str, wait_s: float) -> sqlite3.Connection:
    """A connection that cannot write. wait_s: how long it waits for a lock."""
    return sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=wait_s, isolation_level=None)


def find_damage(db: sqlite3.Connection) -> list[str]:
    """What is wrong with the file as SQLite sees it, a line each, whatever tables are in it. Reads all of it."""
    lines = [line for (text,) in db.execute("PRAGMA integrity_check(10)") for line in str(text).splitlines()]
    return [line for line in lines if line != "ok" and not line.startswith("*** in database")]


def find_faults(db: sqlite3.Connection) -> list[str]:
    """What is wrong with the file, worst first; nothing when it is sound. Reads all of it."""
    faults = find_damage(db)
    if not faults:
        halves = """SELECT count(*) FROM (
            SELECT seq FROM message WHERE seq NOT IN (SELECT seq FROM content)
            UNION ALL SELECT seq FROM content WHERE seq NOT IN (SELECT seq FROM message))"""
        (count,) = db.execute(halves).fetchone()
        if count:
            faults.append(f"messages stored by half: {count}")
    return faults


def count_rows(db: sqlite3.Connection) -> tuple[int, int, int, int]:
    """Messages, those of them that wait, sessions, and the latest time in any of them."""
    (counts,) = db.execute(
        f"""SELECT (SELECT count(*) FROM message), (SELECT count(*) FROM message WHERE state IN ({WAITING})),
                   (SELECT count(*) FROM session),
                   max(coalesce((SELECT max(sent_at) FROM message), 0),
                       coalesce((SELECT max(last_seen_at) FROM session), 0))"""  # noqa: S608 - constants
    )
    return int(counts[0]), int(counts[1]), int(counts[2]), int(counts[3])


def _messages(cursor: sqlite3.Cursor) -> list[MessageRow]:
    return [MessageRow(*row) for row in cursor]


def _session(row: tuple[object, ...]) -> SessionRow:
    values = dict(zip(SessionRow.__struct_fields__, row, strict=True))
    for name in _FLAGS:
        values[name] = bool(values[name])
    return SessionRow(**values)  # type: ignore[arg-type]  # as they were when they came in

"""The tables, as a list of steps that only ever grows, and the columns that the rows of the core fill.

Laws: a step that was released is never changed, only followed by another (tests/store/test_schema.py keeps their
hashes); `user_version` counts the steps that a file has; every step is one transaction. Refuses to know: when rows are
written, what they mean.

A message is two rows of one `seq`. `message` is narrow and changes: its state, its times, and what scans filter on, so
that a scan of a hundred thousand messages reads a tenth of the pages. `content` is wide and never changes, so that a
change of state does not write a body again; its body stands last, so that the other columns are read without it.

The insert path is hot, and what costs there is how many pages a commit touches. Ids are random: an index over all of
them would touch one page for each message. `content_by_id` is therefore cut into shelves of messages that were
accepted one after the other; new ids all land in the newest shelf, which is a few pages, and a look-up asks the
shelves one by one, newest first. Nothing is indexed that a scan of `message` can answer: not the sender, not the state.

Tables are not STRICT: SQLite has that since 3.37, and enterprise distributions that ship Python 3.11 link an older
one. Types are checked where rows are made.
"""

from __future__ import annotations

import sqlite3
from typing import Final

APPLICATION_ID: Final = 0x78736573
"""`application_id` of our files ("xses"), so that another program's database is never taken for a store."""

OLDEST_SQLITE: Final = (3, 24, 0)
"""Upserts."""

SHELF_BITS: Final = 10
"""1,024 messages share a shelf. At 100,000 stored messages a commit of 100 then takes half of the time, and writes a
fifth of the log, that it does with one index over all ids; a look-up of the oldest asks 100 shelves, in under 1 ms."""

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE session (
            id TEXT PRIMARY KEY, ref TEXT NOT NULL, name TEXT NOT NULL, label TEXT, harness TEXT NOT NULL,
            harness_session_id TEXT, cwd TEXT NOT NULL, pid INTEGER, pid_start INTEGER, boot_id TEXT,
            perm_class TEXT NOT NULL, delivery TEXT NOT NULL, can_reply INTEGER NOT NULL, modes TEXT NOT NULL,
            token_hash BLOB NOT NULL, machine TEXT NOT NULL, live INTEGER NOT NULL, noted INTEGER NOT NULL,
            started_at INTEGER NOT NULL, last_seen_at INTEGER NOT NULL, ended_at INTEGER
        ) WITHOUT ROWID""",
        """CREATE TABLE message (
            seq INTEGER PRIMARY KEY, state TEXT NOT NULL, sender_kind TEXT NOT NULL, sender_id TEXT,
            target_id TEXT NOT NULL, "key" TEXT, pair_seq INTEGER NOT NULL, sent_at INTEGER NOT NULL,
            expires_at INTEGER, handed_at INTEGER, delivered_at INTEGER, replied_at INTEGER, ended_at INTEGER
        )""",
        """CREATE UNIQUE INDEX message_by_key ON message (sender_id, "key") WHERE "key" IS NOT NULL""",
        """CREATE TABLE content (
            seq INTEGER PRIMARY KEY, id TEXT NOT NULL, sender_name TEXT NOT NULL, sender_harness TEXT, sender_cwd TEXT,
            target_name TEXT NOT NULL, bytes INTEGER NOT NULL, sha256 BLOB NOT NULL, summary TEXT, reply_to TEXT,
            thread TEXT NOT NULL, hop INTEGER NOT NULL, mode TEXT NOT NULL, rule TEXT NOT NULL, body TEXT NOT NULL
        )""",
        "CREATE INDEX content_by_id ON content (seq >> 10, id)",
        # A thread is called after the message that began it, which is found by its id: only what followed is indexed.
        "CREATE INDEX content_by_thread ON content (thread) WHERE thread <> id",
        """CREATE TABLE event (
            id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, at INTEGER NOT NULL, state TEXT NOT NULL, "by" TEXT, rule TEXT
        )""",
        "CREATE INDEX event_by_message ON event (seq)",
        """CREATE TABLE pin (
            sender_id TEXT, name TEXT, target_id TEXT NOT NULL, PRIMARY KEY (sender_id, name)
        ) WITHOUT ROWID""",
        """CREATE TABLE receipt (
            id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, message_id TEXT NOT NULL, state TEXT NOT NULL,
            at INTEGER NOT NULL, text TEXT NOT NULL
        )""",
        "CREATE INDEX receipt_by_session ON receipt (session_id, at)",
        # How far each pair has counted in the messages below `next_seq` of `meta`, of which some may be pruned. sender:
        # its id, or its kind where it has none.
        """CREATE TABLE pair (
            sender TEXT, target_id TEXT, pair_seq INTEGER NOT NULL, PRIMARY KEY (sender, target_id)
        ) WITHOUT ROWID""",
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
    ),
    (
        "ALTER TABLE session ADD COLUMN inbound TEXT",
        """CREATE TABLE hold (
            seq INTEGER PRIMARY KEY, message_id TEXT NOT NULL, cause TEXT NOT NULL, rule TEXT NOT NULL,
            sender_class TEXT NOT NULL, held_at INTEGER NOT NULL, expires_at INTEGER, answers INTEGER,
            released_at INTEGER, released_rule TEXT, released_by TEXT
        )""",
        """CREATE TABLE trust (
            id TEXT PRIMARY KEY, sender_id TEXT NOT NULL, sender_name TEXT NOT NULL, target_id TEXT NOT NULL,
            target_name TEXT NOT NULL, scope TEXT NOT NULL, "by" TEXT NOT NULL, at INTEGER NOT NULL, until INTEGER
        ) WITHOUT ROWID""",
    ),
    (
        """CREATE TABLE watch (
            asker_id TEXT, target_id TEXT, at INTEGER NOT NULL, until INTEGER NOT NULL,
            PRIMARY KEY (asker_id, target_id)
        ) WITHOUT ROWID""",
    ),
    (
        "ALTER TABLE message ADD COLUMN cause TEXT",
        "ALTER TABLE receipt ADD COLUMN wake INTEGER NOT NULL DEFAULT 0",
    ),
    (
        "ALTER TABLE watch ADD COLUMN hop INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE receipt ADD COLUMN hop INTEGER NOT NULL DEFAULT 0",
    ),
    (
        """CREATE TABLE granted (
            session_id TEXT PRIMARY KEY, directory TEXT NOT NULL, "by" TEXT NOT NULL, at INTEGER NOT NULL, until INTEGER
        ) WITHOUT ROWID""",
    ),
    ("ALTER TABLE message ADD COLUMN subagent INTEGER NOT NULL DEFAULT 0",),
)
"""Step n makes a file of version n + 1. Append only."""

VERSION: Final = len(MIGRATIONS)
"""What this product writes and reads."""

MESSAGE_COLUMNS: Final = (
    "seq",
    "state",
    "sender_kind",
    "sender_id",
    "target_id",
    "key",
    "pair_seq",
    "sent_at",
    "expires_at",
    "handed_at",
    "delivered_at",
    "replied_at",
    "ended_at",
    "cause",
    "subagent",
)
CONTENT_COLUMNS: Final = (
    "seq",
    "id",
    "sender_name",
    "sender_harness",
    "sender_cwd",
    "target_name",
    "bytes",
    "sha256",
    "summary",
    "reply_to",
    "thread",
    "hop",
    "mode",
    "rule",
    "body",
)


def apply_migration(db: sqlite3.Connection, version: int) -> None:
    """Takes the file from `version` to the next, within the caller's transaction."""
    for statement in MIGRATIONS[version]:
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {version + 1}")

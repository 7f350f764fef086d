"""The store on SQLite: one file in WAL mode, one writer, a reader and a checkpointer beside it.

Laws: transactions are explicit; every failure is a StoreError and leaves the files as they were. One connection writes,
under `_writing`; one reads, under `_reading`; one checkpoints, under `_checkpointing`. Who takes several takes them in
the order checkpointing, writing, reading. Refuses to know: why something is stored, when a commit is due.

The log and its checkpoints. SQLite's own checkpoint lands on whoever commits, for milliseconds, so it is off, and
`checkpoint` moves the log from another thread. Two things need care:

- Beside a busy writer the log is never wholly moved at the moment when SQLite could start it again at its beginning,
  and would grow for ever. Past `LOG_CAP` the last bit is therefore moved while the writer waits.
- SQLite before 3.51.3 can lose commits when a checkpoint begins on a log that is wholly moved already, just while a
  commit starts that log again ("the WAL-reset bug", https://sqlite.org/wal.html#walresetbug). So a checkpoint runs
  beside the writer only when a row was inserted since the last one ended: then part of the log is not moved, no commit
  can start it again before this checkpoint has done its work, and the race has no room. Otherwise the writer waits for
  the little that is left.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Final, Literal, TypeVar

from xsessiond.store import sqlite_reads as reads
from xsessiond.store.contract import EventRow, Integrity, MessageRow, Op, Snapshot, StoreError
from xsessiond.store.looking import require_usable
from xsessiond.store.schema import OLDEST_SQLITE, VERSION, apply_migration
from xsessiond.store.sqlite_errors import Transaction, translated_errors
from xsessiond.store.sqlite_files import prepare_files
from xsessiond.store.sqlite_writes import (
    delete_ended_sessions,
    delete_messages,
    find_prunable,
    write_ops,
)

Durability = Literal["full", "normal"]

LOG_CAP: Final = 16 << 20
"""Bytes of the log file past which a checkpoint makes it start again; what SQLite cuts it back to then."""
LOG_ROOM: Final = 8 << 20
"""Bytes to which the log's file grows ahead of need: what comes between two checkpoints, and as much again."""
WRITER_CACHE_KIB: Final = 4096
READER_CACHE_KIB: Final = 1024
"""Page caches: large enough for the pages that one commit touches, small beside the broker's own memory."""
BUSY_MS: Final = 100
"""How long the writer waits for a lock that only a foreign program can hold."""
PRUNE_BATCH: Final = 128
"""Messages deleted in one transaction, so that a commit waits a few milliseconds for it at most."""
_COMMIT_LOG_BYTES, _ROW_LOG_BYTES = 4 * 4120, 1400
"""What a commit, and each row in it, adds to the log, bodies aside: about as measured."""

_T = TypeVar("_T")


class SqliteStore:
    """A `Store` in the file `path`, made if missing (0600, its directory 0700).

    durability: `full` survives a power cut, `normal` a kill at any point. full_fsync: ask macOS for a flush of the
    disk's own cache, which it leaves out otherwise.
    Raises StoreError when the file cannot be used, StoreNewer when a newer version wrote it; either leaves it alone.
    """

    def __init__(self, path: str | os.PathLike[str], durability: Durability, *, full_fsync: bool = False) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._log_path = self.path + "-wal"
        self._writing, self._reading, self._checkpointing = threading.Lock(), threading.Lock(), threading.Lock()
        self._logged = self._moved = 0
        self._inserted = False
        self._connections: list[sqlite3.Connection] = []
        self._settings = (
            ("synchronous", durability.upper()),
            ("fullfsync", int(full_fsync)),
            ("checkpoint_fullfsync", int(full_fsync)),
            ("wal_autocheckpoint", 0),
            ("journal_size_limit", LOG_CAP),
            ("mmap_size", 0),
            ("temp_store", "MEMORY"),
            ("secure_delete", "ON"),  # what was pruned is gone from the file, as far as SQLite can see to it
            ("trusted_schema", 0),
        )
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            needed = ".".join(map(str, OLDEST_SQLITE))
            raise StoreError(
                f"SQLite {sqlite3.sqlite_version} is too old; {needed} or newer is needed.", transient=False
            )
        if prepare_files(self.path):
            require_usable(self.path)
        try:
            with translated_errors(self.path):
                self._writer = self._connect(WRITER_CACHE_KIB, BUSY_MS)
                self._migrate()
                self._reader = self._connect(READER_CACHE_KIB, BUSY_MS)
                self._reader.execute("PRAGMA query_only = ON")
                # It never waits for a reader, because the writer may be waiting for it; the next one moves the rest.
                self._checkpointer = self._connect(READER_CACHE_KIB, 0)
        except BaseException:
            self.close()
            raise
        self._files = self._identify_files()
        # A log that a killed broker left behind is there to be moved.
        self._logged = self._log_file_bytes()

    def _connect(self, cache_kib: int, busy_ms: int) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=busy_ms / 1000, isolation_level=None, check_same_thread=False)
        self._connections.append(db)
        (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreError(
                f"The store {self.path} cannot keep a write-ahead log there (journal mode {mode}). "
                "Use a local disk, not a network share, and make the file writable for this user.",
                transient=False,
            )
        for name, value in (*self._settings, ("cache_size", -cache_kib)):
            db.execute(f"PRAGMA {name} = {value}")
        return db

    def _migrate(self) -> None:
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        for number in range(version, VERSION):
            with Transaction(self._writer, self.path) as db:
                apply_migration(db, number)

    # -- writing ------------------------------------------------------------------------------------------------------

    def commit(self, ops: Sequence[Op]) -> None:
        """See `Store.commit`."""
        if not ops:
            return
        with self._writing:
            if self._connections and self._identify_files() != self._files:
                raise StoreError(
                    f"The store {self.path} was removed or replaced while it was in use. Nothing was stored; stop "
                    "xsessiond and start it again.",
                    transient=False,
                )
            with Transaction(self._writer, self.path) as db:
                size, inserted = write_ops(db, ops)
            self._count_log(len(ops), size)
            if inserted:
                self._inserted = True

    def _identify_files(self) -> list[tuple[int, int] | None]:
        """Which files stand under our names. SQLite would go on writing to those that it opened, names or not, and
        what it wrote there is gone with the broker."""
        files: list[tuple[int, int] | None] = []
        for path in (self.path, self._log_path):
            try:
                found = os.stat(path)
                files.append((found.st_dev, found.st_ino))
            except OSError:
                files.append(None)
        return files

    def prove_writer(self) -> None:
        """See `Store.prove_writer`."""
        with self._writing, Transaction(self._writer, self.path):
            pass

    def prune(self, *, older_than_ms: int) -> int:
        """See `Store.prune`. In short transactions, so that commits go on between them."""
        deleted, after = 0, 0
        while seqs := self._read(partial(find_prunable, older_than_ms=older_than_ms, after=after, limit=PRUNE_BATCH)):
            self._write(partial(delete_messages, seqs=seqs), rows=len(seqs))
            deleted, after = deleted + len(seqs), seqs[-1]
        self._write(partial(delete_ended_sessions, older_than_ms=older_than_ms))
        return deleted

    def _write(self, work: Callable[[sqlite3.Connection], None], rows: int = 1) -> None:
        with self._writing:
            with Transaction(self._writer, self.path) as db:
                work(db)
            self._count_log(rows, 0)

    def _count_log(self, rows: int, size: int) -> None:
        self._logged += _COMMIT_LOG_BYTES + _ROW_LOG_BYTES * rows + size

    # -- log ----------------------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """See `Store.checkpoint`. Where something foreign keeps it from moving all, the next one goes on."""
        with self._checkpointing, translated_errors(self.path):
            begin = self._logged
            try:
                with nullcontext() if self._inserted else self._writing:
                    self._move_log("PASSIVE")
                if self._log_file_bytes() > LOG_CAP:
                    with self._writing:
                        begin = self._logged
                        self._move_log("RESTART")
            finally:
                # Under the lock: a commit that this one has moved shall not say afterwards that it inserted a row.
                with self._writing:
                    self._inserted = False
                    self._make_room()
            self._moved = begin

    def _make_room(self) -> None:
        """Lets the log's file grow ahead of need, by a transaction that does not fit into memory and is taken back: a
        commit that makes the file grow costs twice one that does not. Where there is no room, things stay as they are.
        """
        missing = LOG_ROOM - self._log_file_bytes()
        if missing <= 0:
            return
        db = self._writer
        db.execute("PRAGMA cache_size = 10")
        try:
            db.execute("BEGIN IMMEDIATE")
            db.execute("CREATE TABLE room (zeros)")
            db.execute("INSERT INTO room VALUES (zeroblob(?))", (missing,))
        except sqlite3.Error:
            pass
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")
            db.execute(f"PRAGMA cache_size = {-WRITER_CACHE_KIB}")

    def _move_log(self, mode: str) -> None:
        self._checkpointer.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()

    def log_bytes(self) -> int:
        """See `Store.log_bytes`. Counted from what was committed: the file keeps its size when the log starts again."""
        return min(self._logged - self._moved, self._log_file_bytes())

    def _log_file_bytes(self) -> int:
        try:
            return os.stat(self._log_path).st_size
        except OSError:
            return 0

    # -- reading ------------------------------------------------------------------------------------------------------

    def load(self) -> Snapshot:
        """See `Store.load`."""
        return self._read(reads.load_snapshot)

    def find_message(self, message_id: str) -> tuple[MessageRow, Sequence[EventRow]] | None:
        """See `Store.find_message`."""
        return self._read(lambda db: reads.find_message(db, message_id))

    def find_key(self, sender_id: str, key: str) -> MessageRow | None:
        """See `Store.find_key`."""
        return self._read(lambda db: reads.find_key(db, sender_id, key))

    def sent_by(self, sender_id: str, limit: int) -> Sequence[MessageRow]:
        """See `Store.sent_by`."""
        return self._read(lambda db: reads.sent_by(db, sender_id, limit))

    def read_log(self, *, limit: int, since_ms: int | None, thread: str | None) -> Sequence[MessageRow]:
        """See `Store.read_log`."""
        return self._read(lambda db: reads.read_log(db, limit, since_ms, thread))

    def events_of(self, seqs: Sequence[int]) -> Sequence[EventRow]:
        """See `Store.events_of`."""
        return self._read(lambda db: reads.events_of(db, seqs))

    def _read(self, question: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._reading, translated_errors(self.path):
            return question(self._reader)

    def check(self) -> Integrity:
        """See `Store.check`. On a connection of its own: it may take seconds, and other reads go on."""
        try:
            with translated_errors(self.path):
                db = reads.open_to_look(self.path, BUSY_MS / 1000)
                try:
                    faults = reads.find_faults(db)
                finally:
                    db.close()
        except StoreError as problem:
            return Integrity(ok=False, detail=str(problem))
        if faults:
            return Integrity(
                ok=False,
                detail=f"The store {self.path} is damaged ({faults[0]}). "
                "Nothing was deleted; stop the broker, keep a copy of the file, then move it away.",
            )
        return Integrity(ok=True, detail=f"The store {self.path} is sound.")

    def close(self) -> None:
        """See `Store.close`. What the log holds is moved into the file as the last connection goes."""
        with self._checkpointing, self._writing, self._reading:
            while self._connections:
                # The writer was opened first and closes last: it may write what closing moves.
                try:
                    self._connections.pop().close()
                except sqlite3.Error:
                    pass

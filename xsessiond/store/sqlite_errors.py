"""What SQLite says, as a `StoreError` with a sentence for people; and the transaction that ends well or not at all.

Laws: every failure of the sqlite3 module becomes a StoreError here; `transient` says whether waiting may help. No
answer to any of them deletes or replaces a file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

from xsessiond.store.contract import StoreError

_LOCKED: Final = "is locked by another program. Nothing was stored; close what has it open, then try again."
_WRITABLE: Final = "Nothing was stored; make the file and its directory writable for this user."
_SENTENCES: Final[dict[int, tuple[bool, str]]] = {
    sqlite3.SQLITE_BUSY: (True, _LOCKED),
    sqlite3.SQLITE_LOCKED: (True, _LOCKED),
    sqlite3.SQLITE_FULL: (
        True,
        "cannot grow: the disk is full. Nothing was stored; free some space, then try again.",
    ),
    sqlite3.SQLITE_IOERR: (
        True,
        "could not be read or written ({detail}). Nothing was stored; check that the disk has room and is sound.",
    ),
    sqlite3.SQLITE_NOMEM: (True, "needs more memory than there is. Nothing was stored; try again later."),
    sqlite3.SQLITE_CANTOPEN: (
        True,
        "could not be opened. Check that its directory exists and that this user may write there.",
    ),
    sqlite3.SQLITE_READONLY: (False, f"is read-only. {_WRITABLE}"),
    sqlite3.SQLITE_PERM: (False, f"is not accessible. {_WRITABLE}"),
    sqlite3.SQLITE_CORRUPT: (
        False,
        "is damaged. Nothing was deleted; stop the broker, keep a copy of the file, then move it away.",
    ),
    sqlite3.SQLITE_NOTADB: (False, "is not a database. Nothing was deleted; move the file away if it is not needed."),
    sqlite3.SQLITE_CONSTRAINT: (
        False,
        "refused a row that contradicts another ({detail}). Nothing was stored; this is a bug.",
    ),
}

FAILURES: Final = (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError)
"""What a statement can fail with. The last two: a value that SQLite cannot take."""


def translate_error(path: str, problem: Exception) -> StoreError:
    """The same problem in our words. path: of the store."""
    code = getattr(problem, "sqlite_errorcode", None)
    if code is None:
        # A text that is no Unicode, a number past 64 bits, a closed connection: ours to repair, not the disk's.
        return StoreError(
            f"The store {path} could not do it ({problem}). Nothing was stored; this is a bug.", transient=False
        )
    # The low byte is the kind, the rest its variety.
    transient, sentence = _SENTENCES.get(code & 0xFF, (False, "could not do it ({detail}). Nothing was stored."))
    detail = f"{getattr(problem, 'sqlite_errorname', code)}: {problem}"
    return StoreError(f"The store {path} {sentence.format(detail=detail)}", transient=transient)


@contextmanager
def translated_errors(path: str) -> Iterator[None]:
    """Within it, every failure comes out as a StoreError."""
    try:
        yield
    except FAILURES as problem:
        raise translate_error(path, problem) from problem


class Transaction:
    """BEGIN IMMEDIATE … COMMIT, or nothing. Failures come out as StoreErrors. Not a generator: commits are many."""

    __slots__ = ("_db", "_path")

    def __init__(self, db: sqlite3.Connection, path: str) -> None:
        self._db, self._path = db, path

    def __enter__(self) -> sqlite3.Connection:
        self._execute("BEGIN IMMEDIATE")
        return self._db

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:
            self._execute("COMMIT")
            return
        self._roll_back()
        if isinstance(problem, FAILURES):
            raise translate_error(self._path, problem) from problem

    def _execute(self, statement: str) -> None:
        try:
            self._db.execute(statement)
        except FAILURES as problem:
            self._roll_back()
            raise translate_error(self._path, problem) from problem

    def _roll_back(self) -> None:
        # Some failures have rolled back already; and what happens here adds nothing to the failure that is being told.
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error:
            pass

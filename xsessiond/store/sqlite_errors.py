"""What SQLite says, as a `StoreError` with a sentence for people.

Laws: every exception of the sqlite3 module becomes a StoreError here; `transient` says whether waiting may help. No answer to any
of them deletes or replaces a file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from xsessiond.store.contract import StoreError

_SENTENCES: Final[dict[int, tuple[bool, str]]] = {
    sqlite3.SQLITE_BUSY: (
        True,
        "is locked by another program. Nothing was stored; close what has it open, then try again.",
    ),
    sqlite3.SQLITE_LOCKED: (
        True,
        "is locked by another program. Nothing was stored; close what has it open, then try again.",
    ),
    sqlite3.SQLITE_FULL: (True, "cannot grow: the disk is full. Nothing was stored; free some space, then try again."),
    sqlite3.SQLITE_IOERR: (
        True,
        "could not be read or written ({detail}). Nothing was stored; the disk may be failing.",
    ),
    sqlite3.SQLITE_NOMEM: (True, "needs more memory than there is. Nothing was stored; try again later."),
    sqlite3.SQLITE_CANTOPEN: (
        True,
        "could not be opened. Check that its directory exists and that this user may write there.",
    ),
    sqlite3.SQLITE_READONLY: (
        False,
        "is read-only. Nothing was stored; make the file and its directory writable for this user.",
    ),
    sqlite3.SQLITE_PERM: (
        False,
        "is not accessible. Nothing was stored; make the file and its directory writable for this user.",
    ),
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
"""What a statement can fail with; the last two: a value that SQLite cannot take."""


def translate_error(path: str, problem: Exception) -> StoreError:
    """The same problem in our words. `path`: of the store."""
    code = getattr(problem, "sqlite_errorcode", None)
    if code is None:
        # A closed connection, a text that is no Unicode, a number that is no 64-bit integer: ours to repair, not the disk's.
        return StoreError(
            f"The store {path} could not do it ({problem}). Nothing was stored; this is a bug.", transient=False
        )
    transient, sentence = _SENTENCES.get(code & 0xFF, (False, "could not do it ({detail}). Nothing was stored."))
    detail = f"{getattr(problem, 'sqlite_errorname', code)}: {problem}"
    return StoreError(f"The store {path} {sentence.format(detail=detail)}", transient=transient)


@contextmanager
def translated_errors(path: str) -> Iterator[None]:
    """Within it, every failure of SQLite or of a value that it cannot take comes out as a StoreError."""
    try:
        yield
    except FAILURES as problem:
        raise translate_error(path, problem) from problem

"""Looking at a store, and copying it, from a program that does not serve it: beside a broker, or where none runs.

Laws: the store is opened for reading only, so that nothing in it can change, whatever its state; a copy appears whole
under its name or not at all, replaces nothing, and is as private as the store. Refuses to know: brokers, who asked.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final

import msgspec

from xsessiond.store import sqlite_reads as reads
from xsessiond.store.contract import StoreError, StoreNewer
from xsessiond.store.schema import APPLICATION_ID, VERSION
from xsessiond.store.sqlite_errors import translated_errors
from xsessiond.store.sqlite_files import SUFFIXES, refuse_foreign
from xsessiond.store.sqlite_reads import open_to_look

WAIT_S: Final = 2.0
"""How long a lock is waited for that a broker never holds for so long."""
_OF_THE_SOURCE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
"""Failures of a copy that are not the copy's: nobody else has that open, and what is in it comes from the store."""
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""How file systems without hard links (a memory stick's) say so."""


class NoStore(StoreError):
    """There is none at the path."""

    def __init__(self, path: str) -> None:
        super().__init__(f"There is no store at {path}; the first broker makes it.", transient=False)


class TargetTaken(StoreError):
    """Something lies where the copy should go."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} exists already, and nothing is overwritten. Name another file.", transient=False)


class TargetUnusable(StoreError):
    """The copy cannot be where it should go. why: what the system says of it."""

    def __init__(self, path: str, why: str | None) -> None:
        super().__init__(
            f"The copy {path} cannot be written: {why}. Nothing of it was kept. Name a file in a folder that exists, "
            "has room, and is yours to write in.",
            transient=False,
        )


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. ok: the file is sound. usable: this version of the product can use it. format: the version of its
    tables; format_known: the newest that this product reads. bytes: of the file and its log. messages, waiting,
    sessions: rows, None where they cannot be counted. newest_ms: the latest time that a row knows of. detail: one
    sentence."""

    path: str
    ok: bool
    usable: bool
    detail: str
    format: int
    format_known: int
    bytes: int
    messages: int | None
    waiting: int | None
    sessions: int | None
    newest_ms: int | None


def examine(path: str) -> Report:
    """Checks all of the store at `path` (absolute). Raises StoreError where it cannot be opened, NoStore."""
    with _opened(path) as db:
        version = _read_version(db, path)
        newer = version > VERSION
        faults = _find_faults(db, newer=newer)
        counts = None if newer or faults else reads.count_rows(db)
    if faults:
        detail = f"It is damaged: {faults[0]}."
    elif newer:
        detail = f"It is sound, and was written by a newer xsessiond (format {version}; this one knows {VERSION})."
    else:
        detail = "It is sound."
    return Report(
        path=path,
        ok=not faults,
        usable=not faults and not newer,
        detail=detail,
        format=version,
        format_known=VERSION,
        bytes=_size_of(path),
        messages=counts[0] if counts else None,
        waiting=counts[1] if counts else None,
        sessions=counts[2] if counts else None,
        newest_ms=counts[3] if counts else None,
    )


def require_usable(path: str) -> None:
    """Looks whether a store is ours and of a version that we know, or not made yet; through a connection that cannot
    write, so that a newer one stays as its own version left it. Raises StoreError, StoreNewer."""
    try:
        with _opened(path) as db:
            version = _read_version(db, path)
    except NoStore:
        return
    if version > VERSION:
        raise StoreNewer(
            f"The store {path} was written by a newer xsessiond (format {version}, this one knows {VERSION}). "
            "It was left as it is; install the newer version again.",
            transient=False,
        )


def back_up(path: str, target: str) -> Report:
    """Copies the store at `path` as it is at one moment, also while a broker writes it, to the new file `target` (both
    absolute), and returns what was found in the copy. Raises StoreError, NoStore, TargetTaken; then there is no copy.
    """
    if os.path.lexists(target):
        raise TargetTaken(target)
    part = f"{target}.part"
    try:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.close(descriptor)
    except FileExistsError:
        raise TargetTaken(part) from None  # of a copy that is being made, or was broken off
    except OSError as problem:
        raise TargetUnusable(target, problem.strerror) from None
    try:
        with _opened(path) as db, closing(sqlite3.connect(part, isolation_level=None)) as copy:
            _read_version(db, path)
            try:
                db.backup(copy)  # all pages in one step: a broker's commits go on meanwhile, and are not in it
                copy.execute("PRAGMA journal_mode = DELETE")  # one file that is complete by itself
            except sqlite3.Error as problem:
                if problem.sqlite_errorcode & 0xFF in _OF_THE_SOURCE:
                    raise
                raise TargetUnusable(target, str(problem)) from None
        found = examine(part)
        if not found.ok:
            raise StoreError(f"The copy was given up: {found.detail}", transient=False)
        _publish(part, target)
    finally:
        for suffix in (*SUFFIXES, "-journal"):
            with suppress(FileNotFoundError):
                os.unlink(part + suffix)
    return msgspec.structs.replace(found, path=target)


def _read_version(db: sqlite3.Connection, path: str) -> int:
    """The version of the tables. Raises NoStore where none are, since the making of the store was cut short, and
    StoreError for another program's file."""
    (owner,), (version,), (pages,), (tables,) = (
        db.execute(question).fetchone()
        for question in (
            "PRAGMA application_id",
            "PRAGMA user_version",
            "PRAGMA page_count",
            "SELECT count(*) FROM sqlite_master",
        )
    )
    if not owner and not tables and (pages or not os.path.getsize(path)):
        raise NoStore(path)
    if owner != APPLICATION_ID:  # or what is shorter than a page, and so no database at all
        raise StoreError(f"{path} is another program's file, so it is left alone. Move it away.", transient=False)
    return int(version)


def _find_faults(db: sqlite3.Connection, *, newer: bool) -> list[str]:
    try:
        return reads.find_damage(db) if newer else reads.find_faults(db)
    except sqlite3.DatabaseError as problem:
        if problem.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
        return [str(problem)]  # so damaged that the check itself cannot be made


@contextmanager
def _opened(path: str) -> Iterator[sqlite3.Connection]:
    """The store, for reading, while nothing in it changes."""
    try:
        for suffix in SUFFIXES:
            refuse_foreign(path + suffix)
    except OSError as problem:
        raise StoreError(f"{path} cannot be looked at: {problem.strerror}.", transient=True) from None
    if not os.path.exists(path):
        raise NoStore(path)
    with translated_errors(path), closing(open_to_look(path, WAIT_S)) as db:
        yield db


def _publish(part: str, target: str) -> None:
    """Gives the copy its name, once it is on the disk. Raises StoreError."""
    try:
        _sync(part)
        try:
            os.link(part, target)  # unlike a rename it never replaces
        except OSError as problem:
            if problem.errno not in _NO_LINKS:
                raise
            if os.path.lexists(target):
                raise TargetTaken(target) from None
            os.rename(part, target)
        _sync(os.path.dirname(target))
    except FileExistsError:
        raise TargetTaken(target) from None
    except OSError as problem:
        raise TargetUnusable(target, problem.strerror) from None


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _size_of(path: str) -> int:
    size = 0
    for suffix in ("", "-wal"):
        with suppress(OSError):
            size += os.stat(path + suffix).st_size
    return size

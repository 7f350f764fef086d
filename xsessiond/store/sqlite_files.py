"""The store's files: made private, and refused when they are not ours.

Laws: nothing that exists is replaced, or followed through a symbolic link; what we make is 0600 in a 0700 directory,
whatever the umask. A file that exists is looked at and never opened here: closing it would give up the locks that
SQLite may hold on it in this process.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from xsessiond.store.contract import StoreError

_LASTING: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
SUFFIXES: Final = ("", "-wal", "-shm")
"""Of the main file, the log and the log's index."""


def prepare_files(path: str) -> bool:
    """Makes directory and file where missing. Returns whether the file existed with content. Raises StoreError."""
    try:
        _prepare_directory(os.path.dirname(path))
        for suffix in SUFFIXES:
            refuse_foreign(path + suffix)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.fchmod(descriptor, 0o600)
            finally:
                os.close(descriptor)
            return False
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.chmod(path, stat.S_IMODE(found.st_mode) & 0o700)
    except OSError as problem:
        raise StoreError(
            f"The store {path} could not be opened ({problem.strerror or problem}). "
            "Check that its directory exists and that this user may write there.",
            transient=problem.errno not in _LASTING,
        ) from problem
    return found.st_size > 0


def _prepare_directory(directory: str) -> None:
    try:
        found = os.stat(directory)
    except FileNotFoundError:
        _prepare_parents(directory)
        return
    if not stat.S_ISDIR(found.st_mode):
        raise StoreError(
            f"{directory} is not a directory, so the store cannot be there. Move it away.", transient=False
        )
    if found.st_uid != os.geteuid():
        raise StoreError(
            f"{directory} belongs to another user (uid {found.st_uid}), so the store is not kept there. "
            "Use a directory of your own.",
            transient=False,
        )
    if found.st_mode & 0o022:
        raise StoreError(
            f"{directory} can be written by other users, so the store is not kept there. Run: chmod 700 {directory}",
            transient=False,
        )


def _prepare_parents(directory: str) -> None:
    parent = os.path.dirname(directory)
    if not os.path.isdir(parent):
        _prepare_parents(parent)
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return
    os.chmod(directory, 0o700)  # a umask may have taken bits from us too


def refuse_foreign(path: str) -> None:
    """Raises StoreError, which says why, if what lies at `path` is not a plain file of this user."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode):
        raise StoreError(
            f"{path} is a symbolic link; the store is not opened through one. Remove the link.", transient=False
        )
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{path} is not a plain file, so it cannot be the store. Move it away.", transient=False)
    if found.st_uid != os.geteuid():
        raise StoreError(
            f"{path} belongs to another user (uid {found.st_uid}), so it is not opened. "
            "Move it away or change its owner.",
            transient=False,
        )

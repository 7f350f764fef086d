"""The file with the user's passphrase, and the one place where it is tried.

Laws: one try at a time, in a thread; the text goes nowhere else. That the file was changed is told: any program of the
user's could replace it. Refuses to know: what is decided with it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from hashlib import sha256
from math import ceil
from typing import NamedTuple

import trio

from xsessiond.core.passphrase import BadRecord, Tries, matches

MOST_BYTES = 1024
SET_ONE = "Set one with `xsessionctl passphrase`."


class Checked(NamedTuple):
    """problem: why it could not be told, as a sentence for the user."""

    ok: bool
    problem: str | None = None


class Unusable(Exception):
    """The file cannot be used. The text is a sentence."""


class PassphraseFile:
    """Tries passphrases. report: told, in a sentence, that the file is another one than before."""

    __slots__ = ("_path", "_report", "_seen", "_tries", "_turn")

    def __init__(self, path: str, report: Callable[[str], None]) -> None:
        self._path, self._report = path, report
        self._tries = Tries()
        self._turn = trio.Lock()
        self._seen = _digest(path)

    def is_set(self) -> bool:
        """Whether there is a passphrase, usable or not."""
        return os.path.lexists(self._path)

    def notice_change(self) -> None:
        """Reports if the file was made, replaced or removed since it was last looked at."""
        found = _digest(self._path)
        if found != self._seen:
            before, self._seen = self._seen, found
            what = "set" if before is None else "removed" if found is None else "changed"
            self._report(f"The passphrase for decisions was {what}.")

    async def check(self, text: str) -> Checked:
        """Whether it is the passphrase. Wrong ones cost time, for all who try."""
        async with self._turn:
            self.notice_change()
            wait = self._tries.wait(trio.current_time())
            if wait > 0:
                return Checked(ok=False, problem=f"Too many wrong passphrases. Try again in {ceil(wait)} s.")
            try:
                record = _read(self._path)
                ok = await trio.to_thread.run_sync(matches, record, text)
            except (Unusable, BadRecord) as problem:
                return Checked(ok=False, problem=f"Nobody can decide: {self._path} cannot be used. {problem}")
            except FileNotFoundError:
                return Checked(ok=False, problem=f"Nobody can decide: no passphrase is set. {SET_ONE}")
            except (OSError, ValueError, MemoryError, AttributeError) as problem:
                return Checked(ok=False, problem=f"Nobody can decide: the passphrase cannot be checked ({problem}).")
            self._tries.note(trio.current_time(), right=ok)
            return Checked(ok)


def _read(path: str) -> str:
    """The file's text. Raises Unusable, OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Unusable("It is not a file.")
        if found.st_uid not in (os.geteuid(), 0):
            raise Unusable(f"It belongs to uid {found.st_uid}.")
        if found.st_mode & 0o077:
            raise Unusable(f"Others may read it. Run: chmod 600 '{path}'")
        return os.read(descriptor, MOST_BYTES).decode("ascii", "replace")
    finally:
        os.close(descriptor)


def _digest(path: str) -> bytes | None:
    try:
        return sha256(_read(path).encode()).digest()
    except FileNotFoundError:
        return None
    except (OSError, Unusable) as problem:
        return sha256(f"unusable: {problem}".encode()).digest()

"""Lines for the people who run the machine: one event a line, `key=value`, to standard error and the log file.

Laws: never a body, a token, or what a peer wrote about itself beyond ids; quiet when all is well (`info` goes to the
file only when asked for). The file is bounded: at its limit it becomes `.1`, and the `.1` before it goes. Refuses to
know: what is worth a line.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Mapping

LEVELS = {"debug": 0, "info": 1, "warning": 2, "error": 3}
PRIORITY = {"debug": "<7>", "info": "<6>", "warning": "<4>", "error": "<3>"}
"""The journal's prefixes (sd-daemon(3))."""
MOST_BYTES = 1 << 20


def is_journal(environ: Mapping[str, str], fd: int = 2) -> bool:
    """Whether the descriptor, standard error, leads into systemd's journal. The variable alone says nothing: a terminal
    that was started by a service hands it on to all that is started there (systemd.exec(5), JOURNAL_STREAM)."""
    try:
        found = os.fstat(fd)
    except OSError:
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def shorten_errors(fd: int = 2) -> None:
    """Empty the file that standard error goes to, if it has outgrown a log file: launchd adds to it for ever."""
    try:
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode) and found.st_size > MOST_BYTES:
            os.ftruncate(fd, 0)
    except OSError:
        pass


class Log:
    """Writes lines of at least `level`. path: the log file, or None. journal: standard error is the journal's."""

    __slots__ = ("_fd", "_journal", "_level", "_path", "_size")

    def __init__(self, path: str | None, level: str, *, journal: bool) -> None:
        self._level, self._journal = LEVELS[level], journal
        self._path = None if journal else path
        self._fd, self._size = -1, 0
        try:
            self._open()  # now: when it is needed there may be no descriptor left
        except OSError:
            pass

    def write(self, level: str, what: str, facts: dict[str, object]) -> None:
        """One line. Never raises: a full disk must not end the broker."""
        if LEVELS[level] < self._level:
            return
        told = "".join(f" {key}={_value(value)}" for key, value in facts.items() if value is not None)
        line = f"{level}: {_in_one_line(what)}{told}"
        try:
            if self._journal:
                print(PRIORITY[level] + line, file=sys.stderr, flush=True)
            else:
                self._write_file(time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()) + line + "\n")
        except (OSError, ValueError):
            pass

    def close(self) -> None:
        """Closes the file. What comes after opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write_file(self, line: str) -> None:
        if self._path is None:
            return
        if self._fd >= 0 and self._size > MOST_BYTES:
            self.close()
            os.replace(self._path, self._path + ".1")
        self._open()
        # Unbuffered: what a full disk did not take is lost, and does not gather in memory.
        self._size += os.write(self._fd, line.encode("utf-8", "backslashreplace"))

    def _open(self) -> None:
        if self._fd < 0 and self._path is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self._path, flags, 0o600)
            self._size = os.fstat(self._fd).st_size


def _in_one_line(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _value(value: object) -> str:
    text = str(value)
    return text if text.isprintable() and text and not set(' "=') & set(text) else ascii(text)

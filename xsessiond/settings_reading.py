"""Settings files on the disk, for the broker and for who checks them: read only if nobody else could have written them.

A project's files are those from the session's folder up to its repository's, the nearest one with a `.git`; without one
the folder alone is the project. A `.git` of another user's does not count: who may write in a folder above (/tmp) shall
not say what belongs together. A project's file of another user's is passed over, since whoever cloned a repository owns
its files; all else that is wrong with one holds.

Laws: nothing is read but regular files, of a bounded size, through the descriptor that was checked. Blocking; for a
thread. Refuses to know: what was good the last time, what the values mean together.
"""

from __future__ import annotations

import errno
import os
import stat

from xsessiond.core.settings_text import MAX_TEXT, FileSettings, Problem, broken_settings, read_settings
from xsessiond.core.toml_spots import START, Spot

PROJECT_FILES = (".xsessiond.toml", ".xsessiond.local.toml")
REPOSITORY = ".git"
MAX_BYTES = 4 * MAX_TEXT
"""More bytes than this are too many characters, whatever they are."""


class Unusable(Exception):
    """Why a file is not used. what: goes on from its name. foreign: it belongs to another user."""

    def __init__(self, what: str, spot: Spot = START, *, foreign: bool = False) -> None:
        super().__init__(what)
        self.what, self.spot, self.foreign = what, spot, foreign


def find_project(cwd: str) -> tuple[list[str], str | None]:
    """The folders whose files count, from the project's own downwards, and the project's. Empty where `cwd` is none."""
    if not cwd.startswith("/") or "\0" in cwd:
        return [], None
    try:
        folder = os.path.realpath(cwd)
    except (OSError, ValueError):  # a link that may not be read, as those in /proc; half of a character
        return [], None
    if not os.path.isdir(folder):
        return [], None
    folders = [folder]
    while True:
        if _is_repository(folders[-1]):
            return folders[::-1], folders[-1]
        above = os.path.dirname(folders[-1])
        if above == folders[-1]:
            return [folder], folder
        folders.append(above)


def _is_repository(folder: str) -> bool:
    try:
        return _is_ours(os.lstat(f"{folder}/{REPOSITORY}"))
    except OSError:
        return False


def read_file(path: str, *, project: bool = False) -> FileSettings | None:
    """What a settings file says; None where there is none. Never raises."""
    try:
        data = _read_bytes(path, project=project)
        if data is None:
            return None
        return read_settings(_decode(data), path, project=project)
    except Unusable as problem:
        if project and problem.foreign:
            told = Problem("warning", path, 1, 1, f"The file {problem.what} It is passed over.")
            return FileSettings(path, problems=(told,))
        return broken_settings(path, problem.what, problem.spot)


def _read_bytes(path: str, *, project: bool) -> bytes | None:
    try:  # not to wait for the other end of a pipe that somebody put there
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        if os.path.islink(path):
            raise Unusable("is a link to a file that is not there.") from None
        if not project:
            _check_folder(path)
        return None
    except OSError as error:
        raise Unusable(f"cannot be read: {os.strerror(error.errno or errno.EIO)}.") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Unusable("is no ordinary file.")
        if not _is_ours(found):
            raise Unusable(f"belongs to uid {found.st_uid}.", foreign=True)
        if found.st_mode & stat.S_IWOTH:
            raise Unusable(f"can be written by everybody. Run: chmod o-w '{path}'.")
        if not project:
            _check_folder(path)
        data = b""
        while chunk := os.read(descriptor, MAX_BYTES + 1 - len(data)):
            data += chunk
        if len(data) > MAX_BYTES:
            raise Unusable(f"has more than {MAX_BYTES} bytes, and was not read.")
        return data
    except OSError as error:
        raise Unusable(f"cannot be read: {os.strerror(error.errno or errno.EIO)}.") from None
    finally:
        os.close(descriptor)


def _check_folder(path: str) -> None:
    """Whoever may write in the folder can put another file there, or take ours away. Raises Unusable."""
    folder = os.path.dirname(path)
    try:
        found = os.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise Unusable(f"cannot be looked for: {os.strerror(error.errno or errno.EIO)}.") from None
    if not _is_ours(found):
        raise Unusable(f"is in a folder that belongs to uid {found.st_uid}.")
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise Unusable(f"is in a folder that everybody can write in. Run: chmod o-w '{folder}'.")


def _is_ours(found: os.stat_result) -> bool:
    """Whether it is the user's or the system's: root's, or what a user namespace shows for it."""
    return found.st_uid in (os.geteuid(), 0, os.lstat("/").st_uid)


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode("utf-8", "replace")) + 1
        raise Unusable("is not UTF-8.", Spot(line, column)) from None

"""Whether the directories and files are the user's own, and nobody else's to enter."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from xsessionctl.doctor.findings import ELSEWHERE, Finding, Look, quote
from xsessiond.paths import PathError, dir_fault
from xsessiond.private_dirs import check_parents

REFUSED = "It is not used as it is, so no broker can start, or others could read and change what is in it."


def examine(look: Look) -> Iterator[Finding]:
    """Yields what is found."""
    paths, uid = look.paths, os.geteuid()
    wrong: list[Finding] = []
    for path, *within in ((paths.runtime_dir, paths.session_dir), (paths.state_dir, paths.backup_dir)):
        found = [*_examine_directory(path, uid)] or [*_examine_writing(path)]
        for inner in within if not found else ():  # what is wrong above is wrong for all that is in it
            found += _examine_directory(inner, uid)
        wrong += found
    locks = paths.lock_file, paths.store_lock_file
    for path in (paths.store_file, paths.log_file, paths.passphrase_file, *locks):
        wrong += [*_examine_file(path, uid)]
    yield from wrong or [Finding("directories", "ok", "All that is there is yours, and nobody else can enter it.")]


def _examine_directory(path: str, uid: int) -> Iterator[Finding]:
    try:
        check_parents(path, uid)
        fault = dir_fault(os.lstat(path), uid, private=True)
    except FileNotFoundError:
        return  # whoever needs it makes it
    except PathError as problem:
        what, _, command = problem.reason.partition(" Run: ")
        yield Finding("directories", "problem", what, REFUSED, command or None)
        return
    except OSError as problem:
        yield Finding("directories", "problem", f"{path}: {problem.strerror}.", REFUSED, ELSEWHERE)
        return
    if fault is None:
        return
    if "not a directory" in fault:
        yield Finding("directories", "problem", f"{path}: {fault}.", REFUSED, ELSEWHERE)
    elif "mode is" in fault:
        yield Finding(
            "directories", "problem", f"{path}: {fault}.", "Others can look into it.", f"chmod 700 {quote(path)}"
        )
    elif "others can write" in fault:
        mend = f"ls -la {quote(path)}; chmod 700 {quote(path)}"
        yield Finding("directories", "problem", f"{path}: {fault}.", "What is in it may not be yours.", mend)
    else:
        yield Finding(
            "directories", "problem", f"{path}: {fault}.", REFUSED, f"mv {quote(path)} {quote(path + '.old')}"
        )


def _examine_writing(path: str) -> Iterator[Finding]:
    """Whether something can be made there, or in what is above it if it is not there yet."""
    there = path
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if not os.access(there, os.W_OK | os.X_OK):
        what = f"{path} cannot be written: {there} is not yours to write in, or its file system is read-only."
        yield Finding("directories", "problem", what, "No broker can start.", f"ls -ld {quote(there)}; {ELSEWHERE}")


def _examine_file(path: str, uid: int) -> Iterator[Finding]:
    try:
        found = os.lstat(path)
    except OSError:
        return
    if not stat.S_ISREG(found.st_mode):
        what = f"{path} is not a plain file."
        yield Finding(
            "directories", "problem", what, "It is not followed or used.", f"mv {quote(path)} {quote(path + '.old')}"
        )
    elif found.st_uid != uid:
        what = f"{path} belongs to uid {found.st_uid}."
        yield Finding("directories", "problem", what, "It is not used.", f"mv {quote(path)} {quote(path + '.old')}")
    elif found.st_mode & 0o077:
        what = f"{path}: its mode is {stat.S_IMODE(found.st_mode):04o}, not 0600."
        yield Finding("directories", "problem", what, "Others can read or change it.", f"chmod 600 {quote(path)}")

"""Directories that only this user can enter: made, checked on the open descriptor, refused with the way to mend them.

Laws: nothing is created in a directory that somebody else could have prepared or could replace. Refuses to know: what
the directories are for; `paths` says which there are.
"""

from __future__ import annotations

import os
import stat

from xsessiond.paths import UnsafePath, dir_fault


def ensure_private_dir(path: str) -> None:
    """Make sure that `path` (absolute) is a directory that only this user can enter; make it and its parents if needed.

    Ours but readable by others is tightened to 0700. Everything else that is wrong raises UnsafePath: a symbolic link,
    another owner, writable by others (who may have put something there), a parent in which others can replace it.
    Raises OSError where it cannot be made.
    """
    uid = os.geteuid()
    check_parents(path, uid)
    _make_dir(path)
    try:
        # The checks and the mending are on what was opened, so that nothing can be put in its place between.
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        try:
            wrong = dir_fault(os.lstat(path), uid, private=False)
        except OSError:
            raise error from None
        if wrong is None:
            raise
        raise UnsafePath(path, f"{path} is not used: {wrong}. {_mend(wrong, path)}") from None
    try:
        found = os.fstat(descriptor)
        wrong = dir_fault(found, uid, private=False)
        if wrong is not None:
            raise UnsafePath(path, f"{path} is not used: {wrong}. {_mend(wrong, path)}")
        if stat.S_IMODE(found.st_mode) != 0o700:
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def remove_older(path: str, oldest: float) -> None:
    """Remove the files in a directory that were last written before `oldest`, seconds of the epoch. What is not there,
    or not ours to remove, is left."""
    try:
        entries = list(os.scandir(path))
    except OSError:
        return
    for entry in entries:
        try:
            if entry.stat(follow_symlinks=False).st_mtime < oldest:
                os.unlink(entry.path)
        except OSError:
            pass  # somebody else was first


def _make_dir(path: str) -> None:
    parent = os.path.dirname(path)
    if parent != path and not os.path.lexists(parent):
        _make_dir(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    os.chmod(path, 0o700)  # whatever the umask left of it


def check_parents(path: str, uid: int, *, of: str | None = None, links_left: int = 40) -> None:
    """Raise UnsafePath, about `of` (or `path`), if anybody but us and the system could replace a directory above it."""
    of = of or path
    system = os.lstat("/").st_uid  # 0, or what a user namespace shows for it
    parent = ""
    for part in path.split("/")[1:-1]:
        parent = f"{parent}/{part}"
        try:
            found = os.lstat(parent)
        except FileNotFoundError:
            return  # what we make below a safe directory is safe
        if found.st_uid not in (uid, 0, system):
            raise UnsafePath(
                of,
                f"{of} is not used: {parent} above it belongs to uid {found.st_uid}, who could replace it. "
                "Choose another place.",
            )
        if stat.S_ISLNK(found.st_mode):
            if links_left == 0:
                raise UnsafePath(of, f"{of} is not used: too many symbolic links above it. Choose another place.")
            target = os.path.join(os.path.dirname(parent), os.readlink(parent))
            check_parents(target + "/x", uid, of=of, links_left=links_left - 1)
        elif found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            raise UnsafePath(
                of,
                f"{of} is not used: everybody can write in {parent} above it and could replace it. "
                f"Run: chmod o-w '{parent}'",
            )


def _mend(wrong: str, path: str) -> str:
    if wrong.startswith("others can write"):
        return f"Look at what is in it, then run: chmod 700 '{path}'"
    return "Remove it, or choose another place."

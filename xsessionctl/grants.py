"""The directory of a grant: made, with a token in it, and taken away again.

Laws: it is the user's own and private before anything is in it; one that has anything else in it is refused, since all
of it would be mounted; the token is in a file of mode 0600 and nowhere else. Refuses to know: who may grant.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence

from xsessionctl.client import ClientError
from xsessionctl.render import part_of
from xsessionctl.whole_file import write_whole
from xsessiond.paths import PathError, Paths, SocketPathTooLong, check_socket_path
from xsessiond.private_dirs import ensure_private_dir

SOCKET, TOKEN = "session.sock", "token"
_FRESH = ".token.new"
OURS = {SOCKET, TOKEN, _FRESH}


def find_directory(paths: Paths, name: str, wanted: str | None, known: Sequence[Mapping[str, object]]) -> str:
    """Where a grant goes: where the user wants it, where it is already, or in the state dir. Raises ClientError."""
    from xsessiond.core.names import fold_name

    directory = _without_links(wanted) if wanted is not None else None
    for row in known:
        if directory is None and fold_name(str(part_of(row, "session").get("name"))) == fold_name(name):
            directory = str(row.get("directory"))
    directory = directory or f"{paths.state_dir}/grants/{secrets.token_hex(4)}"
    try:
        check_socket_path(f"{directory}/{SOCKET}")
    except SocketPathTooLong as problem:
        text = problem.reason.replace("Set XSESSIOND_RUNTIME_DIR to a shorter directory.", "").strip()
        raise ClientError("usage", text, "Name a shorter directory with --dir.") from None
    return directory


def _without_links(path: str) -> str:
    """The path by which the broker compares it with those of other grants. The last part may be refused for a link."""
    above, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(above), name)


def make_directory(directory: str) -> bool:
    """Makes it, private; whether it was not there. Raises ClientError."""
    try:
        there = set(os.listdir(directory))
    except FileNotFoundError:
        there = None
    except OSError as problem:
        raise ClientError("refused", f"{directory}: {problem.strerror}.") from None
    if there is not None and there - OURS:
        other = sorted(there - OURS)[0]
        text = f"{directory} has something else in it ({other}), and all of it would be mounted."
        raise ClientError("refused", text, "Name a directory that is empty, or not there yet.")
    try:
        ensure_private_dir(directory)
    except PathError as problem:
        raise ClientError("refused", problem.reason) from None
    except OSError as problem:
        raise ClientError("refused", f"{problem.filename or directory}: {problem.strerror}.") from None
    return there is None


def write_token(directory: str, token: str) -> None:
    """Puts it there, whole, for this user alone. Raises ClientError."""
    try:
        write_whole(f"{directory}/{TOKEN}", f"{token}\n".encode(), part=f"{directory}/{_FRESH}")
    except OSError as problem:
        text = f"It is granted, and the token cannot be written: {problem.filename}: {problem.strerror}."
        raise ClientError("internal", text, "Granting it again gives it a new one; --revoke ends it.") from None


def remove_files(directory: str) -> str | None:
    """Removes what was ours, and the directory if nothing else is in it; returns it if something is."""
    for name in OURS:
        try:
            os.unlink(f"{directory}/{name}")
        except OSError:
            pass
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return None
    except OSError:
        return directory
    return None

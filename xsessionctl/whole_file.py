"""A file of ours that is under its name only when it is whole. (One of the user's own is `user_file`'s.)

Laws: nobody ever reads half of it, and whoever had the old one open keeps that; what could not be finished is removed.
Only the cheapest modules are imported, since the shim writes such files too. Refuses to know: what is in it.
"""

from __future__ import annotations

import os


def write_whole(path: str, data: bytes, *, mode: int = 0o600, part: str | None = None, lasting: bool = False) -> None:
    """Writes `data` to `path`, in place of what is there. part: its name until then, in the same folder. lasting: it
    outlives a loss of power. Raises OSError."""
    part = part or f"{path}.{os.getpid()}"
    try:
        # What a crash left; or a link, or a pipe, where a container may write in the folder.
        os.unlink(part)
    except FileNotFoundError:
        pass
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise

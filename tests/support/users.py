"""Being another user for a moment: what `su`, a stranger on the machine, and a container's made-up uid look like."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NAMELESS = 54321
"""A uid that no user database has."""
STRANGER = 54322
"""Another one, for directories that somebody else made."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make directories of other users")


@contextmanager
def as_user(uid: int) -> Iterator[None]:
    """Have the effective uid and gid `uid`, and root's no more, for as long as this lasts."""
    gid = os.getegid()
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)

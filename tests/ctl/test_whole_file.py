"""A file of ours is there whole or as it was before."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from xsessionctl.whole_file import write_whole


def test_it_takes_the_place_of_what_was_there_and_leaves_that_to_who_has_it_open(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"old")
    with path.open("rb") as before:
        write_whole(str(path), b"new", lasting=True)
        assert before.read() == b"old"
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["token"]


def test_what_a_crash_left_is_written_over(tmp_path: Path) -> None:
    """Under the same pid, perhaps: that must not keep it from being written for ever."""
    path = tmp_path / "token"
    (tmp_path / f"token.{os.getpid()}").write_bytes(b"the beginning of something longer")
    write_whole(str(path), b"new", mode=0o644)
    assert path.read_bytes() == b"new"


def test_what_cannot_be_finished_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "there"
    (path / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_whole(str(path), b"new", part=str(tmp_path / "part"))
    assert [each.name for each in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("kind", ["link", "pipe", "readable"])
def test_what_lies_under_its_name_until_then_is_not_written_to(tmp_path: Path, kind: str) -> None:
    """S20: a container may write in the folder of its grant. A pipe would have its writer wait for ever."""
    path, part, other = tmp_path / "token", tmp_path / ".token.new", tmp_path / "precious"
    other.write_text("precious")
    if kind == "link":
        part.symlink_to(other)
    elif kind == "pipe":
        os.mkfifo(part)
    else:
        part.touch(mode=0o644)
    write_whole(str(path), b"secret", part=str(part))
    assert (path.read_bytes(), path.stat().st_mode & 0o777, path.is_symlink()) == (b"secret", 0o600, False)
    assert other.read_text() == "precious"
    assert not os.path.lexists(part)

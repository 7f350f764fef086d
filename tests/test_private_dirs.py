"""Private directories, and what is refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.support.users import STRANGER, as_user, needs_root
from xsessiond.paths import UnsafePath
from xsessiond.private_dirs import ensure_private_dir, remove_older

UID = os.geteuid()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777], ids="umask {:03o}".format)
def umask(request: pytest.FixtureRequest):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_it_is_made_private_whatever_the_umask(short_dir: Path, umask: int) -> None:
    ensure_private_dir(f"{short_dir}/one")
    assert mode_of(short_dir / "one") == 0o700


def test_parents_are_made_private_too(short_dir: Path) -> None:
    ensure_private_dir(f"{short_dir}/a/b/c")
    assert [mode_of(short_dir / part) for part in ("a", "a/b", "a/b/c")] == [0o700] * 3
    ensure_private_dir(f"{short_dir}/a/b/c")  # and once more


@pytest.mark.parametrize("mode", [0o755, 0o711, 0o500, 0o1700])
def test_ours_but_readable_is_tightened(short_dir: Path, mode: int) -> None:
    path = short_dir / "d"
    path.mkdir()
    path.chmod(mode)
    ensure_private_dir(str(path))
    assert mode_of(path) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_writable_by_others_is_refused_with_the_way_to_mend_it(short_dir: Path, mode: int) -> None:
    """S17: somebody may have put something there already; it is not for us to trust it by a chmod."""
    path = short_dir / "d"
    path.mkdir()
    path.chmod(mode)
    with pytest.raises(UnsafePath) as refused:
        ensure_private_dir(str(path))
    assert refused.value.path == str(path)
    assert refused.value.reason == (
        f"{path} is not used: others can write in it (mode {mode:04o}). "
        f"Look at what is in it, then run: chmod 700 '{path}'"
    )
    assert mode_of(path) == mode


def test_a_link_is_refused(short_dir: Path) -> None:
    """S17."""
    (short_dir / "real").mkdir(mode=0o700)
    (short_dir / "d").symlink_to("real")
    with pytest.raises(UnsafePath, match=r"it is a symbolic link\. Remove it, or choose another place\."):
        ensure_private_dir(f"{short_dir}/d")


def test_a_file_is_refused(short_dir: Path) -> None:
    (short_dir / "d").touch()
    with pytest.raises(UnsafePath, match="it is not a directory"):
        ensure_private_dir(f"{short_dir}/d")


@needs_root
def test_another_s_is_refused(short_dir: Path) -> None:
    """S17, also for root, who could use it."""
    path = short_dir / "d"
    path.mkdir(mode=0o700)
    os.chown(path, STRANGER, STRANGER)
    with pytest.raises(UnsafePath, match=f"it belongs to uid {STRANGER}, not to uid {UID}"):
        ensure_private_dir(str(path))


@needs_root
def test_another_s_is_refused_for_who_cannot_even_open_it(short_dir: Path) -> None:
    """S17."""
    short_dir.chmod(0o1777)
    path = short_dir / "d"
    path.mkdir(mode=0o700)
    with as_user(STRANGER), pytest.raises(UnsafePath, match=f"it belongs to uid {UID}, not to uid {STRANGER}"):
        ensure_private_dir(str(path))


def test_below_a_directory_that_everybody_can_write_nothing_is_made(short_dir: Path) -> None:
    """S17."""
    open_dir = short_dir / "open"
    open_dir.mkdir()
    open_dir.chmod(0o777)
    with pytest.raises(UnsafePath) as refused:
        ensure_private_dir(f"{open_dir}/d/e")
    assert refused.value.reason == (
        f"{open_dir}/d/e is not used: everybody can write in {open_dir} above it and could replace it. "
        f"Run: chmod o-w '{open_dir}'"
    )
    assert list(open_dir.iterdir()) == []


def test_below_a_sticky_directory_it_is_made(short_dir: Path) -> None:
    (short_dir / "tmp").mkdir()
    (short_dir / "tmp").chmod(0o1777)
    ensure_private_dir(f"{short_dir}/tmp/d")


@needs_root
def test_below_another_s_directory_nothing_is_made(short_dir: Path) -> None:
    """S17."""
    theirs = short_dir / "theirs"
    theirs.mkdir()
    os.chown(theirs, STRANGER, STRANGER)
    with pytest.raises(UnsafePath, match=rf"{theirs} above it belongs to uid {STRANGER}, who could replace it"):
        ensure_private_dir(f"{theirs}/d")
    assert list(theirs.iterdir()) == []


def test_a_link_of_ours_above_is_followed_and_what_it_leads_to_is_checked(short_dir: Path) -> None:
    """A home that is a link to another disk is common."""
    (short_dir / "disk/home").mkdir(parents=True)
    (short_dir / "home").symlink_to("disk/home")
    ensure_private_dir(f"{short_dir}/home/d")
    (short_dir / "disk").chmod(0o777)
    with pytest.raises(UnsafePath) as refused:
        ensure_private_dir(f"{short_dir}/home/e")
    assert refused.value.path == f"{short_dir}/home/e"
    assert f"{short_dir}/disk above it" in refused.value.reason


@needs_root
def test_a_link_of_another_above_is_refused(short_dir: Path) -> None:
    """S17: whoever owns the link can point it elsewhere later."""
    (short_dir / "real").mkdir(mode=0o700)
    link = short_dir / "link"
    link.symlink_to("real")
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(UnsafePath, match=f"{link} above it belongs to uid {STRANGER}"):
        ensure_private_dir(f"{link}/d")


def test_links_in_a_circle_end(short_dir: Path) -> None:
    (short_dir / "a").symlink_to("b")
    (short_dir / "b").symlink_to("a")
    with pytest.raises((UnsafePath, OSError), match="symbolic link"):
        ensure_private_dir(f"{short_dir}/a/d")


@needs_root
def test_where_it_cannot_be_made_the_system_s_error_is_raised(short_dir: Path) -> None:
    with as_user(STRANGER), pytest.raises(PermissionError):
        ensure_private_dir("/etc/xsessiond-is-not-made-here")


def test_what_is_old_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name, written in (("old", 100), ("new", 300)):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (written, written))
    (tmp_path / "folder").mkdir()
    os.utime(tmp_path / "folder", (100, 100))
    (tmp_path / "link").symlink_to(tmp_path / "new")
    os.utime(tmp_path / "link", (100, 100), follow_symlinks=False)
    remove_older(str(tmp_path), 200)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "new"]
    assert (tmp_path / "new").read_text() == "new"
    remove_older(str(tmp_path / "missing"), 200)

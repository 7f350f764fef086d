"""xsessionctl.user_file: a person's file is replaced in one step, where it really is, and nothing is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xsessionctl.client import ClientError
from xsessionctl.user_file import UserFile


def test_a_file_that_is_not_there_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "new/config.toml"
    file = UserFile(str(path))
    assert file.text == ""
    file.replace("x = 1\n")
    assert path.read_text() == "x = 1\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(path.parent) == ["config.toml"]


def test_mode_line_ends_and_mark_stay(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(b"\xef\xbb\xbfx = 1\r\n")
    path.chmod(0o640)
    file = UserFile(str(path))
    assert file.text == "x = 1\r\n"
    file.replace(file.text + "y = 2\r\n")
    assert path.read_bytes() == b"\xef\xbb\xbfx = 1\r\ny = 2\r\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_one(tmp_path: Path) -> None:
    """Dotfiles: what the link leads to is changed, also where that is not there yet."""
    (tmp_path / "dots").mkdir()
    path = tmp_path / "c"
    path.symlink_to("dots/c.toml")
    for text in ("x = 1\n", "x = 2\n"):
        UserFile(str(path)).replace(text)
        assert path.is_symlink()
        assert (tmp_path / "dots/c.toml").read_text() == text
    assert os.listdir(tmp_path / "dots") == ["c.toml"]


@pytest.mark.parametrize("change", ["edited", "removed", "made"])
def test_what_somebody_else_wrote_is_not_lost(tmp_path: Path, change: str) -> None:
    path = tmp_path / "c"
    if change != "made":
        path.write_text("x = 1\n")
    file = UserFile(str(path))
    if change == "removed":
        path.unlink()
    else:
        path.write_text("theirs = 1\n")
    with pytest.raises(ClientError, match="was changed meanwhile") as caught:
        file.replace("mine = 1\n")
    assert caught.value.code == "bad_config"
    assert path.exists() == (change != "removed")
    assert not path.exists() or path.read_text() == "theirs = 1\n"
    assert [name for name in os.listdir(tmp_path) if name != "c"] == []


def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"\xff")
    with pytest.raises(ClientError, match="is not UTF-8"):
        UserFile(str(tmp_path / "c"))
    (tmp_path / "d").mkdir()
    with pytest.raises(ClientError, match="cannot be read: Is a directory"):
        UserFile(str(tmp_path / "d"))
    file = UserFile(str(tmp_path / "c2/x"))
    (tmp_path / "c2").write_text("")
    with pytest.raises(ClientError, match="cannot be written: File exists"):
        file.replace("")


@pytest.mark.parametrize("act", ["replace", "remove"])
def test_what_is_read_only_stays(tmp_path: Path, act: str) -> None:
    path = tmp_path / "c"
    path.write_text("x = 1\n")
    path.chmod(0o444)
    file = UserFile(str(path))
    with pytest.raises(ClientError, match=r"is read-only") as caught:
        file.replace("") if act == "replace" else file.remove()
    assert caught.value.hint == f"Nothing was changed. If you want it to be: chmod u+w '{path}'"
    assert (path.read_text(), os.listdir(tmp_path)) == ("x = 1\n", ["c"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_is_another_user_s_stays(tmp_path: Path) -> None:
    """As with `sudo`: the new file would be root's, and its owner locked out."""
    path = tmp_path / "c"
    path.write_text("x = 1\n")
    os.chown(path, 12345, -1)
    with pytest.raises(ClientError, match=r"belongs to uid 12345"):
        UserFile(str(path)).replace("")
    assert path.read_text() == "x = 1\n"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "c"
    os.mkfifo(path)
    file = UserFile(str(path))
    with pytest.raises(ClientError, match="is no ordinary file"):
        file.replace("x")


def test_what_a_file_carries_besides_its_text_stays(tmp_path: Path) -> None:
    """Group, attributes, and with them access lists."""
    path = tmp_path / "c"
    path.write_text("x = 1\n")
    if os.geteuid() == 0:
        os.chown(path, -1, 54321)
    path.chmod(0o660)
    try:
        os.setxattr(path, "user.note", b"mine")
    except (AttributeError, OSError):
        pass  # not on this file system
    before = path.stat().st_gid, path.stat().st_mode, attributes(path)
    UserFile(str(path)).replace("x = 2\n")
    assert (path.stat().st_gid, path.stat().st_mode, attributes(path)) == before


def attributes(path: Path) -> dict[str, bytes]:
    if not hasattr(os, "listxattr"):
        return {}
    return {name: os.getxattr(path, name) for name in os.listxattr(path)}


def test_more_than_was_said_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_text("12345")
    assert UserFile(str(path), most=5).text == "12345"
    with pytest.raises(ClientError, match="has more than 4 bytes"):
        UserFile(str(path), most=4)


def test_a_file_is_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_text("x")
    UserFile(str(path)).remove()
    assert not path.exists()
    file = UserFile(str(path))
    path.write_text("theirs")
    with pytest.raises(ClientError, match="was changed meanwhile"):
        file.remove()

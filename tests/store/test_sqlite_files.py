"""The store's files are private, and what is not ours is not touched."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.rows import message, put
from xsessiond.store.contract import StoreError
from xsessiond.store.sqlite import SqliteStore

NOBODY = 65534


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777])
def _umask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:  # which is made under the usual one
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_umask")
def test_what_is_made_is_private_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "store.db"
    store = SqliteStore(path, "normal")
    store.commit([put(1)])
    assert {entry.name: mode_of(entry) for entry in path.parent.iterdir()} == {
        "store.db": 0o600,
        "store.db-wal": 0o600,
        "store.db-shm": 0o600,
    }
    assert (mode_of(path.parent), mode_of(path.parent.parent)) == (0o700, 0o700)
    store.close()


def test_a_store_that_others_may_read_is_made_private(path: Path) -> None:
    SqliteStore(path, "normal").close()
    path.chmod(0o644)
    SqliteStore(path, "normal").close()
    assert mode_of(path) == 0o600


@pytest.mark.parametrize("name", ["store.db", "store.db-wal", "store.db-shm"])
def test_a_symbolic_link_is_not_followed(path: Path, tmp_path: Path, name: str) -> None:
    path.parent.mkdir(mode=0o700)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    (path.parent / name).symlink_to(elsewhere)
    with pytest.raises(StoreError, match="is a symbolic link; the store is not opened through one"):
        SqliteStore(path, "normal")
    assert elsewhere.read_bytes() == b"precious"


def test_a_dangling_link_makes_no_file(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="is a symbolic link"):
        SqliteStore(path, "normal")
    assert not (tmp_path / "elsewhere").exists()


def test_a_directory_in_the_place_of_the_store_is_refused(path: Path) -> None:
    path.mkdir(parents=True, mode=0o700)
    path.parent.chmod(0o700)
    with pytest.raises(StoreError, match="is not a plain file"):
        SqliteStore(path, "normal")


def test_a_file_in_the_place_of_the_directory_is_refused(path: Path) -> None:
    path.parent.write_text("")
    with pytest.raises(StoreError, match="is not a directory"):
        SqliteStore(path, "normal")


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_directory_that_others_may_write_is_refused(path: Path, mode: int) -> None:
    """S: whoever may write there could put another store in its place."""
    path.parent.mkdir()
    path.parent.chmod(mode)
    with pytest.raises(StoreError, match="can be written by other users"):
        SqliteStore(path, "normal")
    assert list(path.parent.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", [".", "store.db", "store.db-wal"])
def test_what_belongs_to_another_user_is_refused(path: Path, name: str) -> None:
    path.parent.mkdir(mode=0o700)
    (path.parent / name).touch()
    os.chown(path.parent / name, NOBODY, NOBODY)
    with pytest.raises(StoreError, match=f"belongs to another user .uid {NOBODY}"):
        SqliteStore(path, "normal")


def test_a_path_that_cannot_be_is_refused_with_the_reason(path: Path) -> None:
    with pytest.raises(StoreError, match="File name too long") as refusal:
        SqliteStore(path.parent / ("x" * 300) / "store.db", "normal")
    assert not refusal.value.transient


def test_an_empty_file_is_a_store_that_was_not_begun(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch()
    store = SqliteStore(path, "normal")
    store.commit([put(1)])
    assert store.load().messages == [message(1)]
    store.close()
    assert mode_of(path) == 0o600


@pytest.mark.parametrize("name", ["a b.db", "100%.db", "what?.db", "a#b.db", "\N{SNOWMAN}.db"])
def test_a_path_may_have_any_characters(path: Path, name: str) -> None:
    for _ in range(2):
        store = SqliteStore(path.parent / name, "normal")
        assert store.check().ok
        store.close()
    assert [entry.name for entry in path.parent.iterdir()] == [name]

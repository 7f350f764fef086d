"""A store is looked at and copied beside whoever writes it, and neither changes anything."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.rows import message, put
from tests.support.users import needs_root
from xsessiond.store.contract import PutMessage, StoreError
from xsessiond.store.looking import NoStore, TargetTaken, TargetUnusable, back_up, examine
from xsessiond.store.schema import VERSION
from xsessiond.store.sqlite import SqliteStore

DAMAGED_AT = 8192


@pytest.fixture
def made(path: Path) -> Path:
    """Return the path of a store with three messages that nobody has open."""
    store = SqliteStore(path, "full")
    store.commit([PutMessage(message(seq, body="x" * 3000)) for seq in (1, 2, 3)])
    store.close()
    return path


def damage(path: Path) -> None:
    """Overwrite what is not the file's head."""
    with path.open("r+b") as file:
        file.seek(DAMAGED_AT)
        file.write(b"\xff" * 4096)


def test_a_sound_store_is_counted(made: Path) -> None:
    found = examine(str(made))
    assert (found.ok, found.usable, found.detail) == (True, True, "It is sound.")
    assert (found.messages, found.waiting, found.sessions) == (3, 3, 0)
    assert (found.format, found.format_known) == (VERSION, VERSION)
    assert found.bytes == made.stat().st_size


def test_a_store_that_is_written_is_looked_at_with_its_log(path: Path) -> None:
    store = SqliteStore(path, "full")
    store.commit([put(1)])
    assert examine(str(path)).messages == 1
    store.commit([put(2)])
    assert examine(str(path)).messages == 2
    store.close()


def test_a_damaged_store_says_so_and_stays(made: Path) -> None:
    """L13"""
    damage(made)
    before = made.read_bytes()
    found = examine(str(made))
    assert (found.ok, found.usable, found.messages) == (False, False, None)
    assert found.detail.startswith("It is damaged: ")
    assert made.read_bytes() == before


def test_a_newer_store_is_sound_and_of_no_use_here(made: Path) -> None:
    with closing(sqlite3.connect(made)) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
        db.execute("DROP TABLE message")
    found = examine(str(made))
    assert (found.ok, found.usable, found.format) == (True, False, VERSION + 1)
    assert "newer xsessiond" in found.detail


def test_what_is_no_store_is_refused_with_the_reason(made: Path, tmp_path: Path) -> None:
    with pytest.raises(NoStore, match="There is no store at"):
        examine(str(tmp_path / "nowhere"))
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE message (seq, state)")
        db.execute("CREATE TABLE content (seq)")
        db.execute("CREATE TABLE session (id)")
    with pytest.raises(StoreError, match="another program's file"):
        examine(str(other))
    other.write_bytes(b"no database at all, though it is longer than a header of SQLite's")
    with pytest.raises(StoreError, match="is not a database"):
        examine(str(other))
    link = tmp_path / "link.db"
    link.symlink_to(made)
    with pytest.raises(StoreError, match="symbolic link"):
        examine(str(link))


def test_a_copy_is_private_whole_and_one_file(made: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        found = back_up(str(made), str(tmp_path / "copy.db"))
    finally:
        os.umask(before)
    copy = tmp_path / "copy.db"
    assert (found.path, found.ok, found.messages) == (str(copy), True, 3)
    assert copy.stat().st_mode & 0o777 == 0o600
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["copy.db", "state"]
    restored = SqliteStore(copy, "full")
    assert [row.seq for row in restored.load().messages] == [1, 2, 3]
    restored.close()


def test_nothing_is_overwritten(made: Path, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    with pytest.raises(TargetTaken, match="nothing is overwritten"):
        back_up(str(made), str(target))
    target.unlink()
    target.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TargetTaken):
        back_up(str(made), str(target))
    assert not (tmp_path / "elsewhere").exists()


def test_of_a_damaged_store_there_is_no_copy(made: Path, tmp_path: Path) -> None:
    damage(made)
    with pytest.raises(StoreError):
        back_up(str(made), str(tmp_path / "copy.db"))
    with pytest.raises(NoStore):
        back_up(str(tmp_path / "nowhere"), str(tmp_path / "copy.db"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


def test_what_is_wrong_with_a_store_is_not_said_of_its_copy(made: Path, tmp_path: Path) -> None:
    """The path in the sentence is that of the file to look at."""
    copy = str(tmp_path / "copy.db")
    os.truncate(made, made.stat().st_size // 2)
    with pytest.raises(StoreError, match=f"The store {made} is damaged"):
        back_up(str(made), copy)
    made.write_bytes(b"no database at all, though it is longer than a header of SQLite's")
    with pytest.raises(StoreError, match=f"The store {made} is not a database"):
        back_up(str(made), copy)
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


def test_where_a_copy_cannot_be_is_told_with_what_to_do(made: Path, tmp_path: Path) -> None:
    target = tmp_path / "no" / "such" / "folder"
    with pytest.raises(TargetUnusable) as refused:
        back_up(str(made), str(target))
    assert str(refused.value).startswith(f"The copy {target} cannot be written: No such file or directory. ")
    (tmp_path / "copy.db.part").touch()  # of one that was killed, or is being made just now
    with pytest.raises(TargetTaken, match=r"copy\.db\.part exists already"):
        back_up(str(made), str(tmp_path / "copy.db"))
    assert (tmp_path / "copy.db.part").exists()


@pytest.mark.parametrize("left", ["nothing", "a header"])
def test_a_store_whose_making_was_cut_short_is_none_yet(path: Path, tmp_path: Path, left: str) -> None:
    """As the broker sees it, which makes it then."""
    path.parent.mkdir(mode=0o700)
    path.touch(mode=0o600)
    if left == "a header":
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("VACUUM")
    for look in (lambda: examine(str(path)), lambda: back_up(str(path), str(tmp_path / "copy.db"))):
        with pytest.raises(NoStore, match=f"There is no store at {path}"):
            look()
    SqliteStore(path, "full").close()
    assert examine(str(path)).ok


def test_damage_is_told_in_one_line(made: Path) -> None:
    damage(made)
    detail = examine(str(made)).detail
    assert "\n" not in detail
    assert "***" not in detail


def test_where_there_are_no_hard_links_a_copy_replaces_nothing_either(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a memory stick."""

    def refuse(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    back_up(str(made), str(tmp_path / "copy.db"))
    assert examine(str(tmp_path / "copy.db")).messages == 3
    assert not (tmp_path / "copy.db.part").exists()


@pytest.mark.slow
def test_copies_are_of_one_moment_while_another_program_writes(path: Path, tmp_path: Path) -> None:
    """Two messages always come together, and no copy has one of them; the writer is not refused once."""
    store = SqliteStore(path, "normal")
    done = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        while not done.is_set():
            store.commit([put(written + 1), put(written + 2)])
            written += 2

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            copied = subprocess.run(
                [sys.executable, "-m", "xsessiond.store", "backup", str(path), str(tmp_path / f"{number}.db")],
                capture_output=True, timeout=50, check=True,
            )  # fmt: skip
            assert json.loads(copied.stdout)["messages"] % 2 == 0
    finally:
        done.set()
        writer.join()
        store.close()
    assert examine(str(path)).messages == written > 0


def run(*words: str) -> tuple[int, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-m", "xsessiond.store", *words], capture_output=True, timeout=50, check=False
    )
    assert done.stderr == b""
    return done.returncode, json.loads(done.stdout or b"{}")


def test_the_program_answers_with_one_document(made: Path, tmp_path: Path) -> None:
    status, document = run("check", str(made))
    assert (status, document["ok"], document["messages"]) == (0, True, 3)
    status, document = run("check", str(tmp_path / "nowhere"))
    assert (status, document["error"]) == (
        1,
        {
            "code": "not_found",
            "text": f"There is no store at {tmp_path}/nowhere; the first broker makes it.",
            "transient": False,
        },
    )
    assert run("frobnicate") == (2, {})


@needs_root
def test_a_full_disk_leaves_no_half_copy(made: Path, tmp_path: Path) -> None:
    """A real file system that is too small, in a mount namespace of its own."""
    small = tmp_path / "small"
    small.mkdir()
    copy = f"{sys.executable} -m xsessiond.store backup {made} {small}/copy.db"
    script = f"mount -t tmpfs -o size=8k tmpfs {small} && {copy}; ls -A {small}"
    done = subprocess.run(["unshare", "-m", "/bin/sh", "-c", script], capture_output=True, timeout=50, check=False)
    if b"unshare" in done.stderr:
        pytest.skip("no mount namespaces here")
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["error"]["code"] == "refused"
    assert f"The copy {small}/copy.db cannot be written: database or disk is full." in json.loads(line)["error"]["text"]

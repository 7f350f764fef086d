"""A disk or a file that does not do what it should: real faults, each told in a sentence, and nothing lost by them."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.store.rows import message, message_id, put, put_session
from xsessiond.store.contract import StoreError
from xsessiond.store.sqlite import SqliteStore
from xsessiond.store.sqlite_errors import translate_error

ROOT = Path(__file__).parent.parent.parent
BIG = "x" * 100_000


def run_child(code: str, *arguments: str) -> str:
    """Run a program that ends by itself; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def foreign_lock(path: Path) -> Iterator[None]:
    """Have another process hold the write lock."""
    code = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == "locked\n"
            yield
        finally:
            holder.stdin.close()
            holder.wait(20)


def test_a_lock_is_told_and_passes(path: Path) -> None:
    store = SqliteStore(path, "full")
    store.commit([put(1)])
    with foreign_lock(path):
        with pytest.raises(StoreError, match="is locked by another program") as refusal:
            store.commit([put(2), put_session("s-a")])
        assert refusal.value.transient
        assert store.load().messages == [message(1)]
        with pytest.raises(StoreError, match="is locked by another program"):
            store.prune(older_than_ms=0)
        store.checkpoint()
        assert store.check().ok
    store.commit([put(2), put_session("s-a")])
    assert [row.seq for row in store.load().messages] == [1, 2]
    store.close()


@pytest.mark.slow
def test_a_lock_at_the_start_is_told_and_passes(path: Path) -> None:
    SqliteStore(path, "full").close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    code = """
import sys
from xsessiond.store.contract import StoreError
from xsessiond.store.sqlite import SqliteStore
try:
    SqliteStore(sys.argv[1], "full")
except StoreError as refusal:
    print(refusal.transient, refusal)
"""
    assert run_child(code, str(path)).startswith(f"True The store {path} is locked by another program.")
    holder.close()
    SqliteStore(path, "full").close()


def test_a_full_disk_is_told_and_passes(path: Path) -> None:
    store = SqliteStore(path, "full")
    store.commit([put(1)])
    before = store.load()
    # SQLite's own limit gives the error of a full disk at the same place and by the same way.
    (pages,) = store._writer.execute("PRAGMA page_count").fetchone()
    store._writer.execute(f"PRAGMA max_page_count = {pages + 3}")
    with pytest.raises(StoreError, match="the disk is full") as refusal:
        store.commit([put_session("s-a"), put(2), put(3, body=BIG)])
    assert refusal.value.transient
    assert store.load() == before
    store.commit([put(2)])
    store._writer.execute("PRAGMA max_page_count = 1000000")
    store.commit([put(3, body=BIG)])
    assert [row.seq for row in store.load().messages] == [1, 2, 3]
    assert store.check().ok
    store.close()


def test_a_disk_that_is_really_full(path: Path) -> None:
    """The same on a file system of one megabyte, in a mount namespace of its own, where the system allows that."""
    path.parent.mkdir(mode=0o700)
    code = f"""
import os, sys
from tests.store.rows import put
from xsessiond.store.contract import StoreError
from xsessiond.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1], "full")
stored = 0
try:
    while stored < 100:
        store.commit([put(stored + 1, body="x" * 100_000)])
        stored += 1
except StoreError as refusal:
    print(refusal.transient, "the disk is full" in str(refusal))
assert [row.seq for row in store.load().messages] == list(range(1, stored + 1)), stored
print(store.check().ok, 0 < stored < 10)
try:
    store.checkpoint()
except StoreError as refusal:
    print(refusal.transient)
os.system("mount -o remount,size=9m,mode=700 none {path.parent}")
store.checkpoint()
store.commit([put(stored + 1, body="x" * 100_000)])
print(len(store.load().messages) == stored + 1, store.check().ok)
store.close()
"""
    inside = ["sh", "-c", 'mount -t tmpfs -o size=1m,mode=700 none "$0" && exec "$@"', str(path.parent)]
    command = ["unshare", "--user", "--map-root-user", "--mount", *inside]
    try:
        allowed = subprocess.run([*command, "true"], capture_output=True, timeout=20).returncode == 0
    except OSError:
        allowed = False
    if not allowed:
        pytest.skip("this system gives no mount namespace to its users")
    done = subprocess.run(
        [*command, sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=50
    )
    assert done.stdout.split("\n")[:2] == ["True True", "True True"], done
    assert done.stdout.endswith("True True\n"), done


def test_a_file_that_may_not_grow_is_told_and_passes(path: Path) -> None:
    """An I/O error in the midst of a commit: the kernel refuses to let the log grow."""
    code = f"""
import resource, signal, sys
from tests.store.rows import put
from xsessiond.store.contract import StoreError
from xsessiond.store.sqlite import SqliteStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = SqliteStore(sys.argv[1], "full")
store.commit([put(1)])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    store.commit([put(2), put(3, body="x" * {len(BIG) * 3})])
except StoreError as refusal:
    print(refusal.transient, refusal)
print([row.seq for row in store.load().messages], store.check().ok)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.commit([put(2), put(3, body="x" * {len(BIG) * 3})])
print([row.seq for row in store.load().messages], store.check().ok)
store.close()
"""
    refused, *rest = run_child(code, str(path)).splitlines()
    assert refused.startswith(f"True The store {path} could not be read or written (SQLITE_IOERR")
    assert rest == ["[1] True", "[1, 2, 3] True"]


def test_a_read_only_file_is_told(short_dir: Path) -> None:
    path = short_dir / "store.db"
    store = SqliteStore(path, "full")
    store.commit([put(1)])
    store.close()
    path.chmod(0o400)
    if os.geteuid() == 0:  # root may write anything, so the child becomes somebody else
        for entry in (short_dir, path):
            os.chown(entry, 65534, 65534)
    code = """
import os, sys
from tests.store.rows import put
from xsessiond.store.contract import StoreError
from xsessiond.store.sqlite import SqliteStore
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    store = SqliteStore(sys.argv[1], "full")
    print([row.seq for row in store.load().messages])
    store.commit([put(2)])
except StoreError as refusal:
    print(refusal.transient, refusal)
"""
    before = path.read_bytes()
    loaded, refused = run_child(code, str(path)).splitlines()
    assert loaded == "[1]"
    assert refused.startswith(f"False The store {path} is read-only. Nothing was stored;")
    assert path.read_bytes() == before


@pytest.fixture
def filled(path: Path) -> Path:
    """Return a store of some hundred pages, wholly in its main file."""
    store = SqliteStore(path, "full")
    store.commit([put_session("s-a"), *(put(seq, body=f"{seq} " * 200) for seq in range(1, 500))])
    store.close()
    assert path.stat().st_size > 100 * 4096
    return path


def overwrite(path: Path, first_page: int, pages: int) -> bytes:
    """Write noise over pages; return what the file then holds."""
    with path.open("r+b") as file:
        file.seek(first_page * 4096)
        file.write(bytes(range(1, 256)) * (pages * 4096 // 255) + b"\xff" * (pages * 4096 % 255))
    return path.read_bytes()


def test_overwritten_pages_turn_the_check_red_and_nothing_is_deleted(filled: Path) -> None:
    """L13: a damaged store says so, in `check` and to whoever meets the damage, and stays where it is."""
    damaged = overwrite(filled, 2, 90)
    store = SqliteStore(filled, "full")
    found = store.check()
    assert not found.ok
    assert found.detail.startswith(f"The store {filled} is damaged (")
    assert "Nothing was deleted" in found.detail
    with pytest.raises(StoreError, match=r"is damaged\. Nothing was deleted") as refusal:
        store.read_log(limit=500, since_ms=None, thread=None)
    assert not refusal.value.transient
    with pytest.raises(StoreError, match="is damaged"):
        store.commit([put(501)])
    store.close()
    assert filled.read_bytes() == damaged


def test_a_damaged_index_turns_the_check_red(filled: Path) -> None:
    with sqlite3.connect(filled, isolation_level=None) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET sql = replace(sql, '>> 10', '>> 3') WHERE name = 'content_by_id'")
    db.close()
    store = SqliteStore(filled, "full")
    assert not store.check().ok
    store.close()


@pytest.mark.parametrize("half", ["message", "content"])
def test_half_a_message_turns_the_check_red(filled: Path, half: str) -> None:
    with sqlite3.connect(filled) as db:
        db.execute(f"DELETE FROM {half} WHERE seq = 7")
    db.close()
    store = SqliteStore(filled, "full")
    assert store.check().detail.startswith(f"The store {filled} is damaged (messages stored by half: 1)")
    assert store.find_message(message_id(7)) is None
    assert len(store.load().messages) == 498
    store.close()


def test_a_check_that_cannot_read_is_red_and_does_not_raise(filled: Path) -> None:
    store = SqliteStore(filled, "full")
    whole = filled.read_bytes()
    overwrite(filled, 0, 1)
    found = store.check()
    assert (found.ok, "is not a database. Nothing was deleted" in found.detail) == (False, True)
    filled.write_bytes(whole)
    assert store.check().ok
    store.close()


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_is_said_to_be_stored_in_files_that_are_gone(filled: Path, suffix: str, *, replaced: bool) -> None:
    """An answer never says more than is known: what SQLite writes to a removed file is lost with the broker."""
    store = SqliteStore(filled, "full")
    try:
        store.commit([put(901)])
        Path(f"{filled}{suffix}").unlink()
        if replaced:
            Path(f"{filled}{suffix}").write_bytes(b"another")
        with pytest.raises(StoreError, match="was removed or replaced") as told:
            store.commit([put(902)])
        assert not told.value.transient
    finally:
        store.close()


def test_a_store_that_was_removed_while_it_was_used_is_red(filled: Path) -> None:
    store = SqliteStore(filled, "full")
    for suffix in ("", "-wal", "-shm"):
        Path(f"{filled}{suffix}").unlink(missing_ok=True)
    found = store.check()
    assert (found.ok, "could not be opened" in found.detail) == (False, True)
    assert store.log_bytes() == 0
    store.close()


@pytest.mark.parametrize("size", [1, 100, 5000])
def test_a_file_that_is_no_database_is_left_alone(path: Path, size: int) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"n" * size)
    with pytest.raises(StoreError, match=r"is not a database\.|is another program's file") as refusal:
        SqliteStore(path, "full")
    assert not refusal.value.transient
    assert path.read_bytes() == b"n" * size


def test_a_truncated_file_is_told(filled: Path) -> None:
    os.truncate(filled, 20 * 4096)
    with pytest.raises(StoreError, match=r"is damaged\. Nothing was deleted"):
        SqliteStore(filled, "full")
    assert filled.stat().st_size == 20 * 4096


def test_a_value_that_cannot_be_stored_is_our_bug(path: Path) -> None:
    store = SqliteStore(path, "full")
    for bad in (put(1, body="x", summary="\ud800"), put(1 << 63)):
        with pytest.raises(StoreError, match="this is a bug") as refusal:
            store.commit([put(5), bad])
        assert not refusal.value.transient
        assert store.load().messages == []
    store.commit([put(1)])
    store.close()
    with pytest.raises(StoreError, match="this is a bug"):
        store.commit([put(2)])
    with pytest.raises(StoreError, match="this is a bug"):
        store.load()


def test_an_interruption_leaves_no_transaction_open(path: Path) -> None:
    """Also what is no error of SQLite rolls back, and comes out as it was."""
    store = SqliteStore(path, "full")
    with pytest.raises(KeyError):
        store.commit([put(1), "nonsense"])  # type: ignore[list-item]
    store.commit([put(1)])
    assert store.load().messages == [message(1)]
    store.close()


def test_an_unknown_error_keeps_its_own_words() -> None:
    problem = sqlite3.OperationalError("too many shoes")
    problem.sqlite_errorcode, problem.sqlite_errorname = sqlite3.SQLITE_TOOBIG, "SQLITE_TOOBIG"
    told = translate_error("/x", problem)
    assert str(told) == "The store /x could not do it (SQLITE_TOOBIG: too many shoes). Nothing was stored."
    assert not told.transient

"""What is SQLite's own: versions, the log and its checkpoints, several threads, and the plans of the questions."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from pathlib import Path

import pytest

from tests.store.rows import mark, message, message_id, put, put_session
from xsessiond.store import sqlite
from xsessiond.store.contract import StoreError, StoreNewer
from xsessiond.store.schema import VERSION
from xsessiond.store.sqlite import LOG_CAP, SqliteStore

BIG = "x" * 200_000


def files(path: Path) -> dict[str, str]:
    return {entry.name: hashlib.sha256(entry.read_bytes()).hexdigest() for entry in path.parent.iterdir()}


@pytest.mark.parametrize("unclean", [False, True])
def test_a_newer_store_is_left_untouched(path: Path, *, unclean: bool) -> None:
    """An older version started by mistake takes nothing from a newer one, nor moves a log that a kill left behind."""
    SqliteStore(path, "full").close()
    newer = sqlite3.connect(path, isolation_level=None)
    newer.execute("PRAGMA wal_autocheckpoint = 0")
    newer.execute("PRAGMA user_version = 4711")
    newer.execute("INSERT INTO meta VALUES ('shoe', 43)")
    if not unclean:
        newer.close()
    before = files(path)
    with pytest.raises(
        StoreNewer, match=rf"written by a newer xsessiond \(format 4711, this one knows {VERSION}\)"
    ) as refusal:
        SqliteStore(path, "full")
    assert not refusal.value.transient
    after = files(path)
    assert {name: after[name] for name in before if not name.endswith("-shm")} == {
        name: digest for name, digest in before.items() if not name.endswith("-shm")
    }
    newer.close()


def test_another_programs_database_is_left_alone(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmark (url TEXT)")
    db.close()
    before = files(path)
    with pytest.raises(StoreError, match="is another program's file"):
        SqliteStore(path, "full")
    assert files(path) == before


def test_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "OLDEST_SQLITE", (99, 0, 0))
    with pytest.raises(StoreError, match=r"is too old; 99\.0\.0 or newer is needed"):
        SqliteStore(path, "full")
    assert not path.exists()


@pytest.mark.parametrize("durability,level", [("full", 2), ("normal", 1)])
def test_settings_of_the_connections(path: Path, durability: sqlite.Durability, level: int) -> None:
    store = SqliteStore(path, durability, full_fsync=True)
    for db in store._connections:
        values = {
            name: db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in (
                "journal_mode",
                "synchronous",
                "fullfsync",
                "checkpoint_fullfsync",
                "wal_autocheckpoint",
                "mmap_size",
            )
        }
        assert values == {
            "journal_mode": "wal",
            "synchronous": level,
            "fullfsync": 1,
            "checkpoint_fullfsync": 1,
            "wal_autocheckpoint": 0,
            "mmap_size": 0,
        }
    store.close()


def test_a_clean_end_leaves_one_file_and_everything_in_it(path: Path) -> None:
    store = SqliteStore(path, "normal")
    store.commit([put(1), put(2)])
    store.close()
    assert [entry.name for entry in path.parent.iterdir()] == ["store.db"]
    store = SqliteStore(path, "normal")
    assert store.load().messages == [message(1), message(2)]
    assert store.log_bytes() == 0
    store.close()


def test_the_log_is_counted_and_moved(path: Path) -> None:
    store = SqliteStore(path, "normal")
    assert store.log_bytes() > 0  # the tables themselves
    store.checkpoint()
    assert store.log_bytes() == 0
    store.commit([put(1, body=BIG)])
    assert store.log_bytes() >= len(BIG)
    assert path.stat().st_size < len(BIG)
    store.checkpoint()
    assert store.log_bytes() == 0
    assert path.stat().st_size > len(BIG)
    store.close()


def test_a_log_that_was_left_behind_is_counted(path: Path) -> None:
    store = SqliteStore(path, "normal")
    store.commit([put(1, body=BIG)])
    beside = sqlite3.connect(path)  # holds the log open over the end of the store, as a kill would
    beside.execute("SELECT count(*) FROM meta").fetchone()
    store.close()
    store = SqliteStore(path, "normal")
    left = store.log_bytes()
    store.checkpoint()
    assert (left >= len(BIG), store.log_bytes()) == (True, 0)
    beside.close()
    store.close()


def test_the_log_never_grows_without_bound(path: Path) -> None:
    """Checkpoints that end behind the writer keep it from starting again by itself."""
    store = SqliteStore(path, "normal")
    log = Path(f"{path}-wal")
    largest = 0
    for seq in range(1, 400):
        store.commit([put(seq, body=BIG)])
        if store.log_bytes() > LOG_CAP // 4:
            # What came in while the log was being moved: the log is never wholly moved at a commit.
            store._checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            store.commit([put(1000 + seq)])
            store.checkpoint()
            store.commit([put(2000 + seq)])
        largest = max(largest, log.stat().st_size)
    assert largest < 2 * LOG_CAP
    assert store.check().ok
    store.close()


def test_a_long_read_delays_the_log_but_no_commit(path: Path) -> None:
    store = SqliteStore(path, "normal")
    store.commit([put(1)])
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM message").fetchone() == (1,)
    for seq in range(2, 150):
        store.commit([put(seq, body=BIG)])
        store.checkpoint()
    assert Path(f"{path}-wal").stat().st_size > LOG_CAP
    assert reader.execute("SELECT count(*) FROM message").fetchone() == (1,)
    reader.close()
    store.checkpoint()
    store.commit([put(150)])
    assert Path(f"{path}-wal").stat().st_size <= LOG_CAP + 4096
    assert len(store.load().messages) == 150
    store.close()


def test_checkpoints_beside_the_writer_only_where_a_row_came(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The WAL-reset bug of SQLite before 3.51.3 has no room: see the module."""
    store = SqliteStore(path, "normal")
    beside: list[bool] = []
    move = store._move_log

    def watch(mode: str) -> None:
        beside.append(not store._writing.locked())
        move(mode)

    monkeypatch.setattr(store, "_move_log", watch)
    store.checkpoint()  # nothing but the tables: made before any of our commits
    store.commit([put(1)])
    store.checkpoint()
    store.checkpoint()  # wholly moved: a commit may start the log again
    store.commit([mark(1, "delivered")])
    store.checkpoint()  # a mark may have changed nothing, and then no page
    store.commit([mark(1, "delivered"), put(2)])
    store.checkpoint()
    assert beside == [False, True, False, False, True]
    store.close()


def test_reads_prunes_checks_and_checkpoints_run_beside_commits(path: Path) -> None:
    store = SqliteStore(path, "normal")
    store.commit([put_session("s-a"), put_session("s-b")])
    done, problems = threading.Event(), []

    def repeat(*calls: str) -> None:
        try:
            while not done.is_set():
                store.load()
                store.read_log(limit=5, since_ms=None, thread=None)
                store.find_message(message_id(5))
                if "prune" in calls:
                    store.prune(older_than_ms=10)
                if "checkpoint" in calls:
                    store.checkpoint()
                if "check" in calls:
                    assert store.check().ok
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=repeat, args=(name,)) for name in ("prune", "checkpoint", "check")]
    for thread in threads:
        thread.start()
    try:
        for seq in range(1, 600):
            store.commit([put(seq, pair_seq=seq), mark(seq, "handed", 1)])
            if seq % 3:
                store.commit([mark(seq, "delivered", 2)])
    finally:
        done.set()
        for thread in threads:
            thread.join(30)
    assert problems == []
    assert [row.seq for row in store.load().messages] == list(range(3, 600, 3))
    assert store.load().pair_seqs == [("s-a", "s-b", 599)]
    assert store.check().ok
    store.close()


@pytest.mark.parametrize(
    "question,index",
    [
        ("find_message", "USING COVERING INDEX content_by_id (<expr>=? AND id=?)"),
        ("find_key", "USING INDEX message_by_key (sender_id=? AND key=?)"),
        ("thread", "content_by_thread (thread=?)"),
    ],
)
def test_questions_about_one_thing_read_an_index(path: Path, question: str, index: str) -> None:
    """F3: a store of a hundred thousand messages answers as fast as an empty one."""
    store = SqliteStore(path, "normal")
    asked: list[str] = []
    store._reader.set_trace_callback(asked.append)
    match question:
        case "find_message":
            store.find_message("m-1")
        case "find_key":
            store.find_key("s-a", "k")
        case _:
            store.read_log(limit=1, since_ms=None, thread="m-1")
    store._reader.set_trace_callback(None)
    plans = [row[3] for statement in asked for row in store._reader.execute(f"EXPLAIN QUERY PLAN {statement}")]
    assert any(index in plan for plan in plans), plans
    assert not any(plan.startswith("SCAN c") for plan in plans), plans
    store.close()

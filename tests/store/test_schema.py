"""The tables: their steps never change once they were released, and a file of any earlier version is taken along."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

import pytest

from tests.store.rows import NOW, hold, mark, message, message_id, put, put_hold, put_session, put_trust, session
from xsessiond.store import looking, schema, sqlite
from xsessiond.store.contract import GrantRow, HoldRow, MessageRow, SessionRow, StoreError, TrustRow, WatchRow
from xsessiond.store.schema import CONTENT_COLUMNS, MESSAGE_COLUMNS, MIGRATIONS, SHELF_BITS
from xsessiond.store.sqlite import SqliteStore

HASHES = [
    "cfde06f929d3e1fdfbb18d09ec1f8557998639caa6a0e39daba3165412c0386d",
    "2f62d3966826e9241136b96ed046bd91fabcc6ac598cf192ed3971469dd8d665",
    "b89d4b30f00c61e71849d6aafc48f703720311aa40f140d30514b08d41adc193",
    "edcf4dcf2c66b297f7d2a3dc5dbe847b932cd73b8726d9af650dc440d6a5b3e9",
    "70bbcb6783e30787b7fe43791a914ed3b9104582b300f018a206a2c1a2b0fa46",
    "463bbac0781234b8df48ab584a17f6304264e46ec9d7d2bf7b7fe23d5119f39a",
    "9276fec0bbdc4c484b139cd675e3b807f01b7b5abeab6e365b52480e65c8f4a6",
]
"""Of every step there is. A line is added for a new step; none is ever changed after a release."""


def test_steps_only_ever_grow_in_number() -> None:
    assert [hashlib.sha256("\n".join(step).encode()).hexdigest() for step in MIGRATIONS] == HASHES


def columns(path: Path, table: str) -> list[str]:
    with sqlite3.connect(path) as db:
        found = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
    db.close()
    return found


def test_tables_have_the_fields_of_the_rows(path: Path) -> None:
    SqliteStore(path, "normal").close()
    assert columns(path, "session") == list(SessionRow.__struct_fields__)
    assert columns(path, "message") == list(MESSAGE_COLUMNS)
    assert columns(path, "content") == list(CONTENT_COLUMNS)
    assert columns(path, "hold") == list(HoldRow.__struct_fields__)
    assert columns(path, "trust") == list(TrustRow.__struct_fields__)
    assert columns(path, "granted") == list(GrantRow.__struct_fields__)
    assert columns(path, "watch") == list(WatchRow.__struct_fields__)
    assert {*MESSAGE_COLUMNS, *CONTENT_COLUMNS} == set(MessageRow.__struct_fields__)
    assert CONTENT_COLUMNS[-1] == "body"


def test_the_index_has_the_shelves_that_the_questions_ask() -> None:
    assert f"(seq >> {SHELF_BITS}, id)" in "".join(MIGRATIONS[0])


@pytest.fixture
def _a_later_version(monkeypatch: pytest.MonkeyPatch) -> None:
    later = (*MIGRATIONS, ("ALTER TABLE session ADD COLUMN shoe_size INTEGER", "CREATE TABLE shoe (size INTEGER)"))
    monkeypatch.setattr(schema, "MIGRATIONS", later)
    monkeypatch.setattr(sqlite, "VERSION", len(later))
    monkeypatch.setattr(looking, "VERSION", len(later))


@pytest.fixture
def written(path: Path) -> Path:
    """Return a store that this version wrote, with a log that was never moved, as after a kill."""
    store = SqliteStore(path, "normal")
    store.commit([put_session("s-a"), put(1), put(2), mark(2, "expired", NOW)])
    store.close()
    return path


@pytest.mark.usefixtures("_a_later_version")
def test_a_later_version_takes_a_store_along(written: Path) -> None:
    store = SqliteStore(written, "normal")
    try:
        assert store.load().messages == [message(1)]
        found = store.find_message(message_id(2))
        assert found is not None
        assert found[0].state == "expired"
        store.commit([put_session("s-a"), put(3)])
        assert store.check().ok
    finally:
        store.close()
    assert columns(written, "session")[-1] == "shoe_size"
    SqliteStore(written, "normal").close()


def test_a_step_that_fails_leaves_the_version_before(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(
            schema, "MIGRATIONS", (*MIGRATIONS, ("CREATE TABLE shoe (size INTEGER)", "CREATE TABLE message (a)"))
        )
        later.setattr(sqlite, "VERSION", len(MIGRATIONS) + 1)
        with pytest.raises(StoreError, match="already exists"):
            SqliteStore(written, "normal")
    assert columns(written, "shoe") == []
    store = SqliteStore(written, "normal")
    assert store.load().messages == [message(1)]
    store.close()


def test_a_store_of_the_first_version_is_taken_along(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sessions were launched with no policy that is known, and nothing of it was ever held."""
    with monkeypatch.context() as earlier:
        earlier.setattr(schema, "MIGRATIONS", MIGRATIONS[:1])
        earlier.setattr(sqlite, "VERSION", 1)
        SqliteStore(path, "normal").close()
    old = session("s-a")
    names = [name for name in SessionRow.__struct_fields__ if name != "inbound"]
    with sqlite3.connect(path) as db:
        values = [getattr(old, name) for name in names]
        db.execute(f"INSERT INTO session ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", values)
    db.close()
    store = SqliteStore(path, "normal")
    try:
        found = store.load()
        assert found.sessions == [old]
        assert (found.holds, found.trusts, found.watches, found.grants) == ([], [], [], [])
        store.commit([put(1, state="held"), put_hold(1), put_trust("t-1")])
        assert store.load().holds == [hold(1)]
    finally:
        store.close()

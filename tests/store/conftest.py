"""Both stores, each made anew for every test that names `store`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from xsessiond.store.contract import Store
from xsessiond.store.memory import MemoryStore
from xsessiond.store.sqlite import SqliteStore


@pytest.fixture(params=["memory", "sqlite full", "sqlite normal"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Yield each store in turn."""
    made: Store
    match request.param:
        case "memory":
            made = MemoryStore()
        case "sqlite full":
            made = SqliteStore(tmp_path / "state" / "store.db", "full")
        case _:
            made = SqliteStore(tmp_path / "state" / "store.db", "normal")
    yield made
    made.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a store may be, in a directory that does not exist yet."""
    return tmp_path / "state" / "store.db"

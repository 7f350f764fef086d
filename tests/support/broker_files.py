"""What a broker left in its directories, looked at from outside: its log, its standard error, its store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.private_broker import PrivateBroker


def read_broker_log(place: PrivateBroker) -> str:
    """Return the log file's text; empty when nothing was worth a line."""
    path = place.state_dir / "xsessiond.log"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def find_bugs(place: PrivateBroker) -> list[str]:
    """Return what the log and every standard error there tell of our own mistakes: tracebacks, errors."""
    told = [line for line in read_broker_log(place).splitlines() if " error: " in line]
    for path in sorted(place.root.glob("*.err")):
        told += [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return told


@contextmanager
def open_store(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the store beside a broker that has it open, to look only."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        yield db
    finally:
        db.close()


def read_tables(place: PrivateBroker) -> dict[str, list[tuple[object, ...]]]:
    """Return every row of every table, so that two moments can be compared."""
    with open_store(place.state_dir / "store.db") as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {name: sorted(db.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr) for name in names}

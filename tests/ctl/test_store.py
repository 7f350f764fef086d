"""`xsessionctl store`: with a broker and without one, on stores that are sound, damaged, newer or not there."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member, poll
from xsessiond.store.schema import VERSION


def fill(broker: PrivateBroker) -> Path:
    """Leave a store with one message that waits, and no broker; return its path."""
    process = broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api"):
        web.send("api", "the secret plan" + "x" * 20_000)
    process.terminate()
    process.wait(20)
    return broker.state_dir / "store.db"


def test_a_sound_store_with_a_broker_and_without(broker: PrivateBroker) -> None:
    path = fill(broker)
    for running in (False, True):
        if running:
            broker.start()
        done = broker.ctl("store", "check")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"{path}: sound\n  messages: 1 (1 waiting), sessions: 2, ")
        assert json.loads(broker.ctl("store", "check", "--json").stdout)["ok"] is True


def test_where_there_is_no_store(broker: PrivateBroker) -> None:
    done = broker.ctl("store", "check")
    assert (done.returncode, done.stdout) == (3, "")
    assert "There is no store at" in done.stderr
    assert broker.ctl("store", "backup").returncode == 3


def test_a_damaged_store(broker: PrivateBroker) -> None:
    """L13: red, in words and in the exit code, also where no broker runs."""
    path = fill(broker)
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 8192)
    done = broker.ctl("store", "check")
    assert done.returncode == 1
    assert done.stdout.startswith(f"{path}: damaged\n  It is damaged: ")
    document = json.loads(broker.ctl("store", "check", "--json").stdout)
    assert (document["ok"], document["usable"]) == (False, False)
    assert broker.ctl("store", "backup", str(broker.root / "copy.db")).returncode == 1
    assert not (broker.root / "copy.db").exists()


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["start", "list", "send api hello"])
def test_a_store_of_a_newer_version_is_left_as_it_is(broker: PrivateBroker, verb: str) -> None:
    """P9, 15.4: a downgrade is refused in words that say what to do, by every verb that would start a broker."""
    path = fill(broker)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = path.read_bytes()
    done = broker.ctl(*verb.split())
    assert (done.returncode, done.stdout) == (9, "")
    assert f"was written by a newer xsessiond (format {VERSION + 1}, this one knows {VERSION})" in done.stderr
    assert "install the newer version again" in done.stderr
    checked = broker.ctl("store", "check")
    assert (checked.returncode, "sound" in checked.stdout, "newer xsessiond" in checked.stdout) == (1, True, True)
    assert path.read_bytes() == before


def test_a_backup_goes_where_it_is_private_by_default(broker: PrivateBroker) -> None:
    fill(broker)
    process = broker.start()
    document = json.loads(broker.ctl("store", "backup", "--json").stdout)
    copy = Path(document["path"])
    assert copy.parent == broker.state_dir / "backup"
    assert (copy.parent.stat().st_mode & 0o777, copy.stat().st_mode & 0o777) == (0o700, 0o600)
    assert (document["ok"], document["messages"]) == (True, 1)
    assert process.poll() is None


@pytest.mark.slow
def test_a_backup_is_a_store_that_a_broker_goes_on_with(broker: PrivateBroker) -> None:
    path = fill(broker)
    copy = broker.root / "copy.db"
    assert broker.ctl("store", "backup", str(copy)).stdout.startswith(f"Copied to {copy}\n")
    second = broker.ctl("store", "backup", str(copy))
    assert (second.returncode, "nothing is overwritten" in second.stderr) == (5, True)
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    copy.rename(path)
    broker.start()
    assert json.loads(broker.ctl("status", "--json").stdout)["queued"] == 1


def test_a_store_that_takes_too_long_is_given_up(broker: PrivateBroker) -> None:
    fill(broker)
    done = broker.ctl("store", "check", "--timeout", "0.001")
    assert (done.returncode, "in time" in done.stderr) == (7, True)


@pytest.mark.slow
def test_a_copy_that_is_given_up_leaves_nothing(broker: PrivateBroker) -> None:
    """Not even a part that would be in the way of the next, with all messages in it."""
    path = fill(broker)
    copy = broker.root / "copy.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")  # the copy waits for that, and is given up meanwhile
        done = broker.ctl("store", "backup", str(copy), "--timeout", "0.9")
        assert (done.returncode, "in time" in done.stderr) == (7, True)
    poll(lambda: list(broker.root.glob("copy*")), lambda left: not left)
    assert broker.ctl("store", "backup", str(copy)).returncode == 0


def test_a_copy_where_none_can_be_is_refused_with_the_path(broker: PrivateBroker) -> None:
    fill(broker)
    target = broker.root / "nowhere" / "copy.db"
    done = broker.ctl("store", "backup", str(target))
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith(f"xsessionctl: The copy {target} cannot be written: No such file or directory.")


@pytest.mark.slow
def test_a_store_that_is_locked_away_is_told_with_its_reason(broker: PrivateBroker) -> None:
    path = fill(broker)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        done = broker.ctl("store", "check", "--json")
    assert done.returncode == 1
    assert "locked by another program" in json.loads(done.stdout)["error"]["text"]

"""A store that is locked, full, read-only, damaged or newer: who sends is told so, nothing is lost or thrown away.

The kinds of failure themselves are tested with the store; here is what a sender, a receiver and `status` see of them.
"""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_files import open_store, read_broker_log, read_tables
from tests.support.private_broker import PrivateBroker, accepts
from tests.support.users import as_user, needs_root
from tests.support.wire_client import Member, Refused, ask_once, greet, poll, read_status

pytestmark = pytest.mark.slow

NOBODY = 65534


@contextmanager
def locked(path: Path, *, exclusively: bool = False) -> Iterator[None]:
    """Hold SQLite's write lock, as a backup program or a curious person does; exclusively: so that nobody reads it."""
    db = sqlite3.connect(path, isolation_level=None)
    try:
        if exclusively:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN IMMEDIATE")
        yield
    finally:
        db.close()


FULL_AT = 64 << 10
"""Bytes of a file that a full disk takes in these tests: less than they write first."""


@contextmanager
def full(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let the process write nothing past the first page of any file, as on a full disk: the kernel refuses it."""
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)


def hold_to_its_word(broker: PrivateBroker, web: Member, api: Member, reason: str, trouble: Any) -> None:
    """While there is trouble a send is refused with the reason and stored nothing; afterwards all is as before."""
    first = web.send("api", "before", key="k0")
    before = read_tables(broker)
    with trouble:
        with pytest.raises(Refused) as refused:
            web.send("api", "during", key="k1")
        assert refused.value.code == "internal"
        assert reason in str(refused.value)
        assert "Nothing was stored" in str(refused.value)
        status = read_status(broker.rendezvous)  # it answers all the same
        assert not status["store"]["ok"]
        assert reason in status["store"]["detail"]
        assert status["queued"] == 1
        assert [session["name"] for session in web.call("list")["sessions"]] == ["web", "api"]
    assert read_tables(broker) == before
    again = web.send("api", "during", key="k1")
    assert again["state"] == "queued"
    assert "again" not in (again["notice"] or "")
    messages = api.take()
    assert [(message["id"], message["text"], message["seq"]) for message in messages] == [
        (first["id"], "before", 1),
        (again["id"], "during", 2),
    ]
    assert api.ack(*(message["id"] for message in messages)) == 2
    assert read_status(broker.rendezvous)["store"]["ok"]
    assert web.call("check", message_id=again["id"])["state"] == "delivered"
    assert "Traceback" not in read_broker_log(broker)


def test_a_locked_store(broker: PrivateBroker) -> None:
    """15.5, O4: told with a sentence, and it works once the lock is gone."""
    broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api") as api:
        hold_to_its_word(broker, web, api, "locked by another program", locked(broker.state_dir / "store.db"))


def test_a_lock_that_passes_costs_a_sender_a_moment_and_no_refusal(broker: PrivateBroker) -> None:
    """15.5: who looks at the store with a program of their own disturbs nobody."""
    broker.start()
    path = broker.state_dir / "store.db"
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api"):
        with locked(path):
            asked = web.wire.ask("send", to="api", message="during")
            assert not web.wire.has_more(0.3)
        assert web.wire.answer(asked)["state"] == "queued"
        assert read_status(broker.rendezvous)["store"]["ok"]
    assert "commit failed" not in read_broker_log(broker)


def test_a_start_waits_for_a_lock_that_passes(broker: PrivateBroker) -> None:
    """15.5: as when a backup program has just taken it."""
    first = broker.start()
    first.terminate()
    first.wait(20)
    log = broker.root / "start.err"
    with log.open("wb") as stderr, locked(broker.state_dir / "store.db", exclusively=True):
        second = subprocess.Popen(
            [sys.executable, "-m", "xsessiond"], stdin=subprocess.DEVNULL, stderr=stderr, env=broker.environ(), cwd="/"
        )
        broker.started.append(second)
        poll(lambda: holds_lock(broker, second.pid), bool)
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(0.5)
        assert not accepts(broker.rendezvous)
    poll(lambda: accepts(broker.rendezvous), bool)
    assert read_status(broker.rendezvous)["broker"]["pid"] == second.pid
    assert log.read_text() == ""


def holds_lock(broker: PrivateBroker, pid: int) -> bool:
    path = broker.state_dir / "store.lock"
    return path.exists() and path.read_text().startswith(f"{pid} ")


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit(2)")
def test_a_full_disk(broker: PrivateBroker) -> None:
    """15.5: the same."""
    process = broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api") as api:
        hold_to_its_word(broker, web, api, "check that the disk has room", full(process))


def test_a_receiver_sees_nothing_of_what_was_not_stored(broker: PrivateBroker) -> None:
    """3.3: no push, no mail note, nothing in `inbox`, and the numbers go on without a gap."""
    broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api", push=True) as api:
        with locked(broker.state_dir / "store.db"):
            with pytest.raises(Refused):
                web.send("api", "lost 0")
            assert api.wire.read_to_end() == b""  # its link had the push already, so to speak: it begins anew
            for number in range(3):
                with pytest.raises(Refused):
                    web.send("api", f"lost {number}")
        api.rejoin()
        assert api.call("inbox")["messages"] == []
        assert not api.wire.has_more()
        sent = web.send("api", "lost 1")  # no repeat of one that was refused
        note = api.wire.note("message")
        assert (note["n"], note["message"]["id"], note["message"]["seq"]) == (1, sent["id"], 1)


def test_an_acknowledgement_during_trouble_is_not_forgotten(broker: PrivateBroker) -> None:
    """6.2: what is true is stored once the store works again; until then nobody gets the message twice."""
    broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api") as api:
        sent = web.send("api", "hello")
        (message,) = api.take()
        with locked(broker.state_dir / "store.db"):
            api.wire.notify("ack", ids=[message["id"]])
            with pytest.raises(Refused):
                web.send("api", "lost")
        web.send("api", "stored")
        assert [message["text"] for message in api.take()] == ["stored"]
        assert web.call("check", message_id=sent["id"])["state"] == "delivered"


@needs_root
def test_a_read_only_store(broker: PrivateBroker) -> None:
    """15.5: `status` and the roster answer; who wants something stored is told why that cannot be."""
    process = broker.start()
    read_status(broker.rendezvous)
    process.terminate()
    assert process.wait(20) == 0
    (broker.state_dir / "store.db").chmod(0o400)
    for path in (broker.root, *broker.root.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    # It becomes somebody else once it is loaded: root may write anything, and others may not read root's Python.
    program = f"import os, sys; from xsessiond import app; os.seteuid({NOBODY}); sys.exit(app.main([]))"
    with (broker.root / "read-only.err").open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", program], cwd="/", env=broker.environ(), stdin=subprocess.DEVNULL, stderr=stderr
        )
    broker.started.append(process)
    poll(lambda: accepts(broker.rendezvous), bool)
    with as_user(NOBODY):
        assert read_status(broker.rendezvous)["broker"]["pid"] == process.pid
        with pytest.raises(Refused) as refused:
            Member(broker.rendezvous, "web")
        assert refused.value.code == "internal"
        assert "is read-only" in str(refused.value)
        status = read_status(broker.rendezvous)
        assert not status["store"]["ok"]
        assert "is read-only" in status["store"]["detail"]
        assert ask_once(broker.rendezvous, "list")["incomplete"] == []
    assert "Traceback" not in read_broker_log(broker)


# -- at the start ------------------------------------------------------------------------------------------------------


@pytest.fixture
def filled(broker: PrivateBroker) -> Path:
    """Return a store of some hundred pages that a stopped broker left, wholly in its main file."""
    (broker.config_dir / "config.toml").write_text("[pacing]\ntarget_burst = 0\nsender_burst = 0\n")
    process = broker.start()
    with Member(broker.rendezvous, "web", harness_session_id="w") as web, Member(broker.rendezvous, "api") as api:
        for number in range(40):
            web.send("api", f"{number} " * 2000)
            if number % 2:
                api.ack(*(message["id"] for message in api.take()))
        process.terminate()
        assert process.wait(20) == 0
    path = broker.state_dir / "store.db"
    assert path.stat().st_size > 50 * 4096
    return path


def overwrite(path: Path, page: int, count: int) -> None:
    with path.open("r+b") as file:
        file.seek(page * 4096)
        file.write(bytes(range(1, 256)) * (count * 4096 // 255))


def page_of(path: Path, table: str) -> int:
    with open_store(path) as db:
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return int(page) - 1


def test_a_damaged_store_is_used_as_far_as_it_goes_and_status_is_red(broker: PrivateBroker, filled: Path) -> None:
    """L13, 15.5: the damage is told, the file stays, the sessions can be asked for."""
    size = filled.stat().st_size
    overwrite(filled, 40, 8)  # in the bodies: what is live can be loaded, and some of it not be read again
    damaged = filled.read_bytes()
    process = broker.start()
    status = poll(lambda: read_status(broker.rendezvous), lambda status: not status["store"]["ok"])
    assert "is damaged" in status["store"]["detail"]
    assert "error: the store is damaged" in read_broker_log(broker)
    with greet(broker.rendezvous) as wire:
        assert wire.call("list")["incomplete"] == []
    process.terminate()
    assert process.wait(20) == 0
    assert filled.stat().st_size >= size
    kept = filled.read_bytes()
    assert kept[40 * 4096 : 48 * 4096] == damaged[40 * 4096 : 48 * 4096]


def damage_header(path: Path) -> None:
    overwrite(path, 0, 1)


def damage_sessions(path: Path) -> None:
    overwrite(path, page_of(path, "session"), 1)


def cut_short(path: Path) -> None:
    os.truncate(path, 3 * 4096)


def make_newer(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()


def make_foreign(path: Path) -> None:
    path.unlink()
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE notes (text)")
    db.execute("INSERT INTO notes VALUES ('mine')")
    db.commit()
    db.close()


def make_empty_of_sense(path: Path) -> None:
    path.write_bytes(b"these are not the pages of a database\n" * 500)


@pytest.mark.parametrize(
    "harm, reason",
    [
        (damage_header, "is not a database"),
        (damage_sessions, "is damaged"),
        (cut_short, "is damaged"),
        (make_newer, "was written by a newer xsessiond (format 99"),
        (make_foreign, "is another program's"),
        (make_empty_of_sense, "is not a database"),
    ],
)
def test_a_store_that_cannot_be_used_is_left_alone(
    broker: PrivateBroker, filled: Path, harm: Callable[[Path], None], reason: str
) -> None:
    """15.5, L13: one sentence, exit status 9, and not a byte of it changed; put right, it serves again."""
    copy = broker.root / "copy.db"
    shutil.copy(filled, copy)
    harm(filled)
    before = filled.read_bytes()
    run = subprocess.run(
        [sys.executable, "-m", "xsessiond"], cwd=broker.home, env=broker.environ(), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert run.returncode == 9, run.stderr
    assert run.stderr.startswith("xsessiond: The store ") or "is another program's" in run.stderr
    assert reason in run.stderr
    assert str(filled) in run.stderr
    assert run.stderr.count("\n") == 1
    assert filled.read_bytes() == before
    assert not broker.rendezvous.exists()
    shutil.copy(copy, filled)
    broker.start()
    assert read_status(broker.rendezvous)["store"]["ok"]
    assert ask_once(broker.rendezvous, "list", all=True)["sessions"] != []

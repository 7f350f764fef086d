"""The doctor on the store, the machine, versions, settings and mail: each fault is made, and found."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.support.doctor import examine, find_problem
from tests.support.human import run_apart
from tests.support.private_broker import PrivateBroker, accepts
from tests.support.users import needs_root
from tests.support.wire_client import Member, poll
from xsessionctl.doctor import examination, program
from xsessionctl.doctor import store as area
from xsessionctl.doctor.findings import Finding, Look
from xsessiond import __version__
from xsessiond.paths import resolve_paths
from xsessiond.store.schema import VERSION

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(20)


# -- the store ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("running", [False, True])
def test_a_damaged_store(broker: PrivateBroker, running: bool) -> None:  # noqa: FBT001
    """L13, 15.5"""
    process = broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api") as api:
        web.send("api", "x" * 500_000)
        api.ack(*(message["id"] for message in api.take()))
    end(process)
    with (broker.state_dir / "store.db").open("r+b") as file:
        file.seek(300_000)  # in the middle of what was said: nobody needs it to start
        file.write(b"\xff" * 16384)
    if running:
        broker.start()
    found = examine(broker)
    assert found.code == 1
    assert "It is damaged: " in found.problems("store")[0]["what"]
    left = {path.name for path in broker.state_dir.glob("store.db*")}
    mend = found.problems("store")[0]["mend"]
    done = run_apart(["/bin/sh", "-c", mend], env=broker.environ(), cwd=broker.home, within_s=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert "store.db" in {path.name for path in (broker.state_dir / "damaged").iterdir()} <= left
    assert examine(broker).problems() == []


def test_a_store_of_a_newer_version(broker: PrivateBroker) -> None:
    """P9"""
    end(broker.start())
    with closing(sqlite3.connect(broker.state_dir / "store.db")) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    assert "was written by a newer xsessiond" in find_problem(broker, "store")["what"]


def test_a_file_that_is_no_store(broker: PrivateBroker) -> None:
    (broker.state_dir / "store.db").write_bytes(b"no database at all, and longer than nothing")
    (broker.state_dir / "store.db").chmod(0o600)
    problem = find_problem(broker, "store")
    assert "is not a database" in problem["what"]
    (broker.state_dir / "damaged").mkdir()  # of the last time, which is not replaced
    assert "is not a database" in broker.ctl("store", "check").stderr
    mend = find_problem(broker, "store")["mend"]
    assert problem["mend"] != mend
    done = run_apart(["/bin/sh", "-c", mend], env=broker.environ(), cwd=broker.home, within_s=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert (broker.state_dir / "damaged-2" / "store.db").read_bytes().startswith(b"no database")
    assert examine(broker).code == 0


def test_a_store_that_takes_nothing(broker: PrivateBroker) -> None:
    """15.5: as the broker met it, also when it is sound to look at."""
    process = broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api"):
        before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, before[1]))
        with pytest.raises(Exception, match="Nothing was stored"):
            web.send("api", "hello")
        problem = find_problem(broker, "store")
        assert (
            problem["what"].startswith("The broker says: The store did not take") or "could not be" in problem["what"]
        )


@needs_root
def test_a_disk_that_is_nearly_full(broker: PrivateBroker) -> None:
    """A real file system of a few MiB, in a mount namespace of its own."""
    ctl = f"{sys.executable} -m xsessionctl doctor --json"
    script = f"mount -t tmpfs -o size=8m,mode=700 tmpfs {broker.state_dir} && exec {ctl}"
    done = subprocess.run(
        ["unshare", "-m", "/bin/sh", "-c", script], env=broker.environ(), capture_output=True, timeout=60, check=False
    )
    if b"unshare" in done.stderr:
        pytest.skip("no mount namespaces here")
    assert done.returncode == 1
    assert b"8 MiB are free where the store is." in done.stdout or b"7 MiB are free" in done.stdout


@needs_root
def test_a_disk_without_room_for_files(broker: PrivateBroker) -> None:
    ctl = f"{sys.executable} -m xsessionctl doctor --json"
    script = f"mount -t tmpfs -o nr_inodes=1,mode=700 tmpfs {broker.state_dir} && exec {ctl}"
    done = subprocess.run(
        ["unshare", "-m", "/bin/sh", "-c", script], env=broker.environ(), capture_output=True, timeout=60, check=False
    )
    if b"unshare" in done.stderr:
        pytest.skip("no mount namespaces here")
    assert b"No more files can be made where the store is." in done.stdout


AHEAD = """
import time
_ns = time.time_ns
time.time_ns = lambda: _ns() + 8 * 3600 * 10**9
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a clock that counts sleep")
def test_a_clock_that_was_set_back(broker: PrivateBroker) -> None:
    """P10: the broker started while the clock was eight hours ahead; nobody is evicted, and the doctor tells."""
    shifted = broker.root / "shifted"
    shifted.mkdir()
    (shifted / "sitecustomize.py").write_text(AHEAD)
    broker.start(PYTHONPATH=str(shifted))
    with Member(broker.rendezvous, "web"):
        found = examine(broker)
    (note,) = found.of("note", "machine")
    assert note["what"].startswith("The wall clock was set back by 288")
    (problem,) = found.problems("store")
    assert "ahead of this machine's clock" in problem["what"]
    assert found.code == 1


# -- the machine -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit(2)")
def test_too_few_descriptors_for_the_sessions(broker: PrivateBroker) -> None:
    """13.3"""
    process = broker.start()
    with ExitStack() as stack:
        for number in range(10):
            stack.enter_context(Member(broker.rendezvous, f"s{number}"))
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (90, hard))
        problem = find_problem(broker, "machine")
        assert problem["what"].startswith("The broker may have 90 descriptors open, and has ")
        assert problem["what"].endswith("; 10 sessions run.")


# -- versions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field, value, level", [("version", "0.0.9", "note"), ("protocol", 2, "problem")])
def test_a_broker_of_another_version(field: str, value: object, level: str) -> None:
    """P9, 15.4: what it says of itself. (Real ones of other versions are in tests/e2e.)"""
    paths = resolve_paths()
    look = Look(paths, paths, 0.0)
    look.renew({"broker": {"pid": 1, "version": __version__, "protocol": 1, field: value}}, None)
    (finding,) = program.examine(look)
    assert (finding.level, finding.mend) == (level, "xsessionctl restart")


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("running", [False, True])
def test_settings_that_cannot_be_used(broker: PrivateBroker, running: bool) -> None:  # noqa: FBT001
    """C1, C3: with file, line and column, whoever reads them."""
    path = broker.config_dir / "config.toml"
    path.write_text("[inbound]\npolicy = 'maybe'\n[pacing]\nfrobnicate = 1\n")
    if running:
        broker.start()
    found = examine(broker)
    (problem,) = found.problems("settings")
    assert problem["what"].startswith(f"{path}:2:")
    (note,) = found.of("note", "settings")
    assert note["what"].startswith(f"{path}:4:")
    assert found.code == 1


# -- mail --------------------------------------------------------------------------------------------------------------


def test_mail_that_is_stuck_and_mail_that_waits_for_a_decision(broker: PrivateBroker) -> None:
    """W5, 6.3: the fault is a session that works and takes nothing; the clock is the broker's own, moved on."""
    hurry = broker.root / "hurry"
    hurry.mkdir()
    (hurry / "sitecustomize.py").write_text(
        "import xsessiond.core.limits as limits\nlimits.STUCK_AFTER_MS = 0\nlimits.STALLED_AFTER_S = 0.01\n"
    )
    broker.start(PYTHONPATH=str(hurry))
    with (
        Member(broker.rendezvous, "web") as web,
        Member(broker.rendezvous, "api") as api,
        Member(broker.rendezvous, "bold", **{"class": "bypass"}),
    ):
        web.send("api", "one")
        (message,) = api.take()
        api.call("handed", ids=[message["id"]])
        web.send("api", "two")
        api.call("turn", phase="started", by="human")
        web.send("bold", "may I?")
        poll(lambda: examine(broker), lambda found: len(found.problems("mail")) == 2)
        found = examine(broker)
        stalled, stuck = found.problems("mail")
        assert stalled["what"].startswith(f"1 of the messages given to api [{api.session['ref']}] were not seen")
        assert stuck["what"].startswith(f"api [{api.session['ref']}] works on, and does not take the ")
        assert [note["what"] for note in found.of("note", "mail")] == ["A message is held until you decide."]
        api.ack(*(message["id"] for message in [message, *api.take()]))
        assert examine(broker).problems("mail") == []


@pytest.mark.skipif(sys.platform != "linux", reason="stops a process that the kernel watches")
def test_a_session_that_does_not_answer(broker: PrivateBroker) -> None:
    """1.6: of a stopped process; known to the roster once somebody asked."""
    broker.start()
    with Member(broker.rendezvous, "web") as web:
        poll(lambda: web.call("list"), lambda listed: listed["sessions"][0]["state"] != "unresponsive")
    process = broker.spawn(sys.executable, "-c", DEAF, str(ROOT), str(broker.rendezvous))
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, signal.SIGSTOP)
    try:
        found = poll(
            lambda: examine(broker),
            lambda found: any("does not answer" in note["what"] for note in found.of("note", "mail")),
        )
        assert found.code == 0
    finally:
        os.kill(process.pid, signal.SIGCONT)


DEAF = """
import os, sys
sys.path.insert(0, sys.argv[1])
from tests.support.wire_client import Member
member = Member(sys.argv[2], "deaf", pid=os.getpid())
print(flush=True)
sys.stdin.read()
"""


def test_what_the_broker_warned_of(broker: PrivateBroker) -> None:
    """13.2: a token that was used from elsewhere."""
    broker.start()
    process = broker.spawn(sys.executable, "-c", DEAF, str(ROOT), str(broker.rendezvous))
    assert process.stdout is not None
    process.stdout.readline()
    with Member(broker.rendezvous, "web") as web:
        done = broker.ctl("rename", "web", "other", XSESSIOND_SHIM="1")  # an agent may not
        assert done.returncode == 10
        found = examine(broker)
        assert any("tried to rename another session" in note["what"] for note in found.of("note", "mail"))
        assert web.call("whoami")["name"] == "web"


# -- the doctor itself -------------------------------------------------------------------------------------------------


def test_an_area_that_fails_is_a_finding_and_keeps_no_other_from_telling(
    broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in broker.directories().items():
        monkeypatch.setenv(name, value)

    def stumble(look: Look) -> list[Finding]:
        raise ZeroDivisionError("nobody thought of that")

    monkeypatch.setattr(area, "examine", stumble)
    document = examination.examine_all(float("inf"))
    findings = document["findings"]
    assert isinstance(findings, list)
    assert [one["what"] for one in findings if one["level"] == "problem"] == [
        "This could not be looked at: ZeroDivisionError: nobody thought of that."
    ]
    assert {one["area"] for one in findings} >= {"paths", "lock", "settings"}
    assert not accepts(broker.rendezvous)

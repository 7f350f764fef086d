"""A broker's day: sessions that die or come back, directories that vanish, descriptors that run out, its own end."""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.broker_files import find_bugs, open_store, read_broker_log
from tests.support.private_broker import PrivateBroker, accepts
from tests.support.wire_client import (
    Json,
    LinkLost,
    Member,
    Refused,
    Wire,
    ask_once,
    await_status,
    greet,
    poll,
    read_status,
)
from xsessiond.core.limits import STOP_WITHIN_S

pytestmark = pytest.mark.slow

WAITS = "import sys; print(flush=True); sys.stdin.read()"


def list_names(broker: PrivateBroker) -> list[str]:
    return [session["name"] for session in ask_once(broker.rendezvous, "list")["sessions"]]


def list_doors(broker: PrivateBroker) -> set[str]:
    """Return the refs of the private sockets that are there."""
    return {path.stem for path in (broker.runtime_dir / "s").iterdir()}


def assert_doors_are_the_list(broker: PrivateBroker) -> list[Json]:
    """1.2: a private socket exists exactly while its session is in the list, and can be connected to."""
    sessions: list[Json] = ask_once(broker.rendezvous, "list")["sessions"]
    assert list_doors(broker) == {session["ref"] for session in sessions}
    for session in sessions:
        assert accepts(broker.runtime_dir / "s" / f"{session['ref']}.sock")
    return sessions


def start_harness(broker: PrivateBroker) -> subprocess.Popen[bytes]:
    """Start a process that plays the harness; sessions of it are registered by our own, its parent's, hand."""
    process = broker.spawn(sys.executable, "-c", WAITS)
    assert process.stdout is not None
    process.stdout.readline()
    return process


# A harness process whose shim is a child of it. The shim tells its session, keeps its link, and outlives its parent.
SHIM = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from tests.support.wire_client import LinkLost, Member
member = Member(sys.argv[2], sys.argv[3], pid=os.getppid(), harness="claude", harness_session_id="talk")
print(json.dumps({"id": member.id, "socket": member.socket, "shim": os.getpid()}), flush=True)
try:
    print(json.dumps(member.wire.note("bye")), flush=True)
    member.wire.read_line()
except LinkLost:
    print("closed", flush=True)
"""
HARNESS = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SHIM!r}, *sys.argv[1:]]); sys.stdin.read()"
ROOT = Path(__file__).parents[2]


def start_session(broker: PrivateBroker, name: str) -> tuple[subprocess.Popen[bytes], Json]:
    """Start a harness with a shim below it; return the harness and what the shim told."""
    import json

    process = broker.spawn(sys.executable, "-c", HARNESS, str(ROOT), str(broker.rendezvous), name)
    assert process.stdout is not None
    told: Json = json.loads(process.stdout.readline())
    return process, told


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_harness_that_is_killed_takes_its_session_off_the_list(broker: PrivateBroker) -> None:
    """D1, 1.4: within a second, although its shim lives on and keeps its link; a send is told `not_running`."""
    broker.start()
    process, told = start_session(broker, "web")
    with Member(broker.rendezvous, "api") as api:
        assert sorted(list_names(broker)) == ["api", "web"]
        start = time.monotonic()
        process.kill()
        await_status(broker.rendezvous, sessions=1, within_s=1.0)
        assert time.monotonic() - start < 1.0
        assert list_doors(broker) == {api.session["ref"]}
        with pytest.raises(Refused) as refused:
            api.send("web", "are you there?")
        assert refused.value.code == "not_running"
        assert process.stdout is not None  # the pipe is the shim's too, which was told and closed
        assert process.stdout.read() == b'{"reason": "ended"}\nclosed\n'
        process.wait(20)
        assert told["id"] not in {session["id"] for session in ask_once(broker.rendezvous, "list")["sessions"]}


def test_a_session_whose_harness_died_while_no_broker_ran_does_not_come_back(broker: PrivateBroker) -> None:
    """D1, 1.1: what the store says of a session is believed only with its process."""
    first = broker.start()
    process, _ = start_session(broker, "web")
    with Member(broker.rendezvous, "api") as api:
        first.kill()
        first.wait(20)
        process.kill()
        process.wait(20)
        broker.start()
        api.rejoin()
        await_status(broker.rendezvous, sessions=1)
        assert list_names(broker) == ["api"]
        assert_doors_are_the_list(broker)


@pytest.mark.parametrize("column, value", [("pid_start", 1), ("boot_id", "another")])
def test_a_pid_that_was_used_again_is_another_process(broker: PrivateBroker, column: str, value: object) -> None:
    """D2, 1.3: a session is its process with start time and boot, never a pid alone."""
    first = broker.start()
    process, told = start_session(broker, "web")
    first.kill()
    first.wait(20)
    db = sqlite3.connect(broker.state_dir / "store.db")
    with db:
        assert db.execute(f"UPDATE session SET {column} = ? WHERE pid = ?", (value, process.pid)).rowcount == 1
    db.close()
    broker.start()
    await_status(broker.rendezvous, sessions=0)
    assert process.poll() is None
    assert list_doors(broker) == set()
    with open_store(broker.state_dir / "store.db") as looked:
        assert looked.execute("SELECT live FROM session WHERE id = ?", (told["id"],)).fetchall() == [(0,)]


def test_a_link_that_comes_back_was_never_away_to_others(broker: PrivateBroker) -> None:
    """D3, 1.5: same id, name, queue; the others saw nothing of it."""
    broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api") as api:
        sent = api.send("web", "for later")
        seen = [{**session, "last_seen_at": ""} for session in assert_doors_are_the_list(broker)]
        before = web.id, web.name, web.socket, web.token
        web.close()
        for _ in range(3):  # while it is away: the first time, the broker may not even know yet
            assert [{**session, "last_seen_at": ""} for session in assert_doors_are_the_list(broker)] == seen
        later = api.send("web", "and this")
        web.rejoin()
        assert (web.id, web.name, web.socket, web.token) == before
        assert [{**session, "last_seen_at": ""} for session in assert_doors_are_the_list(broker)] != []
        assert [message["id"] for message in web.take()] == [sent["id"], later["id"]]
        assert not api.wire.has_more()  # nobody was told of a departure or a return
        assert find_bugs(broker) == []


def test_the_private_sockets_are_the_list_at_all_times(broker: PrivateBroker) -> None:
    """1.2: over joining, renaming, losing a link, ending, dying, and a killed broker."""
    process = broker.start()
    members = [Member(broker.rendezvous, f"s{number}", harness_session_id=f"t{number}") for number in range(6)]
    try:
        assert len(assert_doors_are_the_list(broker)) == 6
        members[0].call("end")
        assert len(assert_doors_are_the_list(broker)) == 5
        members[1].call("rename", name="other")
        members[2].close()
        assert len(assert_doors_are_the_list(broker)) == 5
        members[0].token = ""
        members[0].rejoin()  # the same conversation, resumed
        assert len(assert_doors_are_the_list(broker)) == 6
        process.kill()
        process.wait(20)
        broker.start()
        assert len(assert_doors_are_the_list(broker)) == 6  # each may come back
        for member in members:
            member.rejoin()
        assert len(assert_doors_are_the_list(broker)) == 6
        for member in members:
            member.call("end")
        assert assert_doors_are_the_list(broker) == []
    finally:
        for member in members:
            member.close()


# -- the runtime dir ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["the rendezvous", "a private socket", "the sessions' dir", "all of it"])
def test_what_is_deleted_is_made_again_while_the_sessions_stay(broker: PrivateBroker, lost: str) -> None:
    """15.3, P5: links live on, clients find the broker where it was, and a private socket can be used as before."""
    process = broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api") as api:
        sent = web.send("api", "before")
        match lost:
            case "the rendezvous":
                broker.rendezvous.unlink()
            case "a private socket":
                Path(web.socket).unlink()
            case "the sessions' dir":
                shutil.rmtree(broker.runtime_dir / "s")
            case _:
                shutil.rmtree(broker.runtime_dir)
        places = [broker.rendezvous, Path(web.socket), Path(api.socket)]
        poll(lambda: [path for path in places if not accepts(path)], lambda away: not away)
        assert read_status(broker.rendezvous)["broker"]["pid"] == process.pid
        web.send("api", "after")
        assert [message["text"] for message in api.take()] == ["before", "after"]
        web.rejoin()
        assert web.call("check", message_id=sent["id"])["state"] == "queued"
        assert_doors_are_the_list(broker)
        for path in (broker.runtime_dir, broker.runtime_dir / "s"):
            assert path.stat().st_mode & 0o777 == 0o700
        assert "has been made again" in read_broker_log(broker)
        second = subprocess.run(
            [sys.executable, "-m", "xsessiond"], cwd=broker.home, env=broker.environ(), stdin=subprocess.DEVNULL,
            capture_output=True, timeout=20, check=False,
        )  # fmt: skip
        assert (second.returncode, f"already running (pid {process.pid})".encode() in second.stderr) == (0, True)


def test_a_runtime_dir_that_is_deleted_while_the_broker_starts(broker: PrivateBroker) -> None:
    """15.3, P5: between its first socket and its first answer."""
    process = broker.start()  # returns when it listens, before it has taken up what the last broker left
    shutil.rmtree(broker.runtime_dir)
    poll(lambda: accepts(broker.rendezvous), bool)
    assert read_status(broker.rendezvous)["broker"]["pid"] == process.pid
    with Member(broker.rendezvous, "web"):
        assert_doors_are_the_list(broker)


def test_what_a_killed_broker_left_in_the_sessions_dir_is_cleared(broker: PrivateBroker) -> None:
    """1.2: sockets of sessions that are no more; what is no socket of ours is left alone and hinders nothing."""
    process = broker.start()
    with Member(broker.rendezvous, "web") as web:
        process.kill()
        process.wait(20)
        left = broker.runtime_dir / "s" / "0123abcd.sock"
        shutil.copyfile("/dev/null", left)
        strange = broker.runtime_dir / "s" / "dir.sock"
        strange.mkdir()
        broker.start()
        read_status(broker.rendezvous)
        assert not left.exists()
        assert strange.exists()
        web.rejoin()


# -- shortage ----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit(2)")
def test_a_lack_of_descriptors_ends_nothing(broker: PrivateBroker) -> None:
    """13.3: who is connected goes on; newcomers wait or are turned away, and get in when there is room."""
    process = broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api") as api:
        used = len(os.listdir(f"/proc/{process.pid}/fd"))
        limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (used + 3, limits[1]))
        crowd = [Wire(broker.rendezvous) for _ in range(20)]
        try:
            web.send("api", "in the crowd")
            assert [message["text"] for message in api.take()] == ["in the crowd"]
            poll(lambda: read_broker_log(broker), lambda log: "cannot be accepted for now" in log)
        finally:
            for wire in crowd:
                wire.close()
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)
        poll(lambda: reaches(broker), bool)
        assert read_status(broker.rendezvous)["broker"]["pid"] == process.pid
        assert "Connections are accepted again." in read_broker_log(broker)
        with Member(broker.rendezvous, "new") as new:
            assert new.send("web", "hello")["state"] == "queued"


def reaches(broker: PrivateBroker) -> bool:
    try:
        return bool(read_status(broker.rendezvous))
    except LinkLost:
        return False


def test_a_client_that_reads_nothing_hinders_nobody(broker: PrivateBroker) -> None:
    """13.3: it is not read while it does not read, and cut when too much gathers; the others do not notice."""
    (broker.config_dir / "config.toml").write_text(
        "[pacing]\ntarget_burst = 0\nsender_burst = 0\nqueue_per_session = 200\n"
    )
    broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "deaf", push=True) as deaf:
        with greet(broker.rendezvous) as greedy:
            ask_without_reading(greedy)
            for number in range(64):
                web.send("deaf", f"{number}" + "x" * 100_000)
            poll(lambda: read_status(broker.rendezvous)["queued"], lambda queued: queued == 64)
            assert len(deaf.wire.read_to_end()) < 64 * 100_000  # it was cut before it had been given all
        deaf.push = False
        deaf.rejoin()
        got = [message["seq"] for _ in range(10) for message in take_and_ack(deaf)]
        assert got == list(range(1, 65))
        assert find_bugs(broker) == []


def ask_without_reading(greedy: Wire) -> None:
    """Ask and ask until the broker reads no more of it: it owes too many answers that nobody reads."""
    request = b'{"jsonrpc":"2.0","id":1,"method":"list"}\n'
    asked = 0
    while (sent := greedy.write_what_fits(request * 1000)) or not poll_writable(greedy):
        asked += sent
        assert asked < 64 << 20, "the broker reads on for ever"


def poll_writable(wire: Wire) -> bool:
    """Tell whether nothing can be written now nor within a moment."""
    return not select.select([], [wire], [], 0.5)[1]


def take_and_ack(member: Member) -> list[Json]:
    messages = member.take()
    member.ack(*(message["id"] for message in messages))
    return messages


# -- the end -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "SIGHUP", "stop"])
def test_a_graceful_stop_finishes_what_was_accepted(broker: PrivateBroker, how: str) -> None:
    """15.5: what was asked before is answered and stored; sessions are told; nothing is left lying; exit status 0."""
    process = broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api") as api:
        asked = [web.wire.ask("send", to="api", message=f"number {number}") for number in range(20)]
        web.wire.answer(asked[0])
        if how == "stop":
            assert ask_once(broker.rendezvous, "stop") == {"stopping": True, "pid": process.pid}
        else:
            process.send_signal(getattr(signal, how))
        answers: list[str] = []
        refusals: set[str] = set()
        for request_id in asked[1:]:
            try:
                answers.append(web.wire.answer(request_id)["id"])
            except Refused as refusal:
                refusals.add(str(refusal.code))
        assert refusals <= {"no_broker"}
        assert web.wire.note("bye") == {"reason": "stopping"}
        assert api.wire.note("bye") == {"reason": "stopping"}
        with pytest.raises(LinkLost):
            web.wire.read_line()
        assert process.wait(20) == 0
        assert not broker.rendezvous.exists()
        assert list_doors(broker) == set()
        assert not (broker.state_dir / "store.db-wal").exists()
        with open_store(broker.state_dir / "store.db") as db:
            stored = {message_id for (message_id,) in db.execute("SELECT id FROM content")}
        assert set(answers) <= stored
        broker.start()
        web.rejoin()
        api.rejoin()
        assert {message["id"] for message in api.take()} == stored
        assert find_bugs(broker) == []


def test_a_stop_is_bounded_though_a_client_reads_nothing(broker: PrivateBroker) -> None:
    """15.5: it waits for nobody for ever."""
    process = broker.start()
    with Member(broker.rendezvous, "web"), greet(broker.rendezvous) as greedy:
        ask_without_reading(greedy)
        start = time.monotonic()
        process.terminate()
        assert process.wait(20) == 0
        assert time.monotonic() - start < STOP_WITHIN_S + 2


# -- idle --------------------------------------------------------------------------------------------------------------


def count_wake_ups(pid: int) -> int:
    """Return how often the broker's loop went to sleep by itself, and so was woken. (A thread that was used is kept
    for some seconds and then ends by itself, unseen by the loop.)"""
    for line in Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines():
        if line.startswith("voluntary_ctxt_switches"):
            return int(line.split()[1])
    raise AssertionError("the kernel counts no switches")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="counts wake-ups in /proc")
def test_an_idle_broker_with_fifty_sessions_does_not_wake(broker: PrivateBroker) -> None:
    """F1, 15.6: no timer runs when nothing is due."""
    process = broker.start()
    members = [Member(broker.rendezvous, f"s{number}", push=number % 2 == 0) for number in range(50)]
    try:
        members[0].send("s1", "hello")
        take_and_ack(members[1])
        time_of_rest(process.pid)
        before = count_wake_ups(process.pid)
        assert not members[0].wire.has_more(2.0)
        assert count_wake_ups(process.pid) == before
    finally:
        for member in members:
            member.close()


def time_of_rest(pid: int) -> None:
    """Return when it has been asleep for half a second: what was asked of it is done."""
    last = count_wake_ups(pid), time.monotonic()

    def rested() -> bool:
        nonlocal last
        count = count_wake_ups(pid)
        if count != last[0]:
            last = count, time.monotonic()
        return time.monotonic() - last[1] > 0.5

    poll(rested, bool)

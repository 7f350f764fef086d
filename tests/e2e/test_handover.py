"""A broker that is replaced under load: nothing refused, nothing lost, nobody has to do anything."""

from __future__ import annotations

import json
import os
import select
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psutil
import pytest

from tests.shim.process import ShimProcess, finish_all, texts
from tests.support.broker_files import find_bugs, read_broker_log
from tests.support.handover_storm import HandoverStorm
from tests.support.human import as_human
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import (
    Json,
    LinkLost,
    Member,
    Refused,
    Wire,
    ask_once,
    poll,
    read_status,
)
from xsessiond import __version__
from xsessiond.core.limits import CONNECTS_PER_SECOND
from xsessiond.store.schema import VERSION

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_shim_stays(broker: PrivateBroker) -> Iterator[None]:
    yield
    finish_all()


def restart(broker: PrivateBroker, **extra: str) -> Json:
    """Hand over, and return what was said of it."""
    done = broker.ctl("restart", "--json", within_s=60, **extra)
    assert done.returncode == 0, done.stdout + done.stderr
    document: Json = json.loads(done.stdout)
    return document


class Crowd:
    """Threads that each do one thing again and again until the end, together as often as what one tree of processes
    starts may connect, and what went wrong for them."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.wrong: list[BaseException] = []
        self.rounds = 0
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Return when all have ended what they were about."""
        self.over.set()
        for thread in self._threads:
            thread.join(60)

    def add(self, work: Callable[[], None]) -> None:
        def go_on() -> None:
            while not self.over.wait(len(self._threads) / (0.8 * CONNECTS_PER_SECOND)):
                try:
                    work()
                except BaseException as problem:
                    self.wrong.append(problem)
                    return
                self.rounds += 1

        self._threads.append(threading.Thread(target=go_on))
        self._threads[-1].start()


def test_under_load_nobody_is_refused_and_nothing_is_lost(broker: PrivateBroker) -> None:
    """15.4, P9: over five restarts: who connects gets its answer, whoever sends under a key has sent once, and it is
    one process with one socket all the time."""
    process = broker.start()
    inode = broker.rendezvous.stat().st_ino
    sent: list[str] = []
    with ExitStack() as stack:
        api = stack.enter_context(Member(broker.rendezvous, "api"))
        crowd = stack.enter_context(Crowd())

        def look() -> None:
            with Wire(broker.rendezvous) as wire:  # raw: no retry of any kind
                status = ask_again(wire, "status")
                assert status["broker"]["pid"] == process.pid

        def send() -> None:
            key = os.urandom(8).hex()
            while True:
                try:
                    answer = ask_once(broker.rendezvous, "send", to="api", message=key, key=key, when_offline="queue")
                except LinkLost:
                    continue  # accepted by the old broker and not answered: the key makes asking again safe
                except Refused as refusal:
                    if refusal.code == "no_broker" and refusal.data["retry_after_s"] == 0.2:
                        crowd.over.wait(0.2)
                        continue
                    if refusal.code in ("queue_full", "rate_limited"):
                        return
                    raise
                sent.append(answer["id"])
                return

        for _ in range(4):
            crowd.add(look)
        crowd.add(send)
        got: list[str] = []
        instances = {read_status(broker.rendezvous)["broker"]["instance"]}
        for _ in range(5):
            done = restart(broker)
            instances.add(done["broker"]["instance"])
            assert done["broker"]["pid"] == process.pid
            api.rejoin()
            got += take_all(api)
        poll(lambda: crowd.rounds, lambda rounds: rounds > 10)
        crowd.end()
        assert crowd.wrong == []
        got += take_all(api)
    assert len(instances) == 6
    assert broker.rendezvous.stat().st_ino == inode
    assert sorted(got) == sorted(set(got))
    assert set(sent) <= set(got)
    assert process.poll() is None
    assert find_bugs(broker) == []


def ask_again(wire: Wire, method: str) -> Json:
    """Ask over a connection that may have been taken by the broker that ends: `status` is answered to the last."""
    return wire.call(method)


def take_all(member: Member) -> list[str]:
    got = []
    while messages := member.take():
        member.ack(*(message["id"] for message in messages))
        got += [message["id"] for message in messages]
    return got


def test_commands_of_people_and_scripts_notice_nothing(broker: PrivateBroker) -> None:
    """15.4: each send of a shell's loop is accepted, though it has no key; each listing is whole."""
    (broker.config_dir / "config.toml").write_text(
        "[pacing]\ntarget_burst = 0\nsender_burst = 0\nduplicate_window = '0s'\nqueue_per_session = 100000\n"
    )
    broker.start()
    count = 0
    with Member(broker.rendezvous, "api", harness_session_id="talk") as api, Crowd() as crowd:

        def send() -> None:
            nonlocal count
            done = broker.ctl("send", "api", f"number {count}", "--when-offline", "queue")
            assert done.returncode == 0, (done.stdout, done.stderr)
            count += 1

        def look() -> None:
            done = broker.ctl("list", "--json")
            assert done.returncode == 0, (done.stdout, done.stderr)
            assert [session["name"] for session in json.loads(done.stdout)["sessions"]] == ["api"]

        crowd.add(send)
        crowd.add(look)
        for _ in range(4):
            restart(broker)
        poll(lambda: crowd.rounds, lambda rounds: rounds > 4)
        crowd.end()
        assert crowd.wrong == []
        api.rejoin()
        assert len(take_all(api)) == count


def test_real_sessions_come_back_by_themselves(broker: PrivateBroker) -> None:
    """15.4, 1.5: same ids and names; a call that was under way is answered; nobody calls a tool for it to happen."""
    web, api = (ShimProcess(broker, XSESSIOND_NAME=name) for name in ("web", "api"))
    for shim in (web, api):
        shim.initialize()
        shim.call("list_agents")
    before = ask_once(broker.rendezvous, "list")["sessions"]
    for number in range(3):
        asked = web.post_call("send_message", to="api", message=f"across {number}")
        restart(broker)
        answer = web.answer(asked)
        assert answer["structuredContent"]["state"] in ("queued", "delivered"), answer
        assert web.call("list_agents")["structuredContent"]["self"]["name"] == "web"
        assert f"across {number}" in " ".join(texts(api.call("read_messages")))
    after = ask_once(broker.rendezvous, "list")["sessions"]
    assert [(row["id"], row["name"]) for row in after] == [(row["id"], row["name"]) for row in before]
    assert find_bugs(broker) == []


def test_a_session_that_does_nothing_comes_back_too(broker: PrivateBroker) -> None:
    """15.4: mail for it has its way again before anybody uses a tool."""
    idle = ShimProcess(broker, XSESSIOND_NAME="idle")
    idle.initialize()
    idle.call("list_agents")
    restart(broker)
    with Member(broker.rendezvous, "web") as web:
        poll(lambda: web.call("list")["sessions"], lambda rows: linked(rows, broker))


def linked(rows: list[Json], broker: PrivateBroker) -> bool:
    """Tell whether the session called idle has a link: one without cannot be pinged, and is never `unresponsive`."""
    (idle,) = [row for row in rows if row["name"] == "idle"]
    with Wire(broker.runtime_dir / "s" / f"{idle['ref']}.sock") as wire:
        return wire.call("status")["sessions"] == 2


def test_what_the_broker_knew_it_knows_afterwards(broker: PrivateBroker) -> None:
    """15.4: leases, holds, trust, pins, receipts and who wants to be told when a session is idle."""
    broker.start()
    with (
        Member(broker.rendezvous, "web", harness_session_id="w") as web,
        Member(broker.rendezvous, "api", harness_session_id="a", modes=["auto"]) as api,
        Member(broker.rendezvous, "bold", **{"class": "bypass"}, harness_session_id="b") as bold,
    ):
        leased, waiting = web.send("api", "leased"), web.send("api", "waiting")
        (first,) = api.take(max=1)
        held = web.send("bold", "may I?")
        assert held["state"] == "held"
        api.call("turn", phase="started")
        web.call("send", to="api", notify_when_idle=True)
        restart(broker)
        for member in (web, api, bold):
            member.rejoin()
        assert api.ack(first["id"]) == 1  # leased by the broker before, acknowledged to this one
        assert [message["id"] for message in api.take()] == [waiting["id"]]
        assert web.call("check", message_id=leased["id"])["state"] == "delivered"
        assert [one["id"] for one in ask_once(broker.rendezvous, "hold_queue")["held"]] == [held["id"]]
        assert as_human(broker, "approve", "--all").code == 0
        restart(broker)
        for member in (web, api, bold):
            member.rejoin()
        assert [message["id"] for message in bold.take()] == [held["id"]]
        assert "released" in {receipt["state"] for receipt in web.call("take", max=0)["receipts"]}
    assert find_bugs(broker) == []


def test_private_sockets_never_close_either(broker: PrivateBroker) -> None:
    """15.4: a hook that connects to its session's socket just then waits, and is answered."""
    broker.start()
    with Member(broker.rendezvous, "web") as web, Crowd() as crowd:
        inode = os.stat(web.socket).st_ino

        def look() -> None:
            with Wire(web.socket) as wire:
                wire.call("status")

        crowd.add(look)
        for _ in range(3):
            restart(broker)
            web.rejoin()
        crowd.end()
        assert crowd.wrong == []
        assert os.stat(web.socket).st_ino == inode
        web.call("end")
        assert not os.path.exists(web.socket)


def test_who_had_connected_and_said_nothing_is_heard_by_the_successor(broker: PrivateBroker) -> None:
    """15.4: accepted by the one, answered by the other."""
    broker.start()
    with Member(broker.rendezvous, "web") as web:
        before = read_status(broker.rendezvous)["broker"]["instance"]
        with Wire(broker.rendezvous) as wire, Wire(web.socket) as hook:
            poll(lambda: read_status(broker.rendezvous), bool)  # it has accepted these two by then
            restart(broker)
            assert wire.call("status")["broker"]["instance"] != before
            assert hook.call("status")["broker"]["instance"] != before
            wire.call("hello", protocol=1)
            assert [row["name"] for row in wire.call("list")["sessions"]] == ["web"]


def test_followers_go_on(broker: PrivateBroker) -> None:
    """15.4: `log --follow` and `hold-queue --watch` show what comes after the restart, each thing once."""
    broker.start()
    log = broker.spawn(sys.executable, "-m", "xsessionctl", "log", "--follow", "--json")
    queue = broker.spawn(sys.executable, "-m", "xsessionctl", "hold-queue", "--watch", "--json")
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api", **{"class": "bypass"}) as api:
        assert log.stdout is not None
        assert queue.stdout is not None
        assert json.loads(queue.stdout.readline())["held"] == []
        first = web.send("api", "before")
        assert json.loads(log.stdout.readline())["id"] == first["id"]
        assert len(json.loads(queue.stdout.readline())["held"]) == 1
        for number in range(2):
            restart(broker)
            web.rejoin()
            api.rejoin()
            sent = web.send("api", f"after {number}")
            assert json.loads(log.stdout.readline())["id"] == sent["id"]
            while len(json.loads(queue.stdout.readline())["held"]) != number + 2:
                pass
        ask_once(broker.rendezvous, "stop")
        assert log.wait(20) == queue.wait(20) == 9


def test_who_restarts_while_another_does_waits_for_its_turn(broker: PrivateBroker) -> None:
    """15.4: two upgrades that end in the same moment."""
    process = broker.start()
    racers = [broker.spawn(sys.executable, "-m", "xsessionctl", "restart", "--json") for _ in range(4)]
    told = [racer.communicate(timeout=60) for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 4, told
    assert {json.loads(out)["how"] for out, _ in told} == {"handed over"}
    assert len({json.loads(out)["broker"]["instance"] for out, _ in told}) > 1
    assert read_status(broker.rendezvous)["broker"]["pid"] == process.pid
    assert not (broker.state_dir / "successor").exists()
    assert find_bugs(broker) == []


DIES_LATER = """
import runpy, sys
if "--check" in sys.argv:
    runpy.run_module("xsessiond", run_name="__main__")
sys.exit("xsessiond: that does not work")
"""
RESTART_WITH = """
import sys
from xsessionctl import ending, lifecycle
from xsessionctl.__main__ import main
{} = lambda: [sys.executable, "-c", {!r}]
main()
"""


def restart_with(broker: PrivateBroker, where: str, program: str) -> subprocess.CompletedProcess[str]:
    """Run `xsessionctl restart` with another program for what `where` names."""
    script = RESTART_WITH.format(where, program)
    return subprocess.run(
        [sys.executable, "-c", script, "restart"],
        capture_output=True, text=True, timeout=60, cwd=broker.home, env=broker.environ(), check=False,
    )  # fmt: skip


def test_one_that_fails_after_its_trial_is_followed_by_another(broker: PrivateBroker) -> None:
    """15.4: what was accepted is there; who restarted hears of one that answers, or why there is none."""
    process = broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api", harness_session_id="a") as api:
        sent = web.send("api", "still there?")
        done = restart_with(broker, "ending.broker_command", DIES_LATER)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"xsessiond {__version__} ended before another took its place. Started ")
        assert process.wait(20) == 1
        api.rejoin()
        assert [message["id"] for message in api.take()] == [sent["id"]]
        done = restart_with(broker, "ending.broker_command = lifecycle.broker_command", DIES_LATER)
        assert (done.returncode, done.stdout) == (9, "")
        assert done.stderr.startswith("xsessionctl: that does not work\n")


@pytest.mark.timeout(400)
@pytest.mark.skipif(not Path("/proc/net/unix").exists(), reason="counts listeners in /proc/net/unix")
def test_racing_restarts_and_kills_with_twenty_senders(broker: PrivateBroker) -> None:
    """15.4, L13, P2: at any moment of a handover; each restart succeeds, nothing is lost, doubled, or out of order."""
    run = HandoverStorm(broker, senders=20, receivers=4, seed=3)
    ledger = run.run(12)
    assert ledger.find_faults() == []
    assert run.most == 1
    assert run.ended > 3
    assert len(ledger.answered) > 100
    waiting = {one["id"] for one in ask_once(broker.rendezvous, "hold_queue")["held"]}
    assert waiting >= set(run.held.values())
    assert run.held
    assert find_bugs(broker) == []


# -- who cannot --------------------------------------------------------------------------------------------------------


def test_a_downgrade_is_refused_before_anything_stops(broker: PrivateBroker) -> None:
    """15.4, P9: the running broker goes on; the store is not touched by it."""
    process = broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api"):
        with closing(sqlite3.connect(broker.state_dir / "store.db")) as db:
            db.execute(f"PRAGMA user_version = {VERSION + 1}")  # as if the running broker were of a newer version
        done = broker.ctl("restart", within_s=60)
        assert (done.returncode, done.stdout) == (5, "")
        assert "The broker goes on as it was: " in done.stderr
        assert f"was written by a newer xsessiond (format {VERSION + 1}" in done.stderr
        assert web.send("api", "still here")["state"] == "queued"
        assert read_status(broker.rendezvous)["broker"]["pid"] == process.pid


BROKEN = {
    "no module": "raise ImportError('half an installation')",
    "it hangs up": "import os; os._exit(7)",
    "it says nothing": "",
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_installation_costs_nothing(broker: PrivateBroker, how: str) -> None:
    """15.4: the successor is tried before anything ends."""
    process = broker.start()
    broken = broker.root / "broken" / "xsessiond"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("__version__ = '9'")
    (broken / "__main__.py").write_text(BROKEN[how])
    (broker.state_dir / "successor").write_text(
        json.dumps([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(broken.parent)!r}); import runpy; "
                    "runpy.run_module('xsessiond', run_name='__main__')"])
    )  # fmt: skip
    (broker.state_dir / "successor").chmod(0o600)
    with Member(broker.rendezvous, "web") as web:
        with pytest.raises(Refused) as refused:
            ask_once(broker.rendezvous, "restart")
        assert refused.value.code == "refused"
        assert web.call("whoami")["name"] == "web"
        assert read_status(broker.rendezvous)["broker"]["pid"] == process.pid
        restart(broker)  # with what is well, as if nothing had been


@pytest.mark.parametrize("how", ["stop", "signal"])
def test_a_stop_that_comes_while_it_hands_over_ends_it(broker: PrivateBroker, how: str) -> None:
    """15.5: somebody who does not read his answers holds the handover up, so that there is a time to come in."""
    process = broker.start()
    with Wire(broker.rendezvous) as slow, Wire(broker.rendezvous) as wire:
        slow.write_what_fits(b'{"jsonrpc":"2.0","id":1,"method":"status"}\n' * 4000)
        slow.has_more(20)
        wire.call("hello", protocol=1)
        wire.call("log", follow=True)
        restarting = broker.spawn(sys.executable, "-m", "xsessionctl", "restart", "--json")
        assert wire.note("bye") == {"reason": "restarting"}
        if how == "stop":
            assert wire.call("stop")["stopping"]
        else:
            process.terminate()
            assert wire.note("bye") == {"reason": "stopping"}
        poll(broker.rendezvous.exists, lambda there: not there)
        slow.close()
        assert process.wait(20) == 0
        told, _ = restarting.communicate(timeout=60)
        done = json.loads(told)  # there is one now all the same
        assert (done["how"], done["before"]["pid"]) == ("started", process.pid)
    assert find_bugs(broker) == []


def test_an_agent_may_not_restart_it(broker: PrivateBroker) -> None:
    """13: as it may not stop it."""
    broker.start()
    done = broker.ctl("restart", CLAUDECODE="1")
    assert done.returncode == 10
    assert "An agent may not restart the broker." in done.stderr


def test_without_a_broker_one_is_started(broker: PrivateBroker) -> None:
    done = broker.ctl("restart")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"No broker was running. Started xsessiond {__version__} (pid ")
    assert broker.ctl("restart").stdout.startswith(f"Restarted xsessiond {__version__} (pid ")


def test_a_broker_that_keeps_nothing_is_not_handed_over(broker: PrivateBroker) -> None:
    broker.spawn(sys.executable, "-m", "xsessiond", "--without-store")
    poll(lambda: broker.rendezvous.exists(), bool)
    done = broker.ctl("restart")
    assert (done.returncode, "no other can go on from" in done.stderr) == (5, True)


# -- how it was started ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "darwin", reason="systemd's protocol")
def test_a_socket_of_the_service_managers_stays_its_own(broker: PrivateBroker) -> None:
    """15.4: over a restart, and at the end; the manager sees one process, which says that it is ready again."""
    notify = broker.root / "notify"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        listener.bind(str(broker.rendezvous))
        listener.listen()
        manager.bind(str(notify))
        manager.settimeout(20)
        script = 'LISTEN_PID=$$ exec "$0" -m xsessiond --service systemd --verbose'
        process = subprocess.Popen(
            ["/bin/sh", "-c", script, sys.executable], cwd="/", stdin=subprocess.DEVNULL, pass_fds=(3,),
            env=broker.environ(LISTEN_FDS="1", LISTEN_FDNAMES="xsession", NOTIFY_SOCKET=str(notify)),
            preexec_fn=lambda: os.dup2(listener.fileno(), 3),
        )  # fmt: skip
        broker.started.append(process)
        assert manager.recv(4096).startswith(b"READY=1")
        for _ in range(2):
            done = restart(broker)
            assert (done["broker"]["pid"], done["broker"]["service"]) == (process.pid, "systemd")
            assert manager.recv(4096).startswith(b"READY=1")
        ask_once(broker.rendezvous, "stop")
        assert manager.recv(4096).startswith(b"STOPPING=1")
        assert process.wait(20) == 0
        assert broker.rendezvous.exists()
    assert read_broker_log(broker).count("info: ready") == 3


def test_closed_standard_streams_are_no_trouble(broker: PrivateBroker) -> None:
    """I1: a lock or a socket must not be taken for standard output."""
    script = 'exec "$0" -m xsessiond <&- >&- 2>&-'
    process = subprocess.Popen(["/bin/sh", "-c", script, sys.executable], cwd="/", env=broker.environ())
    broker.started.append(process)
    poll(lambda: broker.rendezvous.exists(), bool)
    for _ in range(2):
        assert restart(broker)["broker"]["pid"] == process.pid
    opened = (
        {os.readlink(f"/proc/{process.pid}/fd/{number}") for number in range(3)} if os.path.isdir("/proc") else set()
    )
    assert opened <= {"/dev/null"}


def test_what_the_one_before_started_and_left_alone_is_no_zombie_when_it_ends(broker: PrivateBroker) -> None:
    """11.1: as a harness that was resumed for a message; it is a child of this process still."""
    script = 'sleep 1000 & exec "$0" -m xsessiond'
    process = subprocess.Popen(["/bin/sh", "-c", script, sys.executable], cwd="/", env=broker.environ())
    broker.started.append(process)
    poll(lambda: broker.rendezvous.exists(), bool)
    (harness,) = psutil.Process(process.pid).children()
    restart(broker)
    assert harness.is_running()
    harness.kill()
    poll(psutil.Process(process.pid).children, lambda children: not children)


def test_the_descriptors_do_not_grow(broker: PrivateBroker) -> None:
    """13.3: what is passed on is all that is passed on."""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("counts descriptors in /proc")
    process = broker.start()
    with Member(broker.rendezvous, "web") as web:
        counts = []
        for _ in range(4):
            restart(broker)
            web.rejoin()
            poll(lambda: read_status(broker.rendezvous)["store"]["detail"], lambda detail: detail != "not checked yet")
            counts.append(len(os.listdir(f"/proc/{process.pid}/fd")))
        assert max(counts) - min(counts) <= 1, counts
    assert not select.select([], [], [], 0)[0]

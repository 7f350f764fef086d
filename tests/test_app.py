"""The program: its command line, its settings in force, the service manager's part, and a bare environment."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_files import find_bugs, read_broker_log
from tests.support.private_broker import PrivateBroker, accepts
from tests.support.wire_client import Member, Refused, ask_once, poll, read_status
from xsessiond import __version__
from xsessiond.app import Entropy, parse_arguments
from xsessiond.core.limits import OPEN_FILES


def run(broker: PrivateBroker, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "xsessiond", *arguments], cwd=broker.home, env=broker.environ(),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_version_and_the_help_start_nothing(broker: PrivateBroker) -> None:
    version = run(broker, "--version")
    assert (version.returncode, version.stdout) == (0, f"xsessiond {__version__}\n")
    shown = run(broker, "--help")
    assert shown.returncode == 0
    assert "xsessionctl" in shown.stdout
    unknown = run(broker, "--frobnicate")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "--frobnicate" in unknown.stderr
    assert list(broker.state_dir.iterdir()) == []


def test_the_arguments() -> None:
    plain = parse_arguments([])
    assert (plain.verbose, plain.without_store) == (False, False)
    assert parse_arguments(["--verbose", "--without-store"]).verbose


def test_a_verbose_broker_tells_what_happens(broker: PrivateBroker) -> None:
    broker.spawn(sys.executable, "-m", "xsessiond", "--verbose")
    poll(lambda: accepts(broker.rendezvous), bool)
    secret = "a text that is nobody's business"
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api"):
        web.send("api", secret)
        web.call("end")
    log = read_broker_log(broker)
    assert f"info: ready socket={broker.rendezvous}" in log
    assert f"info: session came session={web.id}" in log
    assert secret not in log
    assert web.token not in log


def test_entropy_is_never_given_out_twice() -> None:
    entropy = Entropy()
    drawn = [entropy(16) for _ in range(1000)]
    assert {len(part) for part in drawn} == {16}
    assert len(set(drawn)) == 1000
    assert len(entropy(32)) == 32


# -- settings ----------------------------------------------------------------------------------------------------------


def test_the_settings_are_in_force(broker: PrivateBroker) -> None:
    (broker.config_dir / "config.toml").write_text("[pacing]\nqueue_per_session = 2\n")
    broker.start()
    assert read_status(broker.rendezvous)["config"] == {"ok": True, "problems": []}
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api"):
        for number in range(2):
            web.send("api", f"number {number}")
        with pytest.raises(Refused) as refused:
            web.send("api", "one too many")
        assert refused.value.code == "queue_full"


@pytest.mark.parametrize("default", ["refuse", "queue"])
def test_the_setting_for_targets_that_do_not_run_holds_where_the_sender_says_nothing(
    broker: PrivateBroker, default: str
) -> None:
    """11.1: what a sender says stands above it."""
    (broker.config_dir / "config.toml").write_text(f"[offline]\ndefault = {default!r}\n")
    broker.start()
    with Member(broker.rendezvous, "web") as web:
        with Member(broker.rendezvous, "api", harness_session_id="talk") as api:
            api.call("end")
        if default == "queue":
            assert web.send("api", "when you are back")["state"] == "queued"
            with pytest.raises(Refused) as refused:
                web.send("api", "now or never", when_offline="refuse")
        else:
            with pytest.raises(Refused) as refused:
                web.send("api", "when you are back", when_offline=None)
            assert web.send("api", "later", when_offline="queue")["state"] == "queued"
        assert refused.value.code == "not_running"


def test_a_broken_settings_file_is_red_and_the_broker_runs(broker: PrivateBroker) -> None:
    """C1: with file, line and column."""
    path = broker.config_dir / "config.toml"
    path.write_text("[pacing\n")
    broker.start()
    config = read_status(broker.rendezvous)["config"]
    assert not config["ok"]
    assert config["problems"][0].startswith(f"{path}:1:8: error: ")
    assert f'warning: settings problem="{path}:1:8: error: ' in read_broker_log(broker)


def test_without_a_store_nothing_is_kept(broker: PrivateBroker) -> None:
    broker.spawn(sys.executable, "-m", "xsessiond", "--without-store")
    poll(lambda: accepts(broker.rendezvous), bool)
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api") as api:
        web.send("api", "hello")
        assert len(api.take()) == 1
    assert not (broker.state_dir / "store.db").exists()


# -- what starts it ----------------------------------------------------------------------------------------------------


def test_a_bare_environment_is_enough(broker: PrivateBroker) -> None:
    """I1: as from cron: no HOME, no LANG, no PATH, no USER; and no standard streams at all."""
    environ = broker.directories()
    script = 'exec "$0" -m xsessiond <&- >&- 2>&-'
    process = subprocess.Popen(["/bin/sh", "-c", script, sys.executable], cwd="/", env=environ)
    broker.started.append(process)
    poll(lambda: accepts(broker.rendezvous), bool)
    assert read_status(broker.rendezvous)["broker"]["pid"] == process.pid
    name = "wörter-網"
    with Member(broker.rendezvous, name) as web, Member(broker.rendezvous, "api") as api:
        web.send("api", "größer 🐍")
        (message,) = api.take()
        assert (message["text"], message["from"]["name"]) == ("größer 🐍", name)
    process.terminate()
    assert process.wait(20) == 0
    assert find_bugs(broker) == []


@pytest.mark.skipif(sys.platform == "darwin", reason="systemd's protocol")
def test_the_service_manager_hears_when_it_is_ready_and_when_it_stops(broker: PrivateBroker) -> None:
    path = broker.root / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(20)
        process = broker.start(NOTIFY_SOCKET=str(path))
        told = manager.recv(4096).decode().splitlines()
        assert told[:2] == ["READY=1", f"MAINPID={process.pid}"]
        assert read_status(broker.rendezvous)["broker"]["pid"] == process.pid
        process.terminate()
        assert manager.recv(4096).decode().splitlines()[0] == "STOPPING=1"
        assert process.wait(20) == 0


@pytest.mark.skipif(sys.platform == "darwin", reason="systemd's protocol")
def test_a_socket_that_the_service_manager_opened_is_served_and_left(broker: PrivateBroker) -> None:
    """15.2: who connected before the broker ran is answered; the socket outlives the broker, for the next one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(broker.rendezvous))
        listener.listen()
        for _ in range(2):
            client = subprocess.Popen(
                [sys.executable, "-c", CLIENT, str(Path(__file__).parents[1]), str(broker.rendezvous)],
                stdout=subprocess.PIPE,
                env=broker.environ(),
            )
            broker.started.append(client)
            script = 'LISTEN_PID=$$ exec "$0" -m xsessiond'
            process = subprocess.Popen(
                ["/bin/sh", "-c", script, sys.executable], cwd="/",
                env=broker.environ(LISTEN_FDS="1", LISTEN_FDNAMES="broker"),
                stdin=subprocess.DEVNULL, pass_fds=(3,), preexec_fn=lambda: os.dup2(listener.fileno(), 3),
            )  # fmt: skip
            broker.started.append(process)
            assert client.stdout is not None
            assert client.stdout.readline() == f"{process.pid}\n".encode()
            assert ask_once(broker.rendezvous, "stop")["pid"] == process.pid
            assert process.wait(20) == 0
            assert broker.rendezvous.exists()
        assert find_bugs(broker) == []


CLIENT = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.support.wire_client import read_status
print(read_status(sys.argv[2])["broker"]["pid"], flush=True)
"""


def test_it_may_have_many_descriptors(broker: PrivateBroker) -> None:
    """13.3: three for each of some thousands of sessions, where the system allows that."""
    resource = pytest.importorskip("resource")
    process = broker.start()
    read_status(broker.rendezvous)
    soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    assert soft >= min(OPEN_FILES, hard if hard != resource.RLIM_INFINITY else OPEN_FILES)

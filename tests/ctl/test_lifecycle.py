"""xsessionctl.lifecycle: the broker comes by itself, owes its starter nothing, and goes when it is told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.ctl.faulty_broker import faulty_broker, hang
from tests.support.private_broker import PrivateBroker
from tests.support.users import STRANGER, needs_root
from tests.support.wire_client import Member, read_status
from xsessionctl import ending, lifecycle
from xsessionctl.client import ClientError, deadline_in
from xsessionctl.lifecycle import find_home
from xsessiond.paths import resolve_paths


def broker_process(place: PrivateBroker) -> psutil.Process:
    return psutil.Process(read_status(place.rendezvous)["broker"]["pid"])


def has_ended(process: psutil.Process) -> bool:
    """Where nobody collects orphans, an ended process stays as a zombie."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_only_what_a_service_may_know_is_handed_on() -> None:
    environ = {
        "HOME": "/h",
        "PATH": "/bin",
        "LC_ALL": "C",
        "XDG_RUNTIME_DIR": "/r",
        "XSESSIOND_STATE_DIR": "/s",
        "ANTHROPIC_API_KEY": "secret",
        "XSESSIOND_NAME": "api",
        "XSESSIOND_TOKEN_FILE": "/t",
        "CLAUDECODE": "1",
        "LD_PRELOAD": "/x.so",
    }
    assert lifecycle.broker_environment(environ).keys() == {
        "HOME",
        "PATH",
        "LC_ALL",
        "XDG_RUNTIME_DIR",
        "XSESSIOND_STATE_DIR",
    }


def test_the_interpreter_is_named_absolutely() -> None:
    """I4: never a program that PATH finds."""
    assert lifecycle.broker_command()[0] == sys.executable
    assert os.path.isabs(lifecycle.broker_command()[0])


def test_a_started_broker_is_detached(broker: PrivateBroker) -> None:
    """P14: own session, no terminal, closed stdio, no parent of ours, and nothing of the starter's environment."""
    assert broker.ctl("start", ANTHROPIC_API_KEY="secret").returncode == 0
    process = broker_process(broker)
    assert os.getsid(process.pid) != os.getsid(0)
    assert process.terminal() is None
    assert process.cwd() == "/"
    assert process.ppid() != os.getpid()
    assert "ANTHROPIC_API_KEY" not in process.environ()
    if sys.platform == "linux":
        opened = [os.readlink(f"/proc/{process.pid}/fd/{number}") for number in range(3)]
        assert opened[:2] == ["/dev/null", "/dev/null"]
        assert opened[2] == str(broker.state_dir / "start.err")


def test_the_death_of_its_starter_does_not_stop_it(broker: PrivateBroker) -> None:
    """P14: the first client is killed with all that is in its process group."""
    client = subprocess.Popen(
        [sys.executable, "-m", "xsessionctl", "list", "--watch"],
        stdout=subprocess.PIPE,
        cwd=broker.home,
        env=broker.environ(),
        start_new_session=True,
    )
    assert client.stdout is not None
    assert client.stdout.readline()
    process = broker_process(broker)
    os.killpg(client.pid, signal.SIGKILL)
    client.wait(10)
    client.stdout.close()
    assert not has_ended(process)
    assert broker.ctl("status").returncode == 0


def test_start_says_who_runs(broker: PrivateBroker) -> None:
    """P1: the second start leaves the first broker alone, and names it."""
    first = broker.ctl("start")
    pid = broker_process(broker).pid
    second = broker.ctl("start", "--json")
    assert first.stdout.startswith("Started xsessiond ")
    assert f"(pid {pid})" in first.stdout
    document = json.loads(second.stdout)
    assert (document["started"], document["broker"]["pid"]) == (False, pid)


def test_stop_returns_when_it_is_gone(broker: PrivateBroker) -> None:
    broker.ctl("start")
    process = broker_process(broker)
    with Member(broker.rendezvous, "api"):
        done = broker.ctl("stop")
    assert has_ended(process)
    assert done.stdout.endswith(f"(pid {process.pid}); 1 session was connected.\n")
    assert broker.ctl("status").returncode == 9


def test_stopping_nothing_is_done_already(broker: PrivateBroker) -> None:
    done = broker.ctl("stop")
    assert (done.returncode, done.stdout) == (0, "No broker was running.\n")
    assert json.loads(broker.ctl("stop", "--json").stdout) == {
        "stopped": False,
        "pid": None,
        "version": None,
        "sessions": 0,
        "service": None,
    }


@pytest.mark.parametrize("verb", ["status", "stop", "paths", "completion bash", "--version", "--help"])
def test_what_needs_no_broker_starts_none(broker: PrivateBroker, verb: str) -> None:
    broker.ctl(*verb.split())
    assert not broker.rendezvous.exists()
    assert broker.processes() == []


@pytest.mark.parametrize("verb", ["list", "whoami", "check", "inbox", "log"])
def test_what_needs_a_broker_starts_it(broker: PrivateBroker, verb: str) -> None:
    assert broker.ctl(verb).returncode == 0
    assert len(broker.processes()) == 1


@pytest.mark.slow
def test_after_a_crash_the_next_client_starts_it_again(broker: PrivateBroker) -> None:
    """P3: a socket left after SIGKILL does not block a restart."""
    broker.ctl("start")
    first = broker_process(broker)
    first.kill()
    psutil.wait_procs([first], timeout=10)
    assert broker.rendezvous.exists()
    assert broker.ctl("list").returncode == 0
    assert broker_process(broker).pid != first.pid


def test_a_start_that_fails_is_told_in_the_brokers_own_words(broker: PrivateBroker) -> None:
    (broker.state_dir / "store.db").mkdir()
    done = broker.ctl("list", "--json")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"]) == (9, "no_broker")
    assert "store.db" in error["text"]
    assert "Traceback" not in error["text"]
    assert error["hint"]


def test_a_directory_that_others_can_write_in_is_refused(broker: PrivateBroker) -> None:
    """13.1: what was refused is said, with the way to mend it."""
    broker.runtime_dir.chmod(0o777)
    done = broker.ctl("list")
    assert (done.returncode, done.stdout) == (9, "")
    assert f"{broker.runtime_dir} is not used: others can write in it" in done.stderr
    assert "chmod 700" in done.stderr


@needs_root
def test_a_broker_of_somebody_else_is_told_nothing(short_dir: Path) -> None:
    """A squatter on the path would read what we send."""
    listener = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777);"
        f"os.setuid({STRANGER}); s.listen(); print(flush=True); c = s.accept()[0]; print(c.recv(99), flush=True)"
    )
    path = short_dir / "broker.sock"
    with subprocess.Popen([sys.executable, "-c", listener, str(path)], stdout=subprocess.PIPE, text=True) as squatter:
        assert squatter.stdout is not None
        squatter.stdout.readline()
        with pytest.raises(ClientError) as caught:
            lifecycle.connect_if_running(
                resolve_paths({"XSESSIOND_RUNTIME_DIR": str(short_dir), "HOME": str(short_dir)}), deadline_in(10)
            )
        assert caught.value.code == "not_permitted"
        assert str(STRANGER) in caught.value.text
        assert squatter.stdout.readline() == "b''\n"


def test_a_broker_that_does_not_end_is_a_timeout(short_dir: Path) -> None:
    paths = resolve_paths({"XSESSIOND_RUNTIME_DIR": str(short_dir), "HOME": str(short_dir)})
    with faulty_broker(short_dir / "broker.sock", hang, frames=1), pytest.raises(ClientError) as caught:
        ending.stop_broker(paths, deadline_in(0.2))
    assert caught.value.code == "timeout"


def test_two_starts_at_once_are_one(broker: PrivateBroker) -> None:
    """The losers wait for the winner's broker and do not start their own."""
    command = [sys.executable, "-m", "xsessionctl", "start", "--json"]
    clients = [
        subprocess.Popen(command, stdout=subprocess.PIPE, cwd=broker.home, env=broker.environ()) for _ in range(4)
    ]
    documents = [json.loads(client.communicate(timeout=30)[0]) for client in clients]
    assert len({document["broker"]["pid"] for document in documents}) == 1
    assert sum(document["started"] for document in documents) == 1


def test_a_start_is_bounded(broker: PrivateBroker) -> None:
    done = broker.ctl("list", "--timeout", "0.01")
    assert done.returncode == 7
    assert "did not start in time" in done.stderr


def test_the_home_is_the_user_s_own(tmp_path: Path) -> None:
    assert find_home({"HOME": str(tmp_path)}) == str(tmp_path)
    for odd in ({"HOME": ""}, {}, {"HOME": "relative"}, {"HOME": "/nowhere/at/all"}):
        assert os.path.isabs(find_home(odd))
        assert find_home(odd) != odd.get("HOME")


def test_the_home_of_a_made_up_user_is_the_one_that_it_was_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """P8: by the one rule for every path; a container's user is in no list and may own nothing."""
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    assert find_home({"HOME": str(tmp_path)}) == str(tmp_path)
    with pytest.raises(ClientError, match="Set HOME"):
        find_home({})


def connect_in_vain(broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch) -> ClientError:
    """What is told where the system does not let this process connect."""

    def refuse(path: str, deadline: float) -> None:
        raise PermissionError(1, "Operation not permitted", path)

    monkeypatch.setattr(lifecycle, "connect", refuse)
    with pytest.raises(ClientError) as caught:
        lifecycle.connect_if_running(resolve_paths(broker.environ()), deadline_in(5))
    assert (caught.value.code, caught.value.exit_code) == ("not_permitted", 10)
    return caught.value


@pytest.mark.parametrize("there", [True, False])
def test_a_sandbox_is_not_taken_for_another_user(
    broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch, there: bool  # noqa: FBT001
) -> None:  # fmt: skip
    """I6: what keeps a command from our own socket, be it there or not, is a sandbox; and what lets it through."""
    if there:
        broker.start()
    problem = connect_in_vain(broker, monkeypatch)
    assert "a sandbox keeps it from that" in problem.text
    assert str(broker.rendezvous) in problem.text
    assert "`xsessionctl paths --sandbox`" in str(problem.hint)


@needs_root
def test_another_user_s_socket_is_told_as_that(broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """13.1"""
    broker.rendezvous.touch()
    os.chown(broker.rendezvous, STRANGER, STRANGER)
    assert "belongs to another user" in connect_in_vain(broker, monkeypatch).text

"""Who is not this user, or not this session, gets nothing; and nothing is put where somebody else could reach it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.broker_files import find_bugs, read_broker_log, read_tables
from tests.support.private_broker import PrivateBroker, accepts
from tests.support.users import STRANGER, as_user, needs_root
from tests.support.wire_client import Member, Refused, Wire, ask_once, greet, poll, read_status

ROOT = Path(__file__).parents[2]

# A session in a process tree of its own: tells what it was told, and ends with its standard input.
ELSEWHERE = """
import json, os, sys
sys.path.insert(0, sys.argv[2])
from tests.support.wire_client import Member
with Member(sys.argv[1], "elsewhere", pid=os.getpid() if sys.argv[3] == "watched" else None) as member:
    print(json.dumps({"id": member.id, "token": member.token, "socket": member.socket}), flush=True)
    sys.stdin.read()
"""


@contextmanager
def session_elsewhere(broker: PrivateBroker, kind: str) -> Iterator[dict[str, Any]]:
    """Run a session in a child process; kind: `watched` gives its pid to the broker, `bound` only uses its token."""
    process = broker.spawn(sys.executable, "-c", ELSEWHERE, str(broker.rendezvous), str(ROOT), kind)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield {**json.loads(process.stdout.readline()), "pid": process.pid}
    finally:
        process.stdin.close()
        process.wait(20)


# -- tokens ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["watched", "bound"])
def test_a_token_is_of_no_use_in_another_process_tree(broker: PrivateBroker, kind: str) -> None:
    """S14, 13.2: refused, logged and shown, though it is the right one; the session it belongs to goes on."""
    broker.start()
    with session_elsewhere(broker, kind) as there:
        before = read_tables(broker)
        with greet(there["socket"]) as wire:
            with pytest.raises(Refused) as refused:
                wire.call("attach", token=there["token"])
            assert refused.value.code == "bad_token"
            with pytest.raises(Refused) as refused:
                wire.call("take")
            assert refused.value.code == "not_permitted"
        resume = {"id": there["id"], "token": there["token"]}
        with pytest.raises(Refused) as refused:
            ask_once(broker.rendezvous, "register", harness="test", cwd="/src", resume=resume)
        assert refused.value.code == "bad_token"
        assert read_tables(broker) == before
        (warning,) = set(read_status(broker.rendezvous)["warnings"])
        assert "elsewhere" in warning
        assert f"process {os.getpid()}" in warning
        log = read_broker_log(broker)
        assert f"token used from elsewhere session={there['id']} pid={os.getpid()}" in log
        assert there["token"] not in log + warning
        sessions = ask_once(broker.rendezvous, "list")["sessions"]
        assert [session["id"] for session in sessions] == [there["id"]]


def test_a_wrong_token_is_refused_wherever_it_is_shown(broker: PrivateBroker) -> None:
    """13.2: also that of another session, and one that a newer replaced."""
    broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api") as api:
        before = read_tables(broker)
        for token in ("", "0" * 64, web.token, api.token[:-1], api.token.upper(), api.token + "0", "\u0660" * 64):
            with greet(api.socket) as wire, pytest.raises(Refused) as refused:
                wire.call("attach", token=token)
            assert refused.value.code == "bad_token"
            with pytest.raises(Refused) as refused:
                ask_once(broker.rendezvous, "register", resume={"id": api.id, "token": token})
            assert refused.value.code == "bad_token"
        assert read_tables(broker) == before
        assert web.token not in read_broker_log(broker)
        assert web.send("api", "still there?")["state"] == "queued"


def test_a_token_is_kept_as_a_hash_and_never_on_a_command_line(broker: PrivateBroker) -> None:
    """S13, S15: not in the store, its log, the directories, or what `ps` shows."""
    broker.start()
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api") as api:
        web.send("api", "hello")
        secrets = (web.token.encode(), api.token.encode(), bytes.fromhex(web.token))
        files = [path for path in broker.root.rglob("*") if path.is_file()]
        assert broker.state_dir / "store.db" in files
        for path in files:
            assert not any(secret in path.read_bytes() for secret in secrets), path
        for process in psutil.process_iter():
            try:
                told = " ".join(process.cmdline())
            except psutil.Error:
                continue
            assert web.token not in told


def test_a_name_that_is_taken_gives_another_session_and_no_secret_of_the_first(broker: PrivateBroker) -> None:
    """S15: whoever asks for a running session's name, or says it is the same conversation, is somebody else."""
    broker.start()
    about: dict[str, Any] = {"harness": "claude", "harness_session_id": "talk-1"}
    with Member(broker.rendezvous, "web", **about) as web, Member(broker.rendezvous, "web", **about) as other:
        assert other.id != web.id
        assert other.name != "web"
        assert other.token != web.token
        assert other.notice is not None
        assert "another session, web" in other.notice
        other.send("web", "which of us?")
        assert [message["text"] for message in web.take()] == ["which of us?"]
        assert other.take() == []


# -- other users -------------------------------------------------------------------------------------------------------


@needs_root
def test_another_user_is_closed_without_a_word(broker: PrivateBroker) -> None:
    """13.1: though the socket was made reachable; the kernel says who it is."""
    process = broker.start()
    with Member(broker.rendezvous, "web") as web:
        for path in (broker.root, broker.runtime_dir, broker.runtime_dir / "s"):
            path.chmod(0o755)
        for reachable in (broker.rendezvous, Path(web.socket)):
            reachable.chmod(0o666)
            with as_user(STRANGER):
                wire = Wire(reachable)
            with wire:
                assert wire.read_to_end() == b""  # it is closed before anything was said
        log = read_broker_log(broker)
        assert log.count(f"another user was turned away uid={STRANGER} pid={os.getpid()}") == 2
        assert read_status(broker.rendezvous)["broker"]["pid"] == process.pid
        assert web.call("whoami")["name"] == "web"
    assert find_bugs(broker) == []


@needs_root
def test_what_the_broker_makes_is_for_this_user_alone(broker: PrivateBroker) -> None:
    """13.1: directories 0700, sockets and files 0600, also with a generous umask."""
    before = os.umask(0)
    try:
        broker.start()
    finally:
        os.umask(before)
    with Member(broker.rendezvous, "web"):
        made = [
            path for path in (*broker.runtime_dir.rglob("*"), *broker.state_dir.rglob("*")) if not path.is_symlink()
        ]
        assert len(made) >= 6
        for path in made:
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
            with as_user(STRANGER):
                assert not os.access(path, os.R_OK | os.W_OK, effective_ids=True), path


# -- directories -------------------------------------------------------------------------------------------------------


def run_to_its_end(broker: PrivateBroker, environ: dict[str, str]) -> tuple[int, str]:
    """Start a broker that should not run; return its exit status and what it said."""
    run = subprocess.run(
        [sys.executable, "-m", "xsessiond"],
        cwd=broker.home,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return run.returncode, run.stderr


@pytest.mark.parametrize("which", ["XSESSIOND_RUNTIME_DIR", "XSESSIOND_STATE_DIR"])
@pytest.mark.parametrize("fault", ["a symbolic link", "others can write", "not a directory"])
def test_a_directory_that_others_could_reach_is_refused(broker: PrivateBroker, which: str, fault: str) -> None:
    """13.1, S17: with a sentence that names it and says why; nothing is made in it."""
    path, elsewhere = broker.root / "x", broker.root / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    match fault:
        case "a symbolic link":
            path.symlink_to(elsewhere)
        case "others can write":
            path.mkdir()
            path.chmod(0o777)
        case _:
            path.write_bytes(b"")
    status, said = run_to_its_end(broker, broker.environ(**{which: str(path)}))
    assert status == 9
    assert said.startswith("xsessiond: ")
    assert str(path) in said
    assert fault in said
    assert said.count("\n") == 1
    assert list(elsewhere.iterdir()) == []
    assert not path.is_dir() or list(path.iterdir()) == []


@needs_root
@pytest.mark.parametrize("which", ["XSESSIOND_RUNTIME_DIR", "XSESSIOND_STATE_DIR"])
def test_a_directory_of_another_user_is_refused(broker: PrivateBroker, which: str) -> None:
    """13.1, S17: as above."""
    path = broker.root / "x"
    path.mkdir(mode=0o700)
    os.chown(path, STRANGER, STRANGER)
    status, said = run_to_its_end(broker, broker.environ(**{which: str(path)}))
    assert status == 9
    assert str(path) in said
    assert f"uid {STRANGER}" in said
    assert list(path.iterdir()) == []


@pytest.mark.parametrize("fault", ["symbolic link", "others can write"])
def test_a_squatted_candidate_is_passed_over_and_the_reason_told(broker: PrivateBroker, fault: str) -> None:
    """S17: the broker takes a private place below the user's home, or the login's, and says why."""
    login, elsewhere = broker.root / "login", broker.root / "elsewhere"
    for path in (login, elsewhere):
        path.mkdir(mode=0o700)
    squatted = login / "xsessiond"
    if fault == "symbolic link":
        squatted.symlink_to(elsewhere)
    else:
        squatted.mkdir()
        squatted.chmod(0o777)
    environ = broker.environ(XDG_RUNTIME_DIR=str(login), PYTHONPATH=str(ROOT))
    del environ["XSESSIOND_RUNTIME_DIR"]
    program = "import sys; from xsessiond import paths, app; paths.RUN_USER = sys.argv[1]; sys.exit(app.main([]))"
    nowhere = str(broker.root / "none")  # what /run/user holds on this machine is not the subject
    process = subprocess.Popen(
        [sys.executable, "-c", program, nowhere], cwd=broker.home, env=environ, stdin=subprocess.DEVNULL
    )
    broker.started.append(process)
    runtime_dir = broker.home / ".local/state/xsessiond/run"
    poll(lambda: accepts(runtime_dir / "broker.sock"), bool)
    assert read_status(runtime_dir / "broker.sock")["broker"]["pid"] == process.pid
    assert runtime_dir.stat().st_mode & 0o777 == 0o700
    assert list(elsewhere.iterdir()) == []
    log = read_broker_log(broker)
    assert str(squatted) in log
    assert fault in log

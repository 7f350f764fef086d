"""The doctor on paths, directories, the lock and the socket: each fault is made, found, and mended by what it says."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.doctor import examine, find_problem
from tests.support.human import run_apart
from tests.support.private_broker import MARK, PrivateBroker, accepts
from tests.support.users import STRANGER, needs_root
from tests.support.wire_client import poll, read_status
from xsessionctl.client import deadline_in
from xsessionctl.commands.doctor import doctor_code
from xsessionctl.doctor import paths as places
from xsessionctl.doctor.examination import examine_all
from xsessionctl.doctor.findings import Look
from xsessionctl.render import rows_of
from xsessiond import paths as rule
from xsessiond.paths import resolve_paths

pytestmark = pytest.mark.slow


def mend(broker: PrivateBroker, command: str) -> None:
    """Do what the doctor says, in a shell of the user's."""
    done = run_apart(["/bin/sh", "-ec", command], env=broker.environ(), cwd=broker.home, within_s=30)
    assert done.returncode == 0, done.stderr


def test_a_healthy_place_without_a_broker_is_9_and_with_one_0(broker: PrivateBroker) -> None:
    without = examine(broker)
    assert (without.code, without.document["ok"], without.document["broker"]) == (9, True, None)
    assert not broker.rendezvous.exists(), "the doctor must not start a broker"
    process = broker.start()
    found = examine(broker)
    assert (found.code, found.document["ok"], found.document["broker"]["pid"]) == (0, True, process.pid)
    assert found.of("note") == found.problems() == []
    assert {one["area"] for one in found.of("ok")} == {
        "paths", "directories", "lock", "program", "service", "store", "machine", "settings", "mail",
        "harnesses",
    }  # fmt: skip


def test_a_person_reads_it_in_lines(broker: PrivateBroker) -> None:
    broker.start()
    done = broker.ctl("doctor", within_s=60)
    assert done.returncode == 0
    assert done.stdout.endswith("\n\nNo problem was found.\n")
    assert "\x1b" not in done.stdout
    broker.state_dir.chmod(0o755)
    done = broker.ctl("doctor", "--color", "always", within_s=60)
    assert done.returncode == 1
    assert f"→ \x1b[1mchmod 700 '{broker.state_dir}'\x1b[0m" in done.stdout
    assert done.stdout.endswith("\x1b[31m1 problem was found.\x1b[0m\n")


# -- paths -------------------------------------------------------------------------------------------------------------


def test_what_was_passed_over_is_told(broker: PrivateBroker) -> None:
    """I1: why here and not there."""
    found = examine(broker, XSESSIOND_CONFIG_DIR="somewhere")
    ignored = [note["what"] for note in found.of("note", "paths") if "is ignored" in note["what"]]
    assert ignored == ["XSESSIOND_CONFIG_DIR=somewhere is ignored: it is not an absolute path."]


def test_where_no_place_can_be_found_there_is_one_finding_and_no_traceback(
    broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: a path that is too long for sockets, and nowhere short to go."""
    monkeypatch.setattr(rule, "SHORT_BASE", str(broker.root / "taken"))
    (broker.root / "taken").write_text("no directory")
    monkeypatch.setenv("XSESSIOND_RUNTIME_DIR", "/" + "d" * 200)
    document = examine_all(deadline_in(10))
    (finding,) = rows_of(document, "findings")
    assert "too long for sockets" in str(finding["what"])
    assert doctor_code(document) == 1


def homes(broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, str], dict[str, str]]:
    """The environments of a shell that sets XDG_STATE_HOME, and of cron, both of a user whose home is `home`."""
    home = broker.root / "home"
    (home / "x").mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(rule, "RUN_USER", str(broker.root / "nowhere"))
    monkeypatch.setattr(rule, "_home_of", lambda uid: str(home))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XSESSIOND_", "XDG_"))}
    bare = {**kept, "HOME": str(home)}
    return {**bare, "XDG_STATE_HOME": str(home / "x")}, bare


def test_an_environment_that_would_find_another_store_is_told(
    broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """15.3, I1: as from cron."""
    shell, bare = homes(broker, monkeypatch)
    found = resolve_paths(shell, platform="linux")
    (note,) = [one for one in places.examine(Look(found, found, deadline_in(10))) if one.level != "ok"]
    assert note.level == "note"
    assert note.what.startswith("Programs without XDG_STATE_HOME (cron, services, `env -i`) look for the store in ")
    assert note.mend == "Set XDG_STATE_HOME everywhere or nowhere."
    same = resolve_paths(bare, platform="linux")
    assert [one.level for one in places.examine(Look(same, same, deadline_in(10)))] == ["ok"]


def test_two_brokers_of_one_user_are_found(broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1, 15.3: a shell that sets XDG_STATE_HOME and a cron job that does not have one each."""
    if os.path.isdir(f"/run/user/{os.geteuid()}"):
        pytest.skip("a broker without variables would be the user's own here")
    shell, bare = homes(broker, monkeypatch)
    (broker.root / "run").mkdir(mode=0o700)
    shell["XDG_RUNTIME_DIR"] = str(broker.root / "run")
    pids = []
    for environ in (shell, bare):
        process = subprocess.Popen(
            [sys.executable, "-m", "xsessiond"], env={**environ, MARK: ""}, stdin=subprocess.DEVNULL, cwd="/"
        )
        broker.started.append(process)
        where = resolve_paths(environ, platform="linux").broker_socket
        poll(lambda where=where: accepts(Path(where)), bool)  # type: ignore[misc]
        pids.append(process.pid)
    found = resolve_paths(shell, platform="linux")
    (problem,) = [one for one in places.examine(Look(found, found, deadline_in(10))) if one.level != "ok"]
    assert problem.level == "problem"
    assert problem.what.startswith(
        f"Two brokers of yours run: pid {pids[0]} here, and pid {pids[1]} with the store in "
    )
    assert (problem.mend or "").endswith(f"then stop both: kill {pids[0]} {pids[1]}")


# -- directories -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["runtime_dir", "state_dir"])
@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_a_directory_that_others_may_enter(broker: PrivateBroker, which: str, mode: int) -> None:
    """13.1, S17: and what the doctor says mends it."""
    path: Path = getattr(broker, which)
    path.chmod(mode)
    problem = find_problem(broker, "directories")
    assert problem["what"].startswith(f"{path}: ")
    mend(broker, problem["mend"])
    assert examine(broker).code == 9


def test_a_directory_that_is_a_link(broker: PrivateBroker) -> None:
    """S17"""
    real = broker.root / "real"
    broker.state_dir.rename(real)
    broker.state_dir.symlink_to(real)
    problem = find_problem(broker, "directories")
    assert problem["what"] == f"{broker.state_dir}: it is a symbolic link."
    mend(broker, problem["mend"])
    assert examine(broker).code == 9


@needs_root
def test_a_directory_of_another_user(broker: PrivateBroker) -> None:
    """S17"""
    os.chown(broker.runtime_dir, STRANGER, STRANGER)
    assert f"it belongs to uid {STRANGER}" in find_problem(broker, "directories")["what"]


def test_a_directory_above_that_everybody_can_write_in(broker: PrivateBroker) -> None:
    """S17"""
    broker.root.chmod(0o777)
    found = examine(broker)
    problem = found.problems("directories")[0]
    assert problem["mend"] == f"chmod o-w '{broker.root}'"
    mend(broker, problem["mend"])
    assert examine(broker).code == 9


def test_files_that_others_may_read(broker: PrivateBroker) -> None:
    broker.start()
    (broker.config_dir / "passphrase").write_text("scrypt")
    (broker.config_dir / "passphrase").chmod(0o644)
    problem = find_problem(broker, "directories")
    assert problem["what"] == f"{broker.config_dir}/passphrase: its mode is 0644, not 0600."
    mend(broker, problem["mend"])
    (broker.state_dir / "store.db").chmod(0o640)
    mend(broker, find_problem(broker, "directories")["mend"])
    assert examine(broker).code == 0


def test_a_store_that_is_no_file(broker: PrivateBroker) -> None:
    (broker.state_dir / "store.db").mkdir()
    found = examine(broker)
    assert found.problems("directories")[0]["what"] == f"{broker.state_dir}/store.db is not a plain file."
    mend(broker, found.problems("directories")[0]["mend"])
    assert examine(broker).code == 9


def test_a_path_with_quotes_in_it_is_mended_too(broker: PrivateBroker) -> None:
    odd = broker.root / "it's $HOME"
    odd.mkdir(mode=0o755)
    place = {"XSESSIOND_STATE_DIR": str(odd)}
    mend(broker, find_problem(broker, "directories", **place)["mend"])
    assert examine(broker, **place).code == 9


def in_mounts(broker: PrivateBroker, script: str, **extra: str) -> list[dict[str, Any]]:
    """What the doctor says where this was mounted, in a mount namespace of its own."""
    ctl = f"{sys.executable} -m xsessionctl doctor --json"
    done = subprocess.run(
        ["unshare", "-m", "/bin/sh", "-c", f"{script} && exec {ctl}"],
        env=broker.environ(**extra), cwd=broker.home, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    if b"unshare" in done.stderr:
        pytest.skip("no mount namespaces here")
    return [one for one in json.loads(done.stdout)["findings"] if one["level"] == "problem"]


@needs_root
@pytest.mark.parametrize("which", ["runtime_dir", "state_dir"])
def test_a_directory_that_cannot_be_written(broker: PrivateBroker, which: str) -> None:
    """Nothing is wrong with it otherwise; without this a start fails, and nobody says why."""
    path = getattr(broker, which)
    (problem,) = in_mounts(broker, f"mount -t tmpfs -o ro,mode=700 tmpfs {path}")
    assert problem["area"] == "directories"
    assert problem["what"].startswith(f"{path} cannot be written: ")
    assert problem["mend"]


@needs_root
def test_a_runtime_dir_without_room(broker: PrivateBroker) -> None:
    path = broker.runtime_dir
    fill = f"mount -t tmpfs -o size=16k,mode=700 tmpfs {path} && (dd if=/dev/zero of={path}/x 2>&- || :)"
    (problem,) = in_mounts(broker, fill)
    assert problem["what"] == f"There is no room in {path}."


@pytest.mark.parametrize("within", ["", "/x"])
def test_a_place_that_is_a_file(broker: PrivateBroker, within: str) -> None:
    """That file may be anything, so nobody is told to move it; every finding has a way out all the same."""
    (broker.root / "file").write_text("precious")
    place = f"{broker.root}/file{within}"
    found = examine(broker, XSESSIOND_RUNTIME_DIR=place, XSESSIOND_STATE_DIR=place)
    assert found.code == 1
    assert {one["area"] for one in found.problems()} == {"directories", "lock", "store"}
    assert all(one["mend"] and not one["mend"].startswith("mv ") for one in found.problems())


@pytest.mark.parametrize("kind", ["pipe", "directory", "link"])
def test_a_lock_that_is_no_plain_file(broker: PrivateBroker, kind: str) -> None:
    """P1: it is not waited for, and the broker says which file it is."""
    path = broker.runtime_dir / "broker.lock"
    {"pipe": lambda: os.mkfifo(path, 0o600), "directory": path.mkdir, "link": lambda: path.symlink_to("/dev/null")}[
        kind
    ]()
    refused = broker.ctl("start")
    assert (refused.returncode, str(path) in refused.stderr) == (9, True)
    mend(broker, find_problem(broker, "directories")["mend"])
    assert broker.ctl("start").returncode == 0


# -- the lock and the socket -------------------------------------------------------------------------------------------


def test_a_socket_that_a_killed_broker_left(broker: PrivateBroker) -> None:
    """P3"""
    process = broker.start()
    process.kill()
    process.wait(20)
    found = examine(broker)
    assert found.code == 9
    (note,) = found.of("note", "lock")
    assert note["what"] == f"Nobody listens at {broker.rendezvous}."
    mend(broker, note["mend"])
    assert examine(broker).code == 0


def test_something_else_in_the_sockets_place(broker: PrivateBroker) -> None:
    broker.rendezvous.write_text("not a socket")
    problem = find_problem(broker, "lock")
    assert problem["what"] == f"{broker.rendezvous} is not a socket."
    mend(broker, problem["mend"])
    assert examine(broker).code == 9


def test_a_socket_that_others_may_reach(broker: PrivateBroker) -> None:
    """13.1"""
    broker.start()
    broker.rendezvous.chmod(0o666)
    mend(broker, find_problem(broker, "lock")["mend"])
    assert examine(broker).code == 0


HOLDS = """
import fcntl, os, sys, socket
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(fd, fcntl.LOCK_EX)
os.write(fd, f"{os.getpid()} 0.0.9 {socket.gethostname()}\\n".encode())
print(flush=True)
sys.stdin.read()
"""


def test_a_holder_of_the_lock_that_answers_nobody(broker: PrivateBroker) -> None:
    """P15: who it is, and how it is ended."""
    process = broker.spawn(sys.executable, "-c", HOLDS, str(broker.runtime_dir / "broker.lock"))
    assert process.stdout is not None
    process.stdout.readline()
    problem = find_problem(broker, "lock")
    assert problem["what"].startswith(f"Pid {process.pid} holds {broker.runtime_dir}/broker.lock, and answers nobody")
    assert problem["mend"] == f"kill {process.pid}"
    mend(broker, problem["mend"])
    process.wait(20)
    assert examine(broker).code == 9


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks for who has it open in /proc")
def test_a_lock_that_another_program_holds(broker: PrivateBroker) -> None:
    """P15: the file still has the note of a broker of before, whose pid may be anybody's by now."""
    before = broker.start()
    before.kill()
    before.wait(20)
    path = broker.state_dir / "store.lock"
    process = broker.spawn("flock", str(path), "cat")
    poll(lambda: subprocess.run(["flock", "-n", str(path), "true"], check=False).returncode, bool)
    problem = find_problem(broker, "lock")
    assert str(before.pid) not in problem["mend"]
    mend(broker, problem["mend"])
    process.wait(20)
    assert broker.ctl("start").returncode == 0


def test_a_broker_that_is_stopped_in_its_tracks(broker: PrivateBroker) -> None:
    """P9: it is there, holds its lock, and says nothing."""
    process = broker.start()
    read_status(broker.rendezvous)
    os.kill(process.pid, 19)
    try:
        problem = find_problem(broker, "lock")
        assert problem["what"].startswith(f"Pid {process.pid} holds ")
        assert "did not answer in time" in problem["what"]
        mend(broker, problem["mend"])
        assert process.wait(20) == -9
    finally:
        if process.poll() is None:
            os.kill(process.pid, 18)
    assert examine(broker).code == 9


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's word on who listens")
def test_another_program_in_the_brokers_place(broker: PrivateBroker) -> None:
    """P1: the socket's file is not what the broker listens on."""
    process = broker.start()
    aside = broker.runtime_dir / "other.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(aside))
        os.chmod(aside, 0o600)
        other.listen()
        aside.rename(broker.rendezvous)
        problem = find_problem(broker, "lock")
        assert f"is pid {os.getpid()}, not the broker (pid {process.pid})" in problem["what"]
        assert problem["mend"] == f"kill {os.getpid()}"
    broker.rendezvous.unlink(missing_ok=True)
    poll(lambda: accepts(broker.rendezvous), bool)
    assert examine(broker).code == 0


def test_a_lock_file_that_was_replaced(broker: PrivateBroker) -> None:
    """P2: a second broker could start beside the first."""
    process = broker.start()
    (broker.state_dir / "store.lock").unlink()
    problem = find_problem(broker, "lock")
    assert problem["what"] == f"The broker (pid {process.pid}) does not hold {broker.state_dir}/store.lock."
    mend(broker, problem["mend"])
    assert examine(broker).code == 0


def test_a_lock_that_another_holds_than_answers(broker: PrivateBroker) -> None:
    """P1"""
    process = broker.start()
    path = broker.runtime_dir / "broker.lock"
    path.unlink()
    path.touch(mode=0o600)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("1 0.0.9 elsewhere\n")
        file.flush()
        problem = find_problem(broker, "lock")
    assert f"is pid {process.pid}, but pid 1 holds the lock" in problem["what"]


def test_a_runtime_dir_that_vanished_while_the_broker_lives(broker: PrivateBroker) -> None:
    """P5: it comes back by itself."""
    broker.start()
    shutil.rmtree(broker.runtime_dir)
    poll(lambda: accepts(broker.rendezvous), bool)
    assert examine(broker).code == 0

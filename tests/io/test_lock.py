"""The broker's lock: one broker for a runtime dir, one for a state dir, whatever dies when."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from xsessiond.io.lock import AlreadyRunning, BrokerLock, acquire_broker_lock
from xsessiond.io.runtime_dir import make_directories
from xsessiond.paths import Paths, recorded_runtime_dir, resolve_paths

ROOT = Path(__file__).parent.parent.parent

HOLDER = """
import sys
from xsessiond.io.lock import acquire_broker_lock
from xsessiond.io.runtime_dir import make_directories
from xsessiond.paths import resolve_paths
paths = resolve_paths()
make_directories(paths)
lock = acquire_broker_lock(paths, "0.1.0")
print("held", flush=True)
sys.stdin.read()
"""


def place(root: Path, runtime: str = "r", state: str = "s") -> Paths:
    environ = {f"XSESSIOND_{name}_DIR": str(root / where) for name, where in (("RUNTIME", runtime), ("STATE", state))}
    return resolve_paths({**environ, "HOME": str(root)})


def made(root: Path, runtime: str = "r", state: str = "s") -> Paths:
    paths = place(root, runtime, state)
    make_directories(paths)
    return paths


@contextmanager
def holder(paths: Paths) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock, until its stdin is closed or it is killed."""
    environ = {**os.environ, "XSESSIOND_RUNTIME_DIR": paths.runtime_dir, "XSESSIOND_STATE_DIR": paths.state_dir}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_the_second_is_told_who_runs(short_dir: Path) -> None:
    """P1: the second one ends with "already running (pid)", and the first does not notice."""
    paths = made(short_dir)
    with holder(paths) as first:
        with pytest.raises(AlreadyRunning) as refused:
            acquire_broker_lock(paths, "0.2.0")
        assert (refused.value.pid, refused.value.version) == (first.pid, "0.1.0")
        assert str(refused.value) == f"already running (pid {first.pid}): it holds {paths.lock_file}"
        assert first.poll() is None
        note = Path(paths.lock_file).read_text()
        assert note == Path(paths.store_lock_file).read_text() == f"{first.pid} 0.1.0 {socket.gethostname()}\n"


@pytest.mark.parametrize(
    "runtime, state", [("r", "other"), ("other", "s")], ids=["another state dir", "another runtime dir"]
)
def test_one_shared_directory_is_enough_to_be_refused(short_dir: Path, runtime: str, state: str) -> None:
    """P1: started by hand and with another state dir; two brokers on one store are as bad."""
    with holder(made(short_dir)) as first:
        with pytest.raises(AlreadyRunning, match=rf"already running \(pid {first.pid}\)"):
            acquire_broker_lock(made(short_dir, runtime, state), "0")
        # What the refused one had taken already is free again, and the separate broker can start.
        acquire_broker_lock(made(short_dir, "other", "other"), "0").release()


def test_a_killed_holder_leaves_nothing_behind(short_dir: Path) -> None:
    """P3, P15: kill -9, and the lock is to be had at once, without waiting for the dead process to be collected."""
    paths = made(short_dir)
    for _ in range(3):
        with holder(paths) as first:
            os.kill(first.pid, signal.SIGKILL)
            lock = acquire_broker_lock(paths, "0", wait_s=10)
            lock.release()
    acquire_broker_lock(paths, "0").release()


def test_a_holder_that_lets_go_of_one_file_first_is_waited_for(short_dir: Path) -> None:
    """P2: a dying process closes its files one by one; whoever comes in between is not told that it still runs."""
    paths = made(short_dir)
    with holder(paths) as dying:
        os.rename(paths.lock_file, paths.lock_file + ".old")  # as if it had let go of this one only
        Path(paths.lock_file).write_text(f"{dying.pid} 0.1.0 {socket.gethostname()}\n")
        killer = subprocess.Popen(["/bin/sh", "-c", f"sleep 0.4; kill -9 {dying.pid}"])
        acquire_broker_lock(paths, "0").release()
        assert killer.wait(10) == 0
        assert dying.wait(10) == -signal.SIGKILL


def test_an_orderly_predecessor_can_be_waited_for(short_dir: Path) -> None:
    """An upgrade: the old broker finishes what it accepted."""
    paths = made(short_dir)
    with holder(paths) as first:
        ender = subprocess.Popen(["/bin/sh", "-c", f"sleep 0.3; kill {first.pid}"])
        acquire_broker_lock(paths, "0", wait_s=10).release()
        assert ender.wait(10) == 0


def test_a_deleted_runtime_dir_lets_no_second_broker_in(short_dir: Path) -> None:
    """P1, P5: the newcomer makes the directory and its lock file anew, and is stopped by the state dir's."""
    with holder(made(short_dir)) as first:
        shutil.rmtree(short_dir / "r")
        with pytest.raises(AlreadyRunning, match=rf"pid {first.pid}\): it holds {short_dir}/s/store.lock"):
            acquire_broker_lock(made(short_dir), "0")


def test_a_replaced_file_is_not_locked_instead(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P2: what was locked must be what lies there."""
    paths = made(short_dir)
    real = os.open
    opened: list[int] = []

    def open_and_replace(path: str, flags: int, mode: int = 0o777) -> int:
        fd = real(path, flags, mode)
        if path == paths.lock_file and not opened:
            os.unlink(path)
            os.close(real(path, os.O_CREAT | os.O_WRONLY, 0o600))
        opened.append(fd)
        return fd

    monkeypatch.setattr(os, "open", open_and_replace)
    lock = acquire_broker_lock(paths, "0")
    monkeypatch.undo()
    assert str(os.getpid()) in Path(paths.lock_file).read_text()
    with pytest.raises(AlreadyRunning):
        acquire_broker_lock(made(short_dir, state="other"), "0")
    lock.release()


def test_the_files_are_private_and_stay(short_dir: Path) -> None:
    paths = made(short_dir)
    before = os.umask(0)
    try:
        lock = acquire_broker_lock(paths, "0")
    finally:
        os.umask(before)
    assert lock.held
    lock.release()
    lock.release()
    assert not lock.held
    for path in (paths.lock_file, paths.store_lock_file):
        assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_link_in_its_place_is_not_followed(short_dir: Path) -> None:
    paths = made(short_dir)
    os.symlink(short_dir / "victim", paths.lock_file)
    with pytest.raises(OSError, match="symbolic link"):
        acquire_broker_lock(paths, "0")
    assert not (short_dir / "victim").exists()


def test_what_stands_in_the_file_decides_nothing(short_dir: Path) -> None:
    """P15: kernel locks, not pid files."""
    paths = made(short_dir)
    for text in ("1 0.1.0 host\n", "", "no number at all", "\xff\xfe" * 400):
        Path(paths.lock_file).write_text(text)
        acquire_broker_lock(paths, "0").release()


def test_a_holder_without_a_note_and_one_on_another_machine_are_told_apart(short_dir: Path) -> None:
    paths = made(short_dir)
    with holder(paths):
        Path(paths.lock_file).write_text("")
        with pytest.raises(AlreadyRunning, match=r"^already running: it holds"):
            acquire_broker_lock(paths, "0")
        Path(paths.lock_file).write_text("12 0.1.0 elsewhere.example\n")
        with pytest.raises(AlreadyRunning, match=r"\(pid 12\) on elsewhere\.example, which shares this directory: it"):
            acquire_broker_lock(paths, "0")


# ------------------------------------------------------------------------------------------- the word about the place


def held(paths: Paths) -> BrokerLock:
    return acquire_broker_lock(paths, "0")


def test_the_place_is_recorded_for_clients_elsewhere(short_dir: Path) -> None:
    """P5: a client of another environment computes another runtime dir, and finds the broker by the state dir."""
    paths = made(short_dir)
    elsewhere = Paths(
        runtime_dir=f"{short_dir}/elsewhere",
        state_dir=paths.state_dir,
        config_dir=paths.config_dir,
        managed_config=paths.managed_config,
        sources={},
    )
    assert recorded_runtime_dir(elsewhere) is None
    lock = held(paths)
    assert recorded_runtime_dir(elsewhere) == paths.runtime_dir
    lock.release()
    held(paths).release()  # and once more over what is there
    os.unlink(paths.recorded_link)
    Path(paths.recorded_link + ".new").touch()  # left by one that was killed here
    held(paths).release()
    assert recorded_runtime_dir(elsewhere) == paths.runtime_dir


def test_renew_takes_the_lock_of_a_runtime_dir_made_anew(short_dir: Path) -> None:
    """P5, 15.3."""
    paths = made(short_dir)
    lock = held(paths)
    lock.renew(paths)  # nothing was lost: nothing happens
    shutil.rmtree(paths.runtime_dir)
    make_directories(paths)
    lock.renew(paths)
    assert str(os.getpid()) in Path(paths.lock_file).read_text()
    with pytest.raises(AlreadyRunning, match=rf"it holds {paths.lock_file}"):
        held(made(short_dir, state="other"))
    lock.release()
    held(paths).release()


def test_renew_elsewhere_moves_the_word(short_dir: Path) -> None:
    """P5: /run/user/UID is gone, and the rule names another place now."""
    paths, later = made(short_dir), made(short_dir, "later")
    lock = held(paths)
    lock.renew(later)
    assert lock.paths is later
    assert os.readlink(paths.recorded_link) == later.runtime_dir
    lock.release()


def test_renew_yields_to_a_broker_of_another_store(short_dir: Path) -> None:
    paths = made(short_dir)
    lock = held(paths)
    shutil.rmtree(paths.runtime_dir)
    with holder(made(short_dir, state="other")) as other:
        with pytest.raises(AlreadyRunning, match=rf"pid {other.pid}"):
            lock.renew(paths)
        assert lock.held
    lock.renew(paths)
    lock.release()


# ------------------------------------------------------------------------------------------------------ racing starts


def race(root: Path, rounds: int, seed: int) -> dict[str, object]:
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.support.contestants",
            str(root / "r"),
            str(root / "s"),
            str(rounds),
            "50",
            str(seed),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    found: dict[str, object] = json.loads(result.stdout)
    return found


@pytest.mark.slow
def test_fifty_racing_starts_give_one_listener(short_dir: Path) -> None:
    """P2, 15.1: with some of them killed while they race; the others say who runs."""
    found = race(short_dir, rounds=5, seed=1)
    assert found["violations"] == []
    assert found["strangers"] == []
    assert isinstance(found["winners"], int)
    assert found["winners"] > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fifty_racing_starts_two_hundred_times(short_dir: Path) -> None:
    """P2: 50 concurrent starts, 200 rounds, with kill -9."""
    found = race(short_dir, rounds=200, seed=2)
    assert found["violations"] == []
    assert found["strangers"] == []

"""What the kernel says about real processes."""

from __future__ import annotations

import os
import pwd
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.users import STRANGER, needs_root
from xsessiond.io import processes
from xsessiond.io.processes import (
    ProcessId,
    ancestry,
    boot_id,
    environment_marks,
    identify,
    is_running,
    own_process,
    peer_credentials,
    peer_process,
    raise_file_limit,
)

ROOT = Path(__file__).parent.parent.parent
NOBODY = 2**22 + 1
"""A pid that no process has: beyond the largest pid_max."""


@contextmanager
def child(*argv: str, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until its stdin is closed."""
    argv = argv or ("cat",)
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **environ}
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until_it_runs(process: subprocess.Popen[bytes]) -> None:
    """Have `cat` answer. `Popen` returns when the new program is about to begin, with an environment still empty."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"\n"


def zombie() -> subprocess.Popen[bytes]:
    """A child that has ended and was not collected; the caller waits for it."""
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    return process


def test_a_process_is_its_pid_and_its_start() -> None:
    """D2: never a pid alone."""
    with child() as process:
        found = identify(process.pid)
        assert found is not None
        assert found.pid == process.pid
        assert identify(process.pid) == found
        assert is_running(found)
        assert not is_running(ProcessId(found.pid, found.start - 1))  # the same pid, used again
    assert identify(process.pid) is None
    assert not is_running(found)
    assert own_process() == identify(os.getpid())


def test_the_start_is_the_kernel_s() -> None:
    """D2, 1.6: not made of the wall clock, which can be set."""
    ours = own_process()
    started_s = psutil.Process().create_time() - psutil.boot_time()
    if sys.platform == "linux":
        assert abs(ours.start / os.sysconf("SC_CLK_TCK") - started_s) < 5


def test_a_zombie_has_ended() -> None:
    process = zombie()
    assert identify(process.pid) is None
    chain = ancestry(process.pid)  # but it has a parent: a hook that connected and ended at once belongs to somebody
    assert [one.pid for one in chain[:2]] == [process.pid, os.getpid()]
    process.wait()


@pytest.mark.parametrize("pid", [0, -1, NOBODY])
def test_nobody(pid: int) -> None:
    assert identify(pid) is None
    assert ancestry(pid) == ()
    assert not ancestry(pid).complete
    assert environment_marks(pid) is None


def test_ancestry_goes_up_to_the_first_process() -> None:
    inner = f"{sys.executable} -c 'import os; print(os.getpid(), os.getppid(), flush=True); input()'; true"
    with child("sh", "-c", f'sh -c "{inner}"; true') as process:
        assert process.stdout is not None
        pid, parent = map(int, process.stdout.readline().split())
        chain = ancestry(pid)
        pids = [one.pid for one in chain]
        assert pids[:2] == [pid, parent]
        assert pids[pids.index(process.pid) + 1] == os.getpid()
        assert pids == [pid, *(one.pid for one in psutil.Process(pid).parents())]
        assert chain.complete
        assert all(identify(one.pid) == one for one in chain)
        assert [one.start for one in chain] == sorted((one.start for one in chain), reverse=True)


def test_a_parent_younger_than_its_child_is_not_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """D2: it ended while we looked, and its pid was given away."""
    real = processes._system.read_stat

    def read_stat(pid: int) -> object:
        found = real(pid)
        return found._replace(start=found.start + 10**9) if found and pid == os.getppid() else found

    monkeypatch.setattr(processes._system, "read_stat", read_stat)
    chain = ancestry(os.getpid())
    assert [one.pid for one in chain] == [os.getpid()]
    assert not chain.complete


@pytest.mark.skipif(sys.platform != "linux", reason="/proc can be hidden on Linux only")
def test_a_hidden_ancestor_makes_the_chain_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    """5.2: with hidepid, another user's process between us and the session is not to be seen; that is not a no."""
    real = processes._system.read_stat
    monkeypatch.setattr(processes._system, "read_stat", lambda pid: None if pid == os.getppid() else real(pid))
    assert not ancestry(os.getpid()).complete


def test_a_circle_of_parents_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    real = processes._system.read_stat

    def read_stat(pid: int) -> object:
        found = real(os.getpid())
        assert found is not None
        return found._replace(parent=pid)

    monkeypatch.setattr(processes._system, "read_stat", read_stat)
    assert len(ancestry(os.getpid())) == processes.LONGEST_ANCESTRY


def test_the_marks_of_a_harness_are_seen_in_the_environment() -> None:
    """5.2: what is not a mark, as a person's own settings, is not reported."""
    with child(CLAUDECODE="1", GEMINI_CLI="1", CODEX_HOME="/x", GEMINI_API_KEY="k", XSESSIOND_NAME="api") as process:
        wait_until_it_runs(process)
        assert environment_marks(process.pid) == {"CLAUDECODE", "GEMINI_CLI"}
    with child() as process:
        wait_until_it_runs(process)
        assert environment_marks(process.pid) == frozenset()


def test_a_large_environment_is_read_whole() -> None:
    filler = {f"FILLER_{number}": "x" * 60_000 for number in range(8)}
    with child(**filler, OPENCODE="1") as process:
        wait_until_it_runs(process)
        assert environment_marks(process.pid) == {"OPENCODE"}


@pytest.mark.skipif(sys.platform != "linux", reason="names of processes are read from /proc")
def test_a_name_with_brackets_and_spaces_confuses_nobody(short_dir: Path) -> None:
    program = short_dir / ") S 1 (x"
    os.symlink("/bin/sh", program)
    with child(str(program), "-c", "cat; true") as process:
        wait_until_it_runs(process)
        found = identify(process.pid)
        assert found is not None
        assert ancestry(process.pid)[1].pid == os.getpid()
        stat = processes._system.read_stat(process.pid)
        assert stat is not None
        assert stat.name.startswith(") S 1 (x")


def test_the_boot_has_an_id() -> None:
    assert boot_id() == boot_id() != "unknown"
    assert len(boot_id()) == 36


# ---------------------------------------------------------------------------------------------------------------- peers

CONNECT = (
    "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(flush=True); sys.stdin.read()"
)


@pytest.fixture
def listener(short_dir: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(short_dir / "s"))
        made.listen()
        made.settimeout(20)
        yield made


def connecting(listener: socket.socket) -> tuple[str, ...]:
    return (sys.executable, "-c", CONNECT, listener.getsockname())


def test_who_connected(listener: socket.socket) -> None:
    """13.1, 3.7: the kernel says it, whatever the arguments say."""
    with child(*connecting(listener)) as process:
        connection, _ = listener.accept()
        with connection:
            cred = peer_credentials(connection)
            assert cred == (process.pid, os.geteuid(), os.getegid())
            assert peer_process(connection) == identify(process.pid)


@needs_root
def test_another_user_is_seen(listener: socket.socket, short_dir: Path) -> None:
    """13.1."""
    short_dir.chmod(0o755)
    os.chmod(listener.getsockname(), 0o666)
    with socket.socket(socket.AF_UNIX) as client:
        os.setegid(STRANGER)
        os.seteuid(STRANGER)
        try:
            client.connect(listener.getsockname())
        finally:
            os.seteuid(0)
            os.setegid(0)
        connection, _ = listener.accept()
        with connection:
            assert peer_credentials(connection)[1:] == (STRANGER, STRANGER)


def test_a_peer_that_is_gone_is_nobody(listener: socket.socket) -> None:
    """D2: its number may be somebody else's by now."""
    with child(*connecting(listener)) as process:
        connection, _ = listener.accept()
    with connection:
        assert process.wait() != 0
        assert peer_process(connection) is None


@pytest.mark.skipif(sys.platform != "linux", reason="a pidfd of the peer")
def test_a_peer_that_has_ended_and_was_not_collected_is_still_known(listener: socket.socket) -> None:
    """A hook that connects, writes and ends belongs to the process tree that it came from."""
    process = subprocess.Popen(connecting(listener), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    connection, _ = listener.accept()
    with connection:
        living = peer_process(connection)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert peer_process(connection) == living is not None
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="an older Linux")
def test_without_a_pidfd_of_the_peer_its_number_is_used(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes._system, "SO_PEERPIDFD", 9999)
    with child(*connecting(listener)) as process:
        connection, _ = listener.accept()
        with connection:
            assert peer_process(connection) == identify(process.pid)


@needs_root
@pytest.mark.skipif(sys.platform != "linux", reason="pid namespaces")
def test_a_peer_outside_our_pid_namespace_has_no_pid(short_dir: Path) -> None:
    """M3: it cannot be checked, and is not."""
    program = (
        "import socket, sys; from xsessiond.io.processes import peer_credentials, peer_process;"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(flush=True);"
        "c = s.accept()[0]; print(peer_credentials(c).pid, peer_process(c), flush=True); sys.stdin.read()"
    )
    path = str(short_dir / "inside")
    inside = ["unshare", "--pid", "--fork", sys.executable, "-c", program, path]
    with subprocess.Popen(
        inside, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdin is not None
        if process.stdout.readline() != "\n":
            pytest.skip(f"no pid namespaces here: {process.stderr.read()}")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            assert process.stdout.readline() == "None None\n"
        process.stdin.close()


# --------------------------------------------------------------------------------------------------------- descriptors


def test_the_limit_of_descriptors_is_raised_and_bounded() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard = before[1]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
        assert raise_file_limit(300) == 300
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300, hard)
        assert raise_file_limit(100) == 300  # never lowered
        if 0 < hard < 1 << 20:
            assert raise_file_limit(1 << 30) == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_human_is_called_as_the_account_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """I1: the same, whoever started the broker and from where."""
    account = pwd.struct_passwd(("ann", "x", 1000, 1000, "", "/home/ann", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: account)
    monkeypatch.setenv("USER", "cron")
    assert processes.user_name() == "ann"

    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert processes.user_name() == "cron"
    monkeypatch.delenv("USER")
    assert processes.user_name() == "you"

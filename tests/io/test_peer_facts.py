"""Who connected, of real processes: what is inherited, what is left behind, what cannot be seen."""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.io.test_processes import child, wait_until_it_runs, zombie
from tests.support.human import ROOT, at_own_terminal, below_agent
from tests.support.private_broker import PrivateBroker
from tests.support.users import STRANGER, as_user, needs_root
from xsessiond.core.effects import Peer
from xsessiond.io import peer_facts
from xsessiond.io._process import ProcessStat
from xsessiond.io.peer_facts import PeerFacts
from xsessiond.io.processes import ProcessId, Step, identify, own_process

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


def examine(pid: int, facts: PeerFacts | None = None) -> Peer:
    process = identify(pid)
    assert process is not None
    return (facts or PeerFacts("ann")).examine(process)


def new_marks(peer: Peer) -> set[str]:
    """Those that are not around the tests themselves."""
    return set(peer.marks - examine(os.getpid()).marks)


@contextmanager
def below(program: str, **environ: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A Python process that runs `program`, which prints the pid of a child of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **environ},
    ) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


@contextmanager
def connection(then: Callable[[int], None] | None = None) -> Iterator[tuple[socket.socket, int]]:
    """The broker's end of a connection of a child, and the child's pid. then: what to do with the child first."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("")  # Linux gives it an abstract name
        listener.listen()
        name = listener.getsockname()
        program = (
            "import socket, sys\n"
            "s = socket.socket(socket.AF_UNIX); s.connect(bytes.fromhex(sys.argv[1])); sys.stdin.read()\n"
        )
        with subprocess.Popen([sys.executable, "-c", program, name.hex()], stdin=subprocess.PIPE) as process:
            accepted, _ = listener.accept()
            with accepted:
                if then is not None:
                    then(process.pid)
                yield accepted, process.pid
                process.kill()


# -- what is inherited -------------------------------------------------------------------------------------------------


def test_marks_of_any_ancestor_count() -> None:
    """5.2: a child with a scrubbed environment is still below what it was scrubbed from."""
    program = (
        "import subprocess, sys\n"
        "c = subprocess.Popen(['env', '-i', 'cat'], stdin=subprocess.PIPE); print(c.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with below(program, GOOSE_TERMINAL="1", OPENCODE="1", GEMINI_API_KEY="k") as (process, pid):
        peer = examine(pid)
        assert new_marks(peer) == {"GOOSE_TERMINAL", "OPENCODE"}
        assert peer.ancestors[1].pid == process.pid
        assert peer.complete
        assert peer.unseen is None


def test_what_an_exec_brought_is_seen_though_the_process_is_the_same() -> None:
    """The environments of ancestors are remembered, but not beyond the program that they belong to."""
    program = (
        "import os, subprocess, sys\n"
        "reading, writing = os.pipe(); os.set_inheritable(writing, True)\n"
        "c = subprocess.Popen(['/bin/cat'], stdin=reading, env={}); os.close(reading); print(c.pid, flush=True)\n"
        "sys.stdin.read(1)\n"
        "os.execve('/bin/sh', ['sh', '-c', 'echo 0; read x'], {'GEMINI_CLI': '1'})\n"
    )
    facts = PeerFacts("ann")
    with below(program, GOOSE_TERMINAL="1") as (process, pid):
        assert process.stdin is not None
        assert process.stdout is not None
        assert new_marks(examine(pid, facts)) == {"GOOSE_TERMINAL"}
        assert new_marks(examine(pid, facts)) == {"GOOSE_TERMINAL"}
        process.stdin.write(b".")
        process.stdin.flush()
        assert process.stdout.readline() == b"0\n"
        assert new_marks(examine(pid, facts)) == {"GEMINI_CLI"}


@on_linux
def test_ancestors_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = peer_facts.environment_marks
    monkeypatch.setattr(peer_facts, "environment_marks", lambda pid: read.append(pid) or real(pid))
    monkeypatch.setattr(peer_facts, "KNOWN_MOST", 100)
    facts = PeerFacts("ann")
    with child() as process:
        wait_until_it_runs(process)
        examine(process.pid, facts)
        assert os.getpid() in read
        read.clear()
        examine(process.pid, facts)
        assert os.getpid() not in read
        assert process.pid in read


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_facts, "KNOWN_MOST", 2)
    facts = PeerFacts("ann")
    with child() as process:
        wait_until_it_runs(process)
        for _ in range(3):
            examine(process.pid, facts)
            assert len(facts._marks) <= 2


# -- terminals ---------------------------------------------------------------------------------------------------------

LOOK = """
import json, os, sys
from xsessiond.io.peer_facts import PeerFacts
from xsessiond.io.processes import identify
peer = PeerFacts("ann").examine(identify(os.getpid()))
print(json.dumps([peer.terminal, peer.tty, peer.complete, sorted(peer.marks), peer.unseen]), flush=True)
"""


def see_itself(place: PrivateBroker, *argv: str) -> list[object]:
    done = at_own_terminal(place, argv or [sys.executable, "-c", LOOK], PYTHONPATH=str(ROOT))
    assert done.code == 0, done.shown
    seen: list[object] = json.loads(done.shown)
    return seen


def test_a_person_s_command(broker: PrivateBroker) -> None:
    """5.2: a terminal that belongs to no session; nothing that counts against it."""
    terminal, tty, complete, marks, unseen = see_itself(broker)
    assert terminal is True
    assert sys.platform != "linux" or str(tty).startswith("pts/")
    assert (complete, marks, unseen) == (True, [], None)


def test_below_a_shell_in_a_terminal(broker: PrivateBroker) -> None:
    shell = ["sh", "-c", f'"{sys.executable}" -c "$0"; true', LOOK]
    assert see_itself(broker, *shell)[0] is True


def test_what_was_left_behind_on_a_terminal_is_not_at_it(broker: PrivateBroker) -> None:
    """5.2: a double fork keeps the terminal, but the shell in it is no ancestor any more."""
    leave = [sys.executable, str(ROOT / "tests/support/escapes.py"), "leave", "--"]
    terminal, tty, complete, *_ = see_itself(broker, *leave, sys.executable, "-c", LOOK)
    assert (terminal, tty, complete) == (False, None, True)


def test_without_a_terminal() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as process:
        peer = examine(process.pid)
        assert (peer.terminal, peer.tty) == (False, None)
        process.kill()


# -- what is nobody's own ----------------------------------------------------------------------------------------------

LOOK_FOR_SHARED = """
import os, sys
from xsessiond.io.peer_facts import PeerFacts
from xsessiond.io.processes import identify, trace
peer = PeerFacts("ann").examine(identify(os.getpid()))
steps, _ = trace(os.getpid())
print([(step.stat.name, step.process in peer.shared) for step in steps[:3]], flush=True)
"""


def test_the_shell_of_a_terminal_and_all_above_it_are_nobody_s_harness(broker: PrivateBroker) -> None:
    """13.2: everything that a person starts is below it."""
    shell = ["sh", "-c", f'exec 2>&1; "{sys.executable}" -c "$0"; true', LOOK_FOR_SHARED]
    done = at_own_terminal(broker, shell, PYTHONPATH=str(ROOT))
    seen = ast.literal_eval(done.shown)
    assert [(name == "sh", shared) for name, shared in seen[:2]] == [(False, False), (True, True)]


@on_linux
def test_a_shell_between_two_programs_is_shared_and_what_is_above_it_is_not() -> None:
    """A harness starts its servers through shells, and a script may start a harness."""
    program = (
        "import subprocess, sys\n"
        "c = subprocess.Popen(['sh', '-c', 'cat; true'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "c.stdin.write(b'.'); c.stdin.flush(); c.stdout.read(1)\n"
        "children = open(f'/proc/{c.pid}/task/{c.pid}/children').read()\n"
        "print(children, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with below(program) as (process, pid):
        peer = examine(pid)
        assert [(ancestor in peer.shared) for ancestor in peer.ancestors[:3]] == [False, True, False]
        assert peer.ancestors[2].pid == process.pid


def step(pid: int, name: str, session: int, *, terminal: int = 0) -> Step:
    stat = ProcessStat(0, pid, terminal, dead=False, name=name, session=session, image=b"")
    return Step(ProcessId(pid, pid), stat)


def tree_of(*steps: Step) -> int:
    return peer_facts._find_tree(peer_facts._divide(list(steps))[1])


@on_linux
def test_all_that_a_terminal_s_shell_starts_is_one_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what moves into a session of its own (setsid); and not what the terminal's program shows in another."""
    monkeypatch.setattr(peer_facts, "is_ours", lambda _pid: True)
    shell, above = step(20, "bash", 20, terminal=3), (step(11, "tmux: server", 11), step(1, "systemd", 1))
    assert tree_of(step(40, "client", 20, terminal=3), shell, *above) == 20
    assert tree_of(step(41, "client", 41), step(31, "sh", 20, terminal=3), shell, *above) == 20
    assert tree_of(step(42, "client", 21, terminal=4), step(21, "zsh", 21, terminal=4), *above) == 21


@on_linux
def test_a_service_is_a_tree_and_what_lost_its_parent_belongs_to_who_started_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer_facts, "is_ours", lambda _pid: True)
    manager = step(5, "systemd", 5)
    assert tree_of(step(51, "client", 50), step(50, "service", 50), manager) == 50
    assert {tree_of(step(pid, "client", 20), manager) for pid in (60, 61)} == {20}
    assert tree_of(step(62, "client", 0), manager) == 62  # its leader cannot be seen from here


def test_a_process_and_what_it_starts_are_one_tree() -> None:
    with child() as process:
        wait_until_it_runs(process)
        assert examine(process.pid).tree == examine(os.getpid()).tree is not None


@needs_root
def test_another_user_s_process_is_nobody_s_harness() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=STRANGER) as process:
        wait_until_it_runs(process)
        assert {ancestor.pid for ancestor in examine(process.pid).shared} >= {process.pid, os.getpid()}
        process.kill()


# -- what cannot be seen -----------------------------------------------------------------------------------------------


def test_a_peer_that_ended_is_not_without_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment is gone: that is no clean one."""
    process = zombie()
    found = peer_facts.trace(process.pid)[0][0].process
    peer = PeerFacts("ann").examine(found)
    assert peer.process == found
    assert peer.unseen is not None
    assert str(process.pid) in peer.unseen
    process.wait()
    assert PeerFacts("ann").examine(found) == Peer(None, (), terminal=False, user="ann", complete=False)


def test_a_pid_that_was_used_again_is_nobody() -> None:
    """D2."""
    ours = own_process()
    assert PeerFacts("ann").examine(ProcessId(ours.pid, ours.start - 1)).process is None


def test_a_hidden_ancestor(monkeypatch: pytest.MonkeyPatch) -> None:
    """5.2: looked for again, and then told."""
    tries: list[int] = []
    real = peer_facts.trace

    def trace(pid: int) -> tuple[list[peer_facts.Step], bool]:
        tries.append(pid)
        return real(pid)[0][:1], False

    monkeypatch.setattr(peer_facts, "trace", trace)
    assert not examine(os.getpid()).complete
    assert len(tries) == peer_facts.LOOKS


@needs_root
@on_linux
def test_whose_environment_must_be_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen as another user: root's ancestors and more privileged ones (sshd's child) are normal; the peer's own is not.

    A process of our own that cannot be read is none of these: our system keeps us from looking, and that is told.
    """
    program = (
        "import ctypes, os, subprocess, sys\n"
        "system = ctypes.CDLL(None)\n"
        f"os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER})\n"  # from here on guarded, as sshd's child is
        "if sys.argv[1] == 'open': system.prctl(4, 1)\n"  # PR_SET_DUMPABLE
        "c = subprocess.Popen(['/bin/cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "c.stdin.write(b'.'); c.stdin.flush(); c.stdout.read(1)\n"
        "print(c.pid, flush=True); sys.stdin.read()\n"
    )
    for guarded in ("guarded", "open"):
        with subprocess.Popen(
            [sys.executable, "-c", program, guarded],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"GEMINI_CLI": "1"},
            cwd="/",
        ) as process:
            assert process.stdout is not None
            pid = int(process.stdout.readline())
            with as_user(STRANGER):
                peer = examine(pid)
                assert peer.unseen is None
                assert peer.marks >= {"GEMINI_CLI"}
                itself = examine(process.pid)
                assert (itself.unseen is not None) == (guarded == "guarded")
                with monkeypatch.context() as patch:
                    patch.setattr(peer_facts, "environment_marks", lambda _: None)
                    assert f"(pid {pid})" in str(examine(pid).unseen)
                    patch.setattr(
                        peer_facts, "environment_marks", lambda asked: None if asked == process.pid else frozenset()
                    )
                    found = examine(pid).unseen
                    assert (found is None) == (guarded == "guarded")
            process.kill()


# -- connections -------------------------------------------------------------------------------------------------------


@on_linux
def test_a_connection_is_its_process() -> None:
    facts = PeerFacts("ann")
    with connection() as (sock, pid):
        closely, briefly = facts.look_closely(sock), facts.look(sock)
        assert closely.process == briefly.process == identify(pid)
        assert closely.ancestors == briefly.ancestors
        assert own_process() in closely.ancestors
        assert closely.unseen is None
        assert (briefly.terminal, briefly.marks) == (False, frozenset())


@on_linux
def test_a_connection_whose_process_is_gone_is_nobody_s() -> None:
    facts = PeerFacts("ann")

    def end(pid: int) -> None:
        os.kill(pid, 9)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    with connection(end) as (sock, pid):
        peer = facts.look_closely(sock)  # dead, but not collected yet: known, and not to be looked into
        assert peer.process is not None
        assert peer.process.pid == pid
        assert peer.unseen is not None
        os.waitpid(pid, 0)
        assert facts.look_closely(sock).process is None
        assert facts.look(sock).process is None


def test_the_tests_know_where_they_run() -> None:
    assert below_agent() == bool(examine(os.getpid()).marks or not examine(os.getpid()).complete)

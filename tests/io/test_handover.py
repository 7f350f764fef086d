"""What a broker passes on, and who may take its place: real files, real programs, real descriptors."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from tests.io.test_lock import made
from tests.support.users import STRANGER, needs_root
from xsessiond.io import handover
from xsessiond.io.handover import (
    VARIABLE,
    BadInheritance,
    Inheritance,
    NoSuccessor,
    Succession,
    name_successor,
    open_inheritance,
    take_inheritance,
    tell_check,
    try_successor,
)
from xsessiond.io.listener import bind_listener
from xsessiond.io.lock import AlreadyRunning, acquire_broker_lock, adopt_broker_lock
from xsessiond.paths import Paths


@pytest.fixture
def paths(short_dir: Path) -> Paths:
    return made(short_dir)


# -- what is passed on -------------------------------------------------------------------------------------------------


def test_the_first_broker_of_a_process_inherits_nothing() -> None:
    assert take_inheritance({}) is None


def test_what_is_left_is_taken_out_of_the_environment_and_goes_no_further(paths: Paths) -> None:
    lock = acquire_broker_lock(paths, "1")
    rendezvous, door = bind_listener(paths.broker_socket, lock), bind_listener(paths.session_socket("abcdef"), lock)
    left = Inheritance(*lock.detach(), rendezvous.detach(), (door.detach(),))
    for fd in left.descriptors():
        os.set_inheritable(fd, True)
    environ = {VARIABLE: left.to_text(), "HOME": "/"}
    taken = take_inheritance(environ)
    assert taken == left
    assert environ == {"HOME": "/"}
    assert not any(map(os.get_inheritable, left.descriptors()))
    rendezvous, doors, _ = open_inheritance(left)
    assert (rendezvous.path, list(doors)) == (paths.broker_socket, [paths.session_socket("abcdef")])
    assert rendezvous.intact()
    assert all(door.intact() for door in doors.values())
    again = adopt_broker_lock(paths, "2", left.runtime_lock, left.store_lock)
    assert Path(paths.lock_file).read_text().split()[:2] == [str(os.getpid()), "2"]
    for listener in (rendezvous, *doors.values()):
        listener.close()
    again.release()


def test_a_lock_that_is_passed_on_is_free_for_nobody(paths: Paths) -> None:
    """P2: not for a moment."""
    lock = acquire_broker_lock(paths, "1")
    fds = lock.detach()
    lock.release()  # as the end of the program does
    with pytest.raises(AlreadyRunning):
        acquire_broker_lock(paths, "3")
    adopt_broker_lock(paths, "2", *fds).release()
    acquire_broker_lock(paths, "3").release()


def test_the_lock_of_another_store_is_not_taken_over(short_dir: Path) -> None:
    lock = acquire_broker_lock(made(short_dir), "1")
    fds = lock.detach()
    with pytest.raises(AlreadyRunning):
        adopt_broker_lock(made(short_dir, state="other"), "2", *fds)
    for fd in fds:
        os.close(fd)


def test_a_socket_that_was_deleted_meanwhile_is_known_as_that(paths: Paths) -> None:
    """P5: whoever keeps the directory in place makes it again."""
    lock = acquire_broker_lock(paths, "1")
    listener = bind_listener(paths.broker_socket, lock)
    os.unlink(paths.broker_socket)
    found, _, _ = open_inheritance(Inheritance(0, 0, listener.detach(), ()))
    assert (found.path, found.intact()) == (paths.broker_socket, False)
    found.close()
    lock.release()


BAD = ["", "{}", "[]", "17", '{"locks": [1], "rendezvous": 2}', '{"locks": [1, 2], "rendezvous": 2, "doors": []}']


@pytest.mark.parametrize("text", BAD)
def test_what_cannot_be_understood_is_said(text: str) -> None:
    with pytest.raises(BadInheritance, match=VARIABLE):
        take_inheritance({VARIABLE: text})


def test_a_descriptor_that_is_no_socket_is_said() -> None:
    with pytest.raises(BadInheritance, match="as a socket is none"):
        open_inheritance(Inheritance(0, 0, os.open(os.devnull, os.O_RDONLY), ()))
    left = Inheritance(0, 0, 9999, ())
    with pytest.raises(BadInheritance):
        take_inheritance({VARIABLE: left.to_text()})


# -- who goes on -------------------------------------------------------------------------------------------------------


def word(paths: Paths, text: str, mode: int = 0o600) -> Path:
    path = Path(paths.successor_file)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_without_a_word_it_is_the_program_that_runs(paths: Paths) -> None:
    assert name_successor(paths) == [sys.executable, "-P", "-m", "xsessiond"]


def test_the_word_of_the_users_own_program_counts_once(paths: Paths) -> None:
    word(paths, json.dumps(["/opt/new/python", "-m", "xsessiond"]))
    assert name_successor(paths) == ["/opt/new/python", "-m", "xsessiond"]
    assert name_successor(paths)[0] == sys.executable


@pytest.mark.parametrize(
    "text",
    ["", "not json", "{}", "[]", "[1]", '["python"]', '["./python", "-m", "xsessiond"]', '"/bin/sh"', "[" * 9000],
)
def test_a_word_that_names_no_program_is_refused(paths: Paths, text: str) -> None:
    word(paths, text)
    with pytest.raises(NoSuccessor):
        name_successor(paths)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o644])
def test_a_word_that_others_could_have_written_or_read_is_refused(paths: Paths, mode: int) -> None:
    """13.1"""
    word(paths, json.dumps(["/bin/true"]), mode)
    with pytest.raises(NoSuccessor, match="not a file that only you can write"):
        name_successor(paths)


def test_a_word_behind_a_link_or_in_a_pipe_is_refused(paths: Paths, tmp_path: Path) -> None:
    elsewhere = tmp_path / "word"
    elsewhere.write_text(json.dumps(["/bin/true"]))
    elsewhere.chmod(0o600)
    Path(paths.successor_file).symlink_to(elsewhere)
    with pytest.raises(NoSuccessor, match="cannot be read"):
        name_successor(paths)
    Path(paths.successor_file).unlink()
    os.mkfifo(paths.successor_file, 0o600)
    with pytest.raises(NoSuccessor, match="not a file"):
        name_successor(paths)


@needs_root
def test_a_word_of_another_user_is_refused(paths: Paths) -> None:
    os.chown(word(paths, json.dumps(["/bin/true"])), STRANGER, STRANGER)
    with pytest.raises(NoSuccessor, match="not a file that only you can write"):
        name_successor(paths)


# -- whether it can ----------------------------------------------------------------------------------------------------


def answering(answer: str, status: int = 0) -> list[str]:
    """Return a command that answers so, whatever it is asked."""
    return [sys.executable, "-c", f"import sys; print({answer!r}); sys.exit({status})"]


async def test_a_successor_that_can_go_on_says_its_version(paths: Paths) -> None:
    assert await try_successor(answering(tell_check("0.2.0", paths)), {}, paths) == "0.2.0"


@pytest.mark.parametrize(
    "change, reason",
    [({"handover": 0}, "does not know how to take over"), ({"state_dir": "/elsewhere"}, "would use another store")],
)
async def test_a_successor_of_another_kind_is_refused(paths: Paths, change: dict[str, object], reason: str) -> None:
    answer = json.dumps({**json.loads(tell_check("0.0.9", paths)), **change})
    with pytest.raises(NoSuccessor, match=reason):
        await try_successor(answering(answer), {}, paths)


@pytest.mark.parametrize("answer", ["", "hello", "{}", "[]", '{"version": "1"}'])
async def test_a_program_that_is_no_broker_is_refused(paths: Paths, answer: str) -> None:
    with pytest.raises(NoSuccessor, match="answered something else"):
        await try_successor(answering(answer), {}, paths)


async def test_a_program_that_fails_is_refused_in_its_own_words(paths: Paths) -> None:
    broken = [sys.executable, "-c", "import sys; sys.exit('xsessiond: The store is newer.')"]
    with pytest.raises(NoSuccessor, match=r"cannot go on from here: The store is newer\.$"):
        await try_successor(broken, {}, paths)
    with pytest.raises(NoSuccessor, match="ended with status 3"):
        await try_successor(answering("", 3), {}, paths)
    with pytest.raises(NoSuccessor, match="cannot be started: No such file"):
        await try_successor([f"{paths.state_dir}/gone"], {}, paths)


async def test_a_program_that_does_not_answer_is_given_up(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "SUCCESSOR_WITHIN_S", 0.05)
    with pytest.raises(NoSuccessor, match="did not say within"):
        await try_successor([sys.executable, "-c", "import signal; signal.pause()"], {}, paths)


async def test_what_the_service_manager_said_at_the_start_is_said_to_the_successor(paths: Paths) -> None:
    environ = {"NOTIFY_SOCKET": "/n", "LISTEN_FDS": "1", "LISTEN_PID": "1", VARIABLE: "old", "HOME": "/h"}
    succession = Succession(["--verbose"], environ)
    told = f"import json, os, sys; print(json.dumps({{**json.loads({tell_check('2', paths)!r}), " \
           "'version': ' '.join([*sorted(os.environ), *sys.argv[1:]])}))"  # fmt: skip
    word(paths, json.dumps([sys.executable, "-c", told]))
    found = await succession.find(paths)
    assert found.problem is None
    assert (found.version or "").split()[-2:] == ["--verbose", "--check"]
    assert {"HOME", "NOTIFY_SOCKET"} <= set((found.version or "").split())
    assert not {VARIABLE, "LISTEN_FDS", "LISTEN_PID"} & set((found.version or "").split())
    assert succession.command is not None
    assert succession.command[-1] == "--verbose"
    word(paths, "nonsense")
    assert (await succession.find(paths)).problem is not None


def test_who_connects_while_nobody_accepts_waits_in_the_socket(paths: Paths) -> None:
    """15.4: what the whole design rests on."""
    lock = acquire_broker_lock(paths, "1")
    listener = bind_listener(paths.broker_socket, lock)
    fd = listener.detach()
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(paths.broker_socket)
        client.sendall(b"hello")
        again, _, _ = open_inheritance(Inheritance(0, 0, fd, ()))
        accepted, _ = again.accept()
        assert accepted.recv(10) == b"hello"
        accepted.close()
        again.close()
    lock.release()

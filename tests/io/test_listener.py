"""Binding under the lock, and taking over a passed socket."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.io.test_lock import made
from tests.support.users import STRANGER, needs_root
from xsessiond.io.listener import BadListener, ListeningSocket, PathInUse, adopt_listeners, bind_listener
from xsessiond.io.lock import BrokerLock, acquire_broker_lock
from xsessiond.paths import SocketPathTooLong, UnsafePath

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def lock(short_dir: Path) -> Iterator[BrokerLock]:
    lock = acquire_broker_lock(made(short_dir), "0")
    yield lock
    lock.release()


@pytest.fixture
def path(lock: BrokerLock) -> str:
    return lock.paths.broker_socket


def connects(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(path)
        except OSError:
            return False
        return True


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777], ids="{:03o}".format)
def test_it_is_private_from_the_first_moment(lock: BrokerLock, path: str, umask: int) -> None:
    """13.1: whatever the umask is, and without touching it."""
    before = os.umask(umask)
    try:
        with bind_listener(path, lock) as listener:
            assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
            assert os.umask(umask) == umask
            assert not listener.getblocking()
            assert not listener.get_inheritable()
            assert listener.intact()
            assert connects(path)
    finally:
        os.umask(before)


def test_a_socket_left_by_a_killed_broker_is_replaced(lock: BrokerLock, path: str) -> None:
    """P3: kill -9, restart: it binds."""
    program = (
        f"import os, socket; s = socket.socket(socket.AF_UNIX); s.bind({path!r}); s.listen(); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=30).returncode == -9
    assert stat.S_ISSOCK(os.lstat(path).st_mode)
    with bind_listener(path, lock):
        assert connects(path)


def test_a_listener_that_dies_while_it_is_asked_is_waited_for(lock: BrokerLock, path: str) -> None:
    """P2: a killed broker lets go of its lock and its socket one after the other."""
    dying = socket.socket(socket.AF_UNIX)
    dying.bind(path)
    dying.listen()

    def die() -> None:
        connection, _ = dying.accept()  # the question has come
        dying.close()
        connection.close()

    thread = threading.Thread(target=die)
    thread.start()
    with bind_listener(path, lock):
        thread.join(10)
        assert connects(path)


@pytest.mark.parametrize("manner", ["silent", "hangs up", "does not accept"])
def test_somebody_else_s_living_socket_is_left_alone(lock: BrokerLock, path: str, manner: str) -> None:
    """P1: a service manager that listens for us, or a program that knows nothing of our lock."""
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(path)
        living.listen(0 if manner == "does not accept" else 8)
        clients = []
        if manner == "does not accept":
            for _ in range(2):
                client = socket.socket(socket.AF_UNIX)
                client.setblocking(False)
                clients.append(client)
                client.connect_ex(path)

        def hang_up() -> None:
            for _ in range(2):
                living.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        if manner == "hangs up":
            thread.start()
        with pytest.raises(PathInUse, match=f"another program listens at {path}"):
            bind_listener(path, lock)
        if manner == "hangs up":
            thread.join(10)
        for client in clients:
            client.close()
        assert stat.S_ISSOCK(os.lstat(path).st_mode)


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_is_not_a_socket_is_left_alone(lock: BrokerLock, path: str, kind: str) -> None:
    {"file": Path.touch, "directory": Path.mkdir, "link": lambda p: p.symlink_to("broker.lock")}[kind](Path(path))
    with pytest.raises(UnsafePath, match=r"is not a socket of this user\. Look at what it is, and remove it\."):
        bind_listener(path, lock)
    assert os.path.lexists(path)


@needs_root
def test_another_user_s_socket_is_left_alone(lock: BrokerLock, path: str) -> None:
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(path)
        os.chown(path, STRANGER, STRANGER)
    with pytest.raises(UnsafePath):
        bind_listener(path, lock)


def test_a_long_path_is_refused_and_not_cut(lock: BrokerLock) -> None:
    """P8."""
    path = f"{lock.paths.session_dir}/{'f' * 120}.sock"
    with pytest.raises(SocketPathTooLong, match=rf"{path} has {len(path)} bytes, and this system allows \d+\."):
        bind_listener(path, lock)


def test_nothing_is_bound_without_the_lock(lock: BrokerLock, path: str) -> None:
    lock.release()
    with pytest.raises(AssertionError):
        bind_listener(path, lock)
    assert not os.path.lexists(path)


def test_it_knows_whether_it_is_still_in_place(lock: BrokerLock, path: str) -> None:
    """15.3: deleted, replaced, moved away and back."""
    with bind_listener(path, lock) as listener:
        os.rename(path, path + ".away")
        assert not listener.intact()
        os.rename(path + ".away", path)
        assert listener.intact()
        os.unlink(path)
        assert not listener.intact()
        with bind_listener(path, lock) as second:
            assert not listener.intact()
            listener.unlink()  # not its own any more
            assert second.intact()
            second.unlink()
            assert not os.path.lexists(path)


def test_accepted_sockets_are_plain_ones(lock: BrokerLock, path: str) -> None:
    """trio takes exactly the standard library's class."""
    with bind_listener(path, lock) as listener, socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        connection, _ = listener.accept()
        with connection:
            assert type(connection) is socket.socket
            assert not connection.get_inheritable()


# ------------------------------------------------------------------------------------------------- taken-over sockets

ADOPTER = """
import os, sys
from xsessiond.io.listener import BadListener, adopt_listeners
os.environ["LISTEN_PID"] = str(os.getpid())
try:
    found = adopt_listeners(os.environ, sys.argv[1])
except BadListener as error:
    print(error)
else:
    for name, listener in found.items():
        print(name, listener.fileno(), listener.getblocking(), listener.intact(), oct(os.stat(listener.path).st_mode))
"""


def adopt(passed: socket.socket, expected: str) -> str:
    """What a process says to which `passed` was passed by a service manager."""
    fd = os.dup2(passed.fileno(), 60)
    try:
        return subprocess.run(
            ["bash", "-c", f'exec 3<&{fd}; exec "$0" -c "$1" "$2"', sys.executable, ADOPTER, expected],
            env={**os.environ, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "broker"},
            cwd=ROOT,
            pass_fds=[fd],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout.strip()
    finally:
        os.close(fd)


def test_a_passed_socket_is_taken_over(short_dir: Path) -> None:
    """15.2: socket activation, also by a tool that makes it 0644."""
    path = str(short_dir / "broker.sock")
    with socket.socket(socket.AF_UNIX) as passed:
        passed.bind(path)
        passed.listen()
        os.chmod(path, 0o644)
        assert adopt(passed, path) == "broker 3 False True 0o140600"


def test_a_socket_at_another_place_is_refused(short_dir: Path) -> None:
    """Clients would never find it."""
    with socket.socket(socket.AF_UNIX) as passed:
        passed.bind(str(short_dir / "a"))
        passed.listen()
        assert adopt(passed, str(short_dir / "b")) == (
            f"The socket that was passed as 'broker' listens at {short_dir}/a, but clients look for {short_dir}/b. "
            "Make the unit's ListenStream the same, or unset XSESSIOND_RUNTIME_DIR."
        )


def test_sockets_of_the_wrong_kind_are_refused(short_dir: Path) -> None:
    path = str(short_dir / "s")
    with socket.socket(socket.AF_INET) as passed:
        assert adopt(passed, path) == "What was passed as 'broker' is not a Unix stream socket."
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as passed:
        assert adopt(passed, path) == "What was passed as 'broker' is not a Unix stream socket."
    with socket.socket(socket.AF_UNIX) as passed:
        passed.bind(path)
        assert adopt(passed, path) == "The socket that was passed as 'broker' does not listen."


@pytest.mark.parametrize("instead", ["nothing", "a dead broker's socket", "a file"])
def test_a_passed_socket_that_nobody_can_reach_any_more_is_let_go(short_dir: Path, instead: str) -> None:
    """15.3: its file was deleted, and perhaps a broker that was killed since had bound its own there."""
    path = short_dir / "s"
    with socket.socket(socket.AF_UNIX) as passed:
        passed.bind(str(path))
        passed.listen()
        path.unlink()
        if instead == "a file":
            path.touch()
        elif instead != "nothing":
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(path))
                dead.listen()
        assert adopt(passed, str(path)) == ""


def test_without_a_manager_there_is_nothing_to_take_over() -> None:
    assert adopt_listeners({}, "/x") == {}


def test_a_descriptor_that_is_no_socket_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr("xsessiond.io.listener.take_passed_sockets", lambda _: {"a": reading, "b": writing})
    with pytest.raises(BadListener, match="What was passed as 'a' is not a socket"):
        adopt_listeners({}, "/x")
    for fd in (reading, writing):  # both were closed
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_a_listening_socket_is_small() -> None:
    """There is one for each session."""
    with ListeningSocket(socket.AF_UNIX) as listener:
        assert not hasattr(listener, "__dict__")

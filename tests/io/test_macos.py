"""The macOS module's own code, on Linux: real processes, sockets and directories behind a made-up kqueue.

On macOS itself the other tests of this room run it, without anything made up.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.io.test_exits import Ends, sleeper
from tests.io.test_settings import HOLD, Heard, file, heard, managed, paths, place, repository
from tests.support import kqueue
from xsessiond.io.processes import ProcessId

__all__ = ["file", "heard", "managed", "paths", "place", "repository"]

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="the other tests run it there")

if sys.platform != "darwin":
    from xsessiond.io import _macos, exits, readiness, runtime_dir, settings


@pytest.fixture(autouse=True)
def _macos_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_macos, "select", kqueue)
    monkeypatch.setattr(os, "O_EVTONLY", os.O_RDONLY, raising=False)
    monkeypatch.setattr(readiness, "KernelSet", _macos.KernelSet)
    monkeypatch.setattr(exits, "ExitSource", _macos.ExitSource)
    monkeypatch.setattr(exits, "is_running", lambda process: identify(process.pid) == process)
    monkeypatch.setattr(runtime_dir, "PathWatch", _macos.PathWatch)
    monkeypatch.setattr(settings, "PathWatch", _macos.PathWatch)


def identify(pid: int) -> ProcessId | None:
    found = _macos.read_stat(pid)
    return None if found is None or found.dead else ProcessId(pid, found.start)


async def test_readiness(nursery: trio.Nursery) -> None:
    fds = readiness.FdSet()
    await nursery.start(fds.run)
    reading, writing = os.pipe()
    seen = trio.Event()

    def ready(fd: int) -> None:
        assert os.read(fd, 1) == b"x"
        seen.set()

    fds.add(reading, ready)
    os.write(writing, b"x")
    with trio.fail_after(10):
        await seen.wait()
    fds.remove(reading)
    nursery.cancel_scope.cancel()
    os.close(reading)
    os.close(writing)
    fds.close()


async def test_exits(nursery: trio.Nursery) -> None:
    """1.4, D2."""
    ends = Ends()
    fds = readiness.FdSet()
    watch = exits.ExitWatch(fds, ends)
    nursery.start_soon(fds.run)
    with sleeper() as (process, _), sleeper() as (other_process, _):
        found, other = identify(process.pid), identify(other_process.pid)
        assert found is not None
        assert other is not None
        assert not watch.watch(ProcessId(found.pid, found.start - 1))  # a pid that was used again
        assert watch.watch(found)
        assert watch.watch(found)
        assert watch.watch(other)
        watch.unwatch(other)
        assert watch.watch(other)
        process.kill()
        other_process.kill()
        await ends.wait_for(2)
        assert set(ends) == {found, other}
        assert not watch.watch(found)
    watch.close()
    nursery.cancel_scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    fds.close()


def test_directories(short_dir: Path) -> None:
    """15.3: what is to be told and what is not."""
    watch = _macos.PathWatch()

    def changed() -> bool:
        told = bool(watch._queue.control(None, 64, 0))
        watch.read()
        return told

    (short_dir / "above/d").mkdir(parents=True)
    watch.watch_losses(f"{short_dir}/above/d")
    watch.watch_itself(f"{short_dir}/above")
    watch.watch_itself(f"{short_dir}/missing")
    assert not changed()
    (short_dir / "above/d/s").touch()
    changed()
    (short_dir / "above/d/s").unlink()
    assert changed()
    (short_dir / "above/other").touch()  # of no interest
    assert not changed()
    (short_dir / "above").rename(short_dir / "moved")
    assert changed()
    watch.disarm()
    assert not changed()
    watch.watch_arrivals(str(short_dir))
    (short_dir / "above").mkdir()
    assert changed()
    watch.close()


def test_names_in_directories(short_dir: Path) -> None:
    """14.3: also what is written into a file, which its directory does not tell here."""
    watch = _macos.PathWatch()
    (short_dir / "file").write_text("")
    (short_dir / "link").symlink_to("file")
    watch.watch_names(str(short_dir), ["file", "link", "missing"])
    watch.watch_names(f"{short_dir}/no", ["file"])
    assert not watch.take()
    (short_dir / "file").write_text("x")
    assert watch.take()
    assert not watch.take()
    (short_dir / "missing").touch()
    assert watch.take()
    (short_dir / "file").chmod(0o600)
    assert watch.take()
    watch.close()


async def test_settings_follow_their_files(heard: Heard, file: Path, repository: Path) -> None:
    """14.3."""
    (repository / ".xsessiond.toml").write_text(HOLD)
    heard.source.watch_project("s-1", str(repository))
    await heard.wait_until(lambda: heard.policies("s-1") == [["hold"]])
    os.replace(repository / ".xsessiond.toml", file)
    await heard.hear("hold")
    await heard.wait_until(lambda: heard.policies("s-1")[-1] == [])
    os.truncate(file, 0)
    await heard.hear("unset")


async def test_a_lost_directory_is_made_again(short_dir: Path, nursery: trio.Nursery) -> None:
    """15.3."""
    place = str(short_dir / "d")
    os.mkdir(place)
    told = trio.Event()

    await nursery.start(
        runtime_dir.keep_in_place,
        lambda: [place],
        lambda: os.path.isdir(place),
        lambda: os.mkdir(place),
        lambda _: told.set(),
    )
    os.rmdir(place)
    with trio.fail_after(10):
        await told.wait()
    os.rmdir(place)
    nursery.cancel_scope.cancel()


class Connection:
    """A connected socket of macOS: two options of SOL_LOCAL."""

    def __init__(self, xucred: bytes, pid: int | None) -> None:
        self.xucred = xucred
        self.pid = pid

    def getsockopt(self, level: int, option: int, length: int = 0) -> bytes | int:
        assert level == 0
        if option == 1:
            assert length == len(self.xucred) == 76
            return self.xucred
        assert option == 2
        if self.pid is None:
            raise OSError(57, "Socket is not connected")
        return self.pid


def xucred(version: int, uid: int, *groups: int) -> bytes:
    return struct.pack("=IIh2x16I", version, uid, len(groups), *groups, *[0] * (16 - len(groups)))


def test_peers() -> None:
    """13.1: the layout is that of <sys/ucred.h>."""
    ours = Connection(xucred(0, 501, 20, 12), os.getpid())
    assert _macos.peer_credentials(ours) == (os.getpid(), 501, 20)  # type: ignore[arg-type]
    assert _macos.peer_process(ours) == identify(os.getpid())  # type: ignore[arg-type]
    gone = Connection(xucred(0, 501), None)
    assert _macos.peer_credentials(gone) == (None, 501, -1)  # type: ignore[arg-type]
    assert _macos.peer_process(gone) is None  # type: ignore[arg-type]
    with pytest.raises(OSError, match="version 1"):
        _macos.peer_credentials(Connection(xucred(1, 501), 1))  # type: ignore[arg-type]


def test_processes() -> None:
    """D2: through psutil."""
    found = _macos.read_stat(os.getpid())
    assert found is not None
    assert (found.parent, found.dead) == (os.getppid(), False)
    assert found.start == _macos.read_stat(os.getpid()).start > 0  # type: ignore[union-attr]
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    zombie = _macos.read_stat(ended.pid)
    assert zombie is None or zombie.dead
    ended.wait()
    assert _macos.read_stat(ended.pid) is None
    assert _macos.read_environ(ended.pid, frozenset({"PATH"})) is None
    assert _macos.read_environ(os.getpid(), frozenset({"PATH", "NOT_SET"})) == {"PATH"}
    assert _macos.is_ours(os.getpid())
    assert not _macos.is_ours(ended.pid)
    assert found.session == os.getsid(0)


def test_where_the_system_has_no_boot_id() -> None:
    assert _macos.read_boot_id() is None  # Linux has no sysctlbyname


def test_the_socket_s_mode_comes_from_the_umask(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """13.1: macOS takes no mode from the socket, so the umask is changed for the moment, and set back."""
    from xsessiond.io import listener

    monkeypatch.setattr(listener.sys, "platform", "darwin")
    before = os.umask(0)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            listener._bind_private(made, str(short_dir / "s"))
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    assert os.stat(short_dir / "s").st_mode & 0o777 == 0o600

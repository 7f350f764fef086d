"""The runtime dir is kept where it belongs, on a real file system with the kernel's reports."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from tests.io.test_lock import holder, made, place
from tests.support.users import STRANGER, needs_root
from xsessiond import paths as rule
from xsessiond.io import runtime_dir
from xsessiond.io.listener import ListeningSocket, bind_listener
from xsessiond.io.lock import BrokerLock, acquire_broker_lock
from xsessiond.io.runtime_dir import keep_in_place, make_directories, recover_runtime_dir
from xsessiond.paths import Paths, UnsafePath, recorded_runtime_dir, resolve_paths


def answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(path)
        except OSError:
            return False
        return True


class Broker:
    """As much of a broker as has sockets: the rendezvous and one session's."""

    def __init__(self, lock: BrokerLock) -> None:
        self.lock = lock
        self.rendezvous = bind_listener(lock.paths.broker_socket, lock)
        self.private = bind_listener(lock.paths.session_socket("abcdef"), lock)
        self.reports: list[str] = []
        self.news = trio.Event()
        self.remade = 0

    def directories(self) -> list[str]:
        return [self.lock.paths.runtime_dir, self.lock.paths.session_dir]

    def intact(self) -> bool:
        return self.rendezvous.intact() and self.private.intact()

    def remake(self) -> None:
        recover_runtime_dir(self.lock)
        self.rendezvous = self.bound(self.rendezvous, self.lock.paths.broker_socket)
        self.private = self.bound(self.private, self.lock.paths.session_socket("abcdef"))
        self.remade += 1

    def bound(self, listener: ListeningSocket, path: str) -> ListeningSocket:
        if listener.intact() and listener.path == path:
            return listener
        fresh = bind_listener(path, self.lock)
        listener.close()
        return fresh

    def report(self, text: str) -> None:
        self.reports.append(text)
        self.news.set()

    async def reported(self, text: str) -> None:
        with trio.fail_after(20):
            while not any(text in report for report in self.reports):
                self.news = trio.Event()
                await self.news.wait()

    async def in_place(self) -> None:
        """Return once a loss has been mended."""
        await self.reported("has been made again")
        assert self.intact()
        assert answers(self.lock.paths.broker_socket)
        assert answers(self.lock.paths.session_socket("abcdef"))

    def close(self) -> None:
        self.rendezvous.close()
        self.private.close()
        self.lock.release()


@pytest.fixture
def paths(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setenv("XSESSIOND_RUNTIME_DIR", str(short_dir / "r"))
    monkeypatch.setenv("XSESSIOND_STATE_DIR", str(short_dir / "s"))
    return resolve_paths()


@pytest.fixture
def kept(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr(runtime_dir, "REMAKE_RETRY_S", 0.02)
    make_directories(paths)
    broker = Broker(acquire_broker_lock(paths, "0"))
    yield broker
    broker.close()


async def keep(broker: Broker, nursery: trio.Nursery) -> None:
    await nursery.start(keep_in_place, broker.directories, broker.intact, broker.remake, broker.report)


def delete_socket(paths: Paths) -> None:
    os.unlink(paths.broker_socket)


def delete_private_socket(paths: Paths) -> None:
    os.unlink(paths.session_socket("abcdef"))


def replace_socket(paths: Paths) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(paths.broker_socket + ".other")
    os.rename(paths.broker_socket + ".other", paths.broker_socket)


def move_socket(paths: Paths) -> None:
    os.rename(paths.broker_socket, paths.state_dir + "/away")


def delete_session_dir(paths: Paths) -> None:
    shutil.rmtree(paths.session_dir)


def delete_runtime_dir(paths: Paths) -> None:
    shutil.rmtree(paths.runtime_dir)


def move_runtime_dir(paths: Paths) -> None:
    os.rename(paths.runtime_dir, paths.runtime_dir + ".away")


LOSSES = [
    delete_socket,
    delete_private_socket,
    replace_socket,
    move_socket,
    delete_session_dir,
    delete_runtime_dir,
    move_runtime_dir,
]


@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__)
async def test_what_was_lost_is_made_again(kept: Broker, nursery: trio.Nursery, lose: Callable[[Paths], None]) -> None:
    """15.3, P5: twice, because the second time another directory is to be watched."""
    await keep(kept, nursery)
    for _ in range(2):
        kept.reports.clear()
        lose(kept.lock.paths)
        shutil.rmtree(f"{kept.lock.paths.runtime_dir}.away", ignore_errors=True)
        await kept.in_place()
    assert (os.stat(kept.lock.paths.broker_socket).st_mode & 0o777) == 0o600
    nursery.cancel_scope.cancel()


async def test_a_directory_above_that_moves_is_noticed(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """15.3: nothing happens in the directory itself then."""
    monkeypatch.setenv("XSESSIOND_RUNTIME_DIR", str(short_dir / "above/r"))
    monkeypatch.setenv("XSESSIOND_STATE_DIR", str(short_dir / "s"))
    paths = resolve_paths()
    make_directories(paths)
    broker = Broker(acquire_broker_lock(paths, "0"))
    await keep(broker, nursery)
    os.rename(short_dir / "above", short_dir / "moved")
    await broker.in_place()
    nursery.cancel_scope.cancel()
    broker.close()


async def test_sockets_that_we_take_away_ourselves_are_no_loss(kept: Broker, nursery: trio.Nursery) -> None:
    await keep(kept, nursery)
    second = bind_listener(kept.lock.paths.session_socket("123456"), kept.lock)
    second.unlink()
    second.close()
    delete_socket(kept.lock.paths)  # the report of this loss comes after that of the other
    await kept.in_place()
    assert kept.remade == 1
    nursery.cancel_scope.cancel()


async def test_a_place_that_cannot_be_made_is_tried_again(kept: Broker, nursery: trio.Nursery) -> None:
    """P5: told once, and mended as soon as it can be."""
    await keep(kept, nursery)
    place = kept.lock.paths.runtime_dir
    shutil.rmtree(place)
    os.close(os.open(place, os.O_CREAT))  # before anybody could make it again: no other task has run
    await kept.reported("cannot be made again yet: ")
    assert kept.reports[0].endswith(f"{place} is not used: it is not a directory. Remove it, or choose another place.")
    os.unlink(place)
    await kept.in_place()
    assert len(kept.reports) == 2
    nursery.cancel_scope.cancel()


@needs_root
async def test_what_others_put_in_its_place_is_not_used(kept: Broker, nursery: trio.Nursery) -> None:
    """S17."""
    await keep(kept, nursery)
    place = kept.lock.paths.runtime_dir
    shutil.rmtree(place)
    os.mkdir(place)
    os.chown(place, STRANGER, STRANGER)
    await kept.reported(f"it belongs to uid {STRANGER}")
    assert os.listdir(place) == []
    os.rmdir(place)
    await kept.in_place()
    nursery.cancel_scope.cancel()


async def test_a_broker_of_another_store_that_took_the_place_is_yielded_to(
    kept: Broker, nursery: trio.Nursery, short_dir: Path
) -> None:
    """P1: until it is gone."""
    await keep(kept, nursery)
    shutil.rmtree(kept.lock.paths.runtime_dir)
    with holder(made(short_dir, state="other")) as other:  # it starts before another task of ours runs
        await kept.reported(f"already running (pid {other.pid})")
    await kept.in_place()
    nursery.cancel_scope.cancel()


async def test_what_was_lost_before_the_start_is_seen_at_the_start(kept: Broker, nursery: trio.Nursery) -> None:
    delete_runtime_dir(kept.lock.paths)
    await keep(kept, nursery)
    assert kept.remade == 1
    nursery.cancel_scope.cancel()


async def test_a_remake_that_does_not_help_is_not_repeated_without_pause(
    kept: Broker, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """15.6."""
    tries = 0

    def remake() -> None:
        nonlocal tries
        tries += 1

    monkeypatch.setattr(runtime_dir, "REMAKE_RETRY_S", 0.5)
    nursery.start_soon(keep_in_place, kept.directories, lambda: False, remake, kept.report)
    await trio.sleep(300)
    assert 5 < tries < 30
    assert kept.reports == ["The runtime directory was lost and cannot be made again yet: it was lost again at once."]
    nursery.cancel_scope.cancel()


async def test_nothing_is_looked_at_while_nothing_happens(kept: Broker, nursery: trio.Nursery) -> None:
    """15.6: no timer while all is in place."""
    await keep(kept, nursery)
    await trio.testing.wait_all_tasks_blocked()
    assert trio.lowlevel.current_statistics().seconds_to_next_deadline > 10
    nursery.cancel_scope.cancel()


def test_directories_are_made_private(short_dir: Path) -> None:
    """13.1."""
    paths = place(short_dir, "deep/r", "deep/s")
    make_directories(paths)
    for path in (paths.runtime_dir, paths.session_dir, paths.state_dir):
        assert os.stat(path).st_mode & 0o777 == 0o700
    os.chmod(paths.state_dir, 0o777)
    with pytest.raises(UnsafePath):
        make_directories(paths)


async def test_a_login_that_ends_moves_the_rendezvous(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """P5: /run/user/UID is gone after the last logout; the broker is found at the new place, and after the next login
    by the word that it left, because the rule names /run/user/UID again."""
    home, login = short_dir / "home", short_dir / "run" / str(os.geteuid())
    home.mkdir()
    login.mkdir(parents=True, mode=0o700)
    for name in ("XSESSIOND_RUNTIME_DIR", "XSESSIOND_STATE_DIR", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(rule, "RUN_USER", str(short_dir / "run"))
    monkeypatch.setattr(runtime_dir, "resolve_paths", lambda: resolve_paths(platform="linux"))
    paths = resolve_paths(platform="linux")
    assert paths.runtime_dir == f"{login}/xsessiond"
    make_directories(paths)
    broker = Broker(acquire_broker_lock(paths, "0"))
    await keep(broker, nursery)
    shutil.rmtree(login)
    await broker.in_place()
    assert broker.lock.paths.runtime_dir == f"{home}/.local/state/xsessiond/run"
    login.mkdir(mode=0o700)
    again = resolve_paths(platform="linux")
    assert again.runtime_dir == f"{login}/xsessiond"
    assert recorded_runtime_dir(again) == broker.lock.paths.runtime_dir
    nursery.cancel_scope.cancel()
    broker.close()


def test_a_broker_whose_home_is_gone_takes_nobody_elses_place(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: the rule then names the place of another store, whose broker must be able to start there."""
    home, other = short_dir / "home", short_dir / "other"
    for path in (home, other):
        path.mkdir(mode=0o700)
    for name in ("XSESSIOND_RUNTIME_DIR", "XSESSIOND_STATE_DIR", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(rule, "RUN_USER", str(short_dir / "nowhere"))
    monkeypatch.setattr(runtime_dir, "resolve_paths", lambda: resolve_paths(platform="linux"))
    monkeypatch.setattr(rule, "_home_of", lambda uid: str(other))
    paths = resolve_paths(platform="linux")
    make_directories(paths)
    broker = Broker(acquire_broker_lock(paths, "0"))
    shutil.rmtree(home)
    assert resolve_paths(platform="linux").runtime_dir.startswith(str(other))
    broker.remake()
    assert broker.lock.paths.runtime_dir == f"{home}/.local/state/xsessiond/run"
    assert list(other.iterdir()) == []
    broker.close()

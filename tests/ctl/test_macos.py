"""The clients' own code for macOS, on Linux: kqueue and what sockets tell are made up, processes and pipes are real.

On macOS itself the other tests of the clients run it, without anything made up.
"""

from __future__ import annotations

import importlib.util
import os
import select
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import kqueue
from xsessionctl import sockets
from xsessionctl.service.launchd import Launchd
from xsessionctl.service.manager import find_manager
from xsessionctl.service.systemd import Systemd
from xsessionctl.shim import loop, watch
from xsessiond.paths import resolve_paths

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="made up for Linux")


@pytest.fixture
def mac_watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """`xsessionctl.shim.watch` as macOS would import it."""
    assert watch.__file__ is not None
    spec = importlib.util.spec_from_file_location("mac_watch", watch.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "platform", "darwin")
        spec.loader.exec_module(module)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "select", kqueue)
        yield module


def test_the_end_of_a_harness_is_reported_by_kqueue(mac_watch: ModuleType) -> None:
    """D1, P11: readable when it ends, and not before; the queue is kept open."""
    harness = subprocess.Popen(["sleep", "60"])
    try:
        watched = mac_watch.Watch([harness.pid], os.getppid())
        assert (watched.gone, watched.look_every) == (False, None)
        (descriptor,) = watched.descriptors
        assert select.select([descriptor], [], [], 0)[0] == []
        assert not watched.look(set())
        harness.kill()
        assert select.select([descriptor], [], [], 20)[0] == [descriptor]
        assert watched.look({descriptor})
    finally:
        harness.kill()
        harness.wait()
    assert mac_watch.Watch([harness.pid], os.getppid()).gone


def test_what_select_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its poll() knows no kqueue, so it is asked by select(); an output without a reader is not looked for."""
    monkeypatch.setattr(loop.sys, "platform", "darwin")
    reading, writing = os.pipe()
    assert loop.poll([reading], [writing], [writing], 0) == (set(), {writing}, set())
    os.write(writing, b"x")
    assert loop.poll([reading], [], [], None) == ({reading}, set(), set())
    os.read(reading, 1)
    os.close(writing)
    assert loop.poll([reading], [], [], None) == ({reading}, set(), set())  # its end
    os.close(reading)


class Connection:
    """A connected socket of macOS: two options of SOL_LOCAL."""

    def getsockopt(self, level: int, option: int, length: int) -> bytes:
        """See `tests/io/test_macos.py` for the layout."""
        assert level == 0
        answers = {1: struct.pack("=IIh2x16I", 0, 501, 1, 20, *[0] * 15), 2: struct.pack("=i", 4711)}
        return answers[option][:length]


def test_who_is_at_the_other_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """13.1: LOCAL_PEERCRED and LOCAL_PEERPID, by the C module alone."""
    monkeypatch.setattr(sockets.sys, "platform", "darwin")
    assert sockets.peer_uid(Connection()) == 501  # type: ignore[arg-type]
    assert sockets.peer_pid(Connection()) == 4711  # type: ignore[arg-type]
    monkeypatch.setattr(sockets.sys, "platform", "sunos5")
    assert sockets.peer_uid(Connection()) is None  # type: ignore[arg-type]


def test_each_system_has_its_service_manager(tmp_path: Path) -> None:
    paths = resolve_paths({"HOME": str(tmp_path)})
    assert isinstance(find_manager(paths, "linux"), Systemd)
    assert isinstance(find_manager(paths, "darwin"), Launchd)

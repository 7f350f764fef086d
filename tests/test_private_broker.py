"""The tests' own ground: a private broker's place isolates, and nothing that was started in it outlives it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil

from tests.support.private_broker import PrivateBroker, has_ended, private_broker, remove_directory

DETACHES_A_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; print(flush=True); signal.pause()"],
                         stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid)
"""


def test_a_process_that_detached_itself_is_ended_with_its_place() -> None:
    with private_broker() as place:
        parent = place.spawn(sys.executable, "-c", DETACHES_A_CHILD)
        assert parent.stdout is not None
        orphan = psutil.Process(int(parent.stdout.readline()))
        assert orphan in place.processes()
    assert has_ended(orphan)
    assert not place.root.exists()


def test_what_runs_outside_of_a_place_is_not_its_own(broker: PrivateBroker) -> None:
    assert os.getpid() not in {process.pid for process in broker.processes()}


def test_two_places_do_not_see_each_other(broker: PrivateBroker) -> None:
    with private_broker() as other:
        waits = broker.spawn(sys.executable, "-c", "input()")
        assert waits.pid in {process.pid for process in broker.processes()}
        assert waits.pid not in {process.pid for process in other.processes()}


def test_the_environment_of_a_place_says_nothing_of_its_surroundings(broker: PrivateBroker) -> None:
    environ = broker.environ(XSESSIOND_NAME="web")
    assert environ["XSESSIOND_NAME"] == "web"
    assert {environ[name] for name in environ if name.endswith("_DIR")} == {
        str(broker.runtime_dir),
        str(broker.state_dir),
        str(broker.config_dir),
    }
    assert not [name for name in environ if name.startswith(("XDG_", "CLAUDE", "CODEX_"))]


def test_a_socket_path_in_a_place_keeps_far_below_the_limit_of_every_platform(broker: PrivateBroker) -> None:
    assert len(os.fsencode(broker.runtime_dir / "s" / "0123456789abcdef.sock")) < 80


def test_this_process_itself_is_pointed_away_from_the_users_broker() -> None:
    runtime_dir = Path(os.environ["XSESSIOND_RUNTIME_DIR"])
    assert runtime_dir.is_dir()
    assert not list(runtime_dir.iterdir())


def test_a_folder_that_nobody_may_enter_is_removed_and_what_a_link_leads_to_is_not(tmp_path: Path) -> None:
    kept, root = tmp_path / "kept", tmp_path / "root"
    kept.mkdir(mode=0o500)
    (root / "locked" / "deeper").mkdir(parents=True)
    (root / "link").symlink_to(kept)
    (root / "locked").chmod(0)
    remove_directory(root)
    assert not root.exists()
    assert kept.stat().st_mode & 0o777 == 0o500

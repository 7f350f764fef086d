"""The LaunchAgent, on Linux: our side of launchd for real, launchctl's by a stand-in that runs what the agent says."""

from __future__ import annotations

import json
import os
import plistlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.launchctl import stand_in
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member, await_status, poll, read_status
from xsessionctl.client import ClientError, deadline_in
from xsessionctl.service import manager as managers
from xsessionctl.service.launchd import Launchd
from xsessionctl.service.manager import install, start_installed, uninstall
from xsessiond.paths import resolve_paths

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="where launchctl is the real one, nothing is made up")

DOMAIN = f"gui/{os.geteuid()}"
TARGET = f"{DOMAIN}/local.xsessiond"


class Mac:
    """A login with a launchd, and what was asked of it."""

    def __init__(self, broker: PrivateBroker, *, logged_in: bool = True) -> None:
        self.broker = broker
        self._calls = stand_in(broker.root / "bin", logged_in=logged_in)
        environ = broker.environ()
        environ["PATH"] = f"{broker.root}/bin:{environ['PATH']}"
        self.environ = environ
        self.plist = broker.home / "Library/LaunchAgents/local.xsessiond.plist"

    @property
    def manager(self) -> Launchd:
        """As a command of its own would make it."""
        return Launchd(resolve_paths(self.environ), self.environ)

    def calls(self) -> list[str]:
        """What was asked since the last time, without what only looks."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        self._calls.unlink(missing_ok=True)
        return [" ".join(words) for line in lines if (words := json.loads(line))[0] != "print"]


@pytest.fixture
def mac(broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mac]:
    made = Mac(broker)
    monkeypatch.setattr(managers, "find_manager", lambda _: made.manager)
    monkeypatch.setenv("PATH", made.environ["PATH"])
    yield made
    uninstall(made.manager, 20, dry_run=False)


def test_install_generates_loads_and_asks(mac: Mac) -> None:
    """15.2, I3: and once more changes nothing."""
    done = install(mac.manager, 30, dry_run=False, hardened=None)
    assert done["files"] == [{"path": str(mac.plist), "change": "made"}]
    assert mac.calls() == [f"enable {TARGET}", f"bootstrap {DOMAIN} {mac.plist}"]
    assert done["started"]
    broker = read_status(mac.broker.rendezvous)["broker"]
    assert (broker["service"], broker["pid"]) == ("launchd", done["broker"]["pid"])  # type: ignore[index]
    agent = plistlib.loads(mac.plist.read_bytes())
    assert agent["EnvironmentVariables"] == {
        name: value for name, value in mac.broker.directories().items() if name.startswith("XSESSIOND_")
    }
    again = install(mac.manager, 30, dry_run=False, hardened=None)
    assert [file["change"] for file in again["files"]] == ["unchanged"]  # type: ignore[attr-defined]
    assert mac.calls() == [f"kickstart {TARGET}"]
    assert read_status(mac.broker.rendezvous)["broker"]["pid"] == broker["pid"]
    status = mac.manager.survey()
    assert (status["installed"], status["enabled"]) == (True, True)
    assert status["service"] == {
        "state": "active", "detail": "running", "result": "(never exited)", "pid": broker["pid"], "restarts": 0,
    }  # fmt: skip


def test_a_broker_of_another_version_is_mentioned(mac: Mac, monkeypatch: pytest.MonkeyPatch) -> None:
    """P9: after an upgrade the files are as they were, and the old program runs on."""
    install(mac.manager, 30, dry_run=False, hardened=None)
    monkeypatch.setattr(managers, "__version__", "99.0")
    (note,) = [note for note in install(mac.manager, 30, dry_run=False, hardened=None)["notes"] if "version" in note]  # type: ignore[attr-defined]
    assert "this is 99.0" in note
    assert "`xsessionctl restart`" in note


def test_what_changed_is_loaded_anew(mac: Mac) -> None:
    install(mac.manager, 30, dry_run=False, hardened=None)
    agent = plistlib.loads(mac.plist.read_bytes())
    mac.plist.write_bytes(plistlib.dumps({**agent, "ThrottleInterval": 60}))
    mac.calls()
    done = install(mac.manager, 30, dry_run=False, hardened=None)
    assert [file["change"] for file in done["files"]] == ["replaced"]  # type: ignore[attr-defined]
    assert mac.calls() == [f"bootout {TARGET}", f"enable {TARGET}", f"bootstrap {DOMAIN} {mac.plist}"]
    assert plistlib.loads(mac.plist.read_bytes()) == agent


def test_it_takes_over_from_a_broker_that_a_client_started(mac: Mac) -> None:
    """15.4: with its sessions and their mail."""
    mac.broker.ctl("start")
    with Member(mac.broker.rendezvous, "web") as web, Member(mac.broker.rendezvous, "api") as api:
        sent = web.send("api", "before")
        done = install(mac.manager, 30, dry_run=False, hardened=None)
        assert done["broker"]["service"] == "launchd"  # type: ignore[index]
        api.rejoin()
        assert [message["id"] for message in api.take()] == [sent["id"]]


def test_after_a_stop_start_has_launchd_start_it(mac: Mac) -> None:
    """A proper end is none that launchd mends; then nobody listens, and `start` goes to the manager first."""
    install(mac.manager, 30, dry_run=False, hardened=None)
    assert mac.broker.ctl("stop").returncode == 0
    poll(lambda: mac.manager.survey()["service"]["pid"], lambda pid: pid is None)  # type: ignore[index]
    mac.calls()
    assert start_installed(mac.manager.paths, deadline_in(20))
    assert mac.calls() == [f"kickstart {TARGET}"]
    poll(lambda: mac.broker.rendezvous.exists(), bool)
    assert await_status(mac.broker.rendezvous, sessions=0)["broker"]["service"] == "launchd"


def test_start_leaves_alone_what_is_not_installed_or_for_another_broker(mac: Mac) -> None:
    paths = mac.manager.paths
    assert not start_installed(paths, deadline_in(20))
    install(mac.manager, 30, dry_run=False, hardened=None)
    mac.calls()
    mac.environ["XSESSIOND_STATE_DIR"] = str(mac.broker.root / "other")
    assert not start_installed(mac.manager.paths, deadline_in(20))
    assert mac.calls() == []
    mac.environ["XSESSIOND_STATE_DIR"] = str(mac.broker.state_dir)


def test_uninstall_ends_it_and_leaves_nothing(mac: Mac) -> None:
    """I3."""
    install(mac.manager, 30, dry_run=False, hardened=None)
    pid = read_status(mac.broker.rendezvous)["broker"]["pid"]
    mac.calls()
    done = uninstall(mac.manager, 30, dry_run=False)
    assert done["files"] == [{"path": str(mac.plist), "change": "removed"}]
    assert mac.calls() == [f"bootout {TARGET}"]
    assert not mac.plist.exists()
    assert pid not in [process.pid for process in mac.broker.processes()]
    assert uninstall(mac.manager, 30, dry_run=False)["files"] == []
    assert mac.calls() == []


def test_another_agent_of_that_name_is_left_alone(mac: Mac) -> None:
    mac.plist.parent.mkdir(parents=True)
    mac.plist.write_bytes(plistlib.dumps({"Label": "local.xsessiond", "ProgramArguments": ["/bin/true"]}))
    with pytest.raises(ClientError, match="was not made by"):
        install(mac.manager, 30, dry_run=False, hardened=None)
    assert mac.calls() == []
    for text in ("no property list at all", '<?xml version="1.0"?><plist', ""):
        mac.plist.write_text(text)
        with pytest.raises(ClientError, match="was not made by"):
            install(mac.manager, 30, dry_run=False, hardened=None)


def test_a_dry_run_and_what_launchd_does_not_have(mac: Mac) -> None:
    shown = install(mac.manager, 30, dry_run=True, hardened=None)
    (file,) = shown["files"]  # type: ignore[misc]
    assert "<key>KeepAlive</key>" in file["text"]  # type: ignore[has-type]
    assert not mac.plist.exists()
    assert mac.calls() == []
    with pytest.raises(ClientError, match="no stricter sandbox"):
        install(mac.manager, 30, dry_run=True, hardened=True)


def test_without_a_graphical_login_it_waits_for_one(broker: PrivateBroker) -> None:
    """As over ssh: the file is in its place, and nothing is started now."""
    mac = Mac(broker, logged_in=False)
    done = install(mac.manager, 30, dry_run=False, hardened=None)
    assert (done["started"], done["commands"]) == (False, [])
    assert "no graphical login" in str(done["why_not"])
    assert mac.plist.exists()
    assert mac.calls() == []
    assert mac.manager.survey()["service"] is None
    assert uninstall(mac.manager, 30, dry_run=False)["files"] == [{"path": str(mac.plist), "change": "removed"}]


def test_without_launchctl_there_is_no_service(broker: PrivateBroker) -> None:
    manager = Launchd(resolve_paths(broker.environ()), {**broker.environ(), "PATH": str(broker.root)})
    with pytest.raises(ClientError, match="launchctl cannot be run") as refused:
        manager.unreachable()
    assert refused.value.exit_code == 3


def test_the_log_is_the_file(mac: Mac) -> None:
    assert mac.manager.log_command(10, follow=True) is None


def test_a_file_name_of_the_template_is_the_label(tmp_path: Path) -> None:
    """launchd and people look for it by its label."""
    names = [path.name for path in (Path(__file__).parents[2] / "launchd").iterdir()]
    assert names == ["local.xsessiond.plist"]

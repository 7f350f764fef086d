"""Brokers and clients of different versions: real installations, each with its own interpreter and packages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shim.process import ShimProcess, finish_all, texts
from tests.support.broker_files import find_bugs
from tests.support.installations import of_commit, patched
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member, poll, read_status
from xsessiond import __version__

pytestmark = pytest.mark.slow

OLD, NEW = "0.0.9", "9.0.0"


@pytest.fixture(autouse=True)
def _no_shim_stays(broker: PrivateBroker) -> Iterator[None]:
    yield
    finish_all()


def versions(text: str) -> dict[str, str]:
    document = json.loads(text)
    return {"before": document["before"]["version"], "after": document["broker"]["version"]}


def test_an_older_broker_hands_over_to_the_one_that_was_installed_since(broker: PrivateBroker, tmp_path: Path) -> None:
    """P9, 15.4: in another place of the disk, as package managers do; the mail of before and the sessions are there."""
    process = broker.start(python=patched(tmp_path, version=OLD))
    with Member(broker.rendezvous, "web") as web, Member(broker.rendezvous, "api") as api:
        sent = web.send("api", "before the upgrade")
        status = json.loads(broker.ctl("status", "--json").stdout)
        assert (status["broker"]["version"], status["sessions"], status["queued"]) == (OLD, 2, 1)
        assert OLD in broker.ctl("--version").stdout
        done = broker.ctl("restart", "--json", within_s=60)
        assert (done.returncode, versions(done.stdout)) == (0, {"before": OLD, "after": __version__})
        assert read_status(broker.rendezvous)["broker"]["pid"] == process.pid
        web.rejoin()
        api.rejoin()
        assert [message["id"] for message in api.take()] == [sent["id"]]
    shown = broker.ctl("restart", within_s=60).stdout
    assert shown == f"Restarted xsessiond {__version__} (pid {process.pid}).\n"
    assert find_bugs(broker) == []


@pytest.mark.parametrize("verb", ["status", "stop"])
@pytest.mark.parametrize("which", ["older", "newer"])
def test_status_and_stop_work_with_every_broker(broker: PrivateBroker, tmp_path: Path, which: str, verb: str) -> None:
    """P9, 15.4: of another protocol too, which nothing else would."""
    version, protocol = (OLD, 0) if which == "older" else (NEW, 2)
    process = broker.start(python=patched(tmp_path, version=version, protocol=protocol))
    done = broker.ctl(verb, "--json")
    assert done.returncode == 0, done.stdout
    document = json.loads(done.stdout)
    assert (document["broker"] if verb == "status" else document)["version"] == version
    if verb == "stop":
        assert process.wait(20) == 0


@pytest.mark.parametrize("verb", ["list", "send api hello", "hold-queue", "log"])
@pytest.mark.parametrize(
    "version, protocol, what_to_do", [(OLD, 0, "`xsessionctl restart`"), (NEW, 2, "Upgrade this xsessionctl")]
)
def test_what_needs_a_common_protocol_says_what_to_do(
    broker: PrivateBroker, tmp_path: Path, version: str, protocol: int, what_to_do: str, verb: str
) -> None:
    """P9: never an error of the protocol's own, and never silence."""
    broker.start(python=patched(tmp_path, version=version, protocol=protocol))
    done = broker.ctl(*verb.split())
    assert (done.returncode, done.stdout) == (9, "")
    assert f"The broker {version} speaks protocol {protocol}, this client protocol 1." in done.stderr
    assert what_to_do in done.stderr


def test_a_broker_of_an_older_protocol_is_replaced_all_the_same(broker: PrivateBroker, tmp_path: Path) -> None:
    """P9, 15.4: a restart needs no common protocol."""
    process = broker.start(python=patched(tmp_path, version=OLD, protocol=0))
    done = broker.ctl("restart", "--json", within_s=60)
    assert (done.returncode, versions(done.stdout)) == (0, {"before": OLD, "after": __version__})
    assert json.loads(done.stdout)["how"] == "handed over"
    assert broker.ctl("list").returncode == 0
    assert process.poll() is None


def test_a_broker_that_cannot_hand_over_is_stopped_and_started(broker: PrivateBroker, tmp_path: Path) -> None:
    """P9: as those before this could not; nothing is lost, and sessions come back by themselves."""
    process = broker.start(python=patched(tmp_path, version=OLD, without=("restart",)))
    web = ShimProcess(broker, XSESSIOND_NAME="web")
    web.initialize()
    web.call("list_agents")
    with Member(broker.rendezvous, "api") as api:
        sent = api.send("web", "before the upgrade")
    done = broker.ctl("restart", within_s=60)
    assert done.returncode == 0
    assert done.stdout.startswith(
        f"xsessiond {OLD} could not hand over, so it was stopped. Started xsessiond {__version__}"
    )
    assert process.wait(20) == 0
    poll(lambda: read_status(broker.rendezvous)["queued"], lambda queued: queued == 1)
    assert sent["id"] in " ".join(texts(web.call("read_messages")))


def test_an_older_installation_does_not_take_over_a_newer_store(broker: PrivateBroker, tmp_path: Path) -> None:
    """P9, 15.4: a downgrade is refused by the running broker, which goes on, and then by the store."""
    process = broker.start(python=patched(tmp_path, version=NEW, newer_store=True))
    with Member(broker.rendezvous, "web") as web:
        done = broker.ctl("restart", within_s=60)
        assert (done.returncode, done.stdout) == (5, "")
        assert "The broker goes on as it was: " in done.stderr
        assert "was written by a newer xsessiond" in done.stderr
        assert web.call("whoami")["name"] == "web"
        assert read_status(broker.rendezvous)["broker"]["version"] == NEW
    assert broker.ctl("stop").returncode == 0
    assert process.wait(20) == 0
    refused = broker.ctl("list")
    assert refused.returncode == 9
    assert "install the newer version again" in refused.stderr


def test_an_older_client_has_its_status_and_stop_from_a_newer_broker(broker: PrivateBroker, tmp_path: Path) -> None:
    """P9: the reverse: what was not upgraded, such as a script's own environment."""
    old = patched(tmp_path, version=OLD, protocol=0)
    process = broker.start()
    assert json.loads(broker.ctl("status", "--json", python=old).stdout)["broker"]["version"] == __version__
    listed = broker.ctl("list", python=old)
    assert listed.returncode == 9
    assert f"The broker {__version__} speaks protocol 1, this client protocol 0." in listed.stderr
    assert broker.ctl("stop", python=old).returncode == 0
    assert process.wait(20) == 0


def test_a_session_of_before_an_upgrade_goes_on_after_it(broker: PrivateBroker, tmp_path: Path) -> None:
    """P9: its shim is of the old version for as long as its harness runs; 22 bridges that never recovered."""
    old = patched(tmp_path, version=OLD)
    broker.start(python=old)
    web = ShimProcess(broker, old, "-c", HARNESS, old, "-m", "xsessionctl", "mcp", XSESSIOND_NAME="web")
    web.initialize()
    own = web.call("list_agents")["structuredContent"]["self"]
    assert broker.ctl("restart", within_s=60).returncode == 0
    assert read_status(broker.rendezvous)["broker"]["version"] == __version__
    again = web.call("list_agents")["structuredContent"]["self"]
    assert (again["id"], again["name"]) == (own["id"], "web")
    with Member(broker.rendezvous, "api") as api:
        api.send("web", "welcome to the new version")
        assert "welcome to the new version" in " ".join(texts(web.call("read_messages")))


HARNESS = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"


@pytest.mark.timeout(600)
def test_the_previous_commits_wheel_and_this_tree_get_on(broker: PrivateBroker, tmp_path: Path) -> None:
    """P9, 15.4: an old broker with a new client, a new broker with an old client, and the upgrade between."""
    old = of_commit(tmp_path, "HEAD^")
    process = broker.start(python=old)
    web = ShimProcess(broker, old, "-c", HARNESS, old, "-m", "xsessionctl", "mcp", XSESSIOND_NAME="web")
    web.initialize()
    web.call("list_agents")
    assert broker.ctl("status").returncode == 0
    assert [row["name"] for row in json.loads(broker.ctl("list", "--json").stdout)["sessions"]] == ["web"]
    assert broker.ctl("send", "web", "before").returncode == 0
    assert broker.ctl("restart", within_s=60).returncode == 0
    assert broker.ctl("status", python=old).returncode == 0
    assert broker.ctl("list", python=old).returncode == 0
    assert "before" in " ".join(texts(web.call("read_messages")))
    assert broker.ctl("stop", python=old).returncode == 0
    if process.poll() is None:
        assert process.wait(20) == 0

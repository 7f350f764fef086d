"""Containers: real namespaces in which only a grant is mounted, real shims and commands in them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.shim.process import HARNESS, SHIM, ShimProcess, finish_all, texts
from tests.support.broker_files import find_bugs, read_broker_log
from tests.support.containers import MOUNTED, ctl_inside, inside, needs_containers, variables
from tests.support.human import as_human
from tests.support.private_broker import PrivateBroker, accepts
from tests.support.wire_client import LinkLost, Member, Refused, Wire, ask_once, poll, read_status

pytestmark = [pytest.mark.slow, needs_containers]


@pytest.fixture(autouse=True)
def _no_shim_stays(broker: PrivateBroker) -> Iterator[None]:
    yield
    finish_all()


def grant(broker: PrivateBroker, name: str = "box", *words: str) -> dict[str, Any]:
    done = as_human(broker, "grant", name, "--class", "prompting", "--json", *words)
    assert done.code == 0, done.shown
    document: dict[str, Any] = json.loads(done.shown)
    return document


def shim_inside(broker: PrivateBroker, given: dict[str, Any]) -> ShimProcess:
    """Start a harness with its MCP server in a container, and introduce them to each other."""
    argv = inside(broker, given["directory"], sys.executable, "-c", HARNESS, *SHIM)
    shim = ShimProcess(broker, *argv, **variables())
    shim.initialize(client="claude-code")
    return shim


def attach(given: dict[str, Any], token: str | None = None) -> Wire:
    """A client of the wire at the granted socket, from outside."""
    wire = Wire(given["socket"])
    try:
        wire.call("hello", protocol=1)
        wire.call("attach", token=token or Path(given["token_file"]).read_text().strip())
    except BaseException:
        wire.close()
        raise
    return wire


def rows(broker: PrivateBroker) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in ask_once(broker.rendezvous, "list", all=True)["sessions"]}


# -- what is mounted ---------------------------------------------------------------------------------------------------


def test_a_grant_is_a_directory_with_a_socket_and_a_token_and_nothing_else(broker: PrivateBroker) -> None:
    """13.4, S20, S13: private, before its session was ever there; the token is in that file only."""
    broker.start()
    given = grant(broker)
    directory = Path(given["directory"])
    assert directory.parent == broker.state_dir / "grants"
    assert {path.name: path.stat().st_mode & 0o7777 for path in directory.iterdir()} == {
        "session.sock": 0o600,
        "token": 0o600,
    }
    assert directory.stat().st_mode & 0o7777 == 0o700
    token = Path(given["token_file"]).read_text().strip()
    assert len(token) == 64
    assert token not in json.dumps(given)
    assert token.encode() not in (broker.state_dir / "store.db").read_bytes()
    assert token not in read_broker_log(broker)
    assert given["mount"] == {"source": str(directory), "target": MOUNTED}
    assert given["env"].items() <= variables().items()
    assert rows(broker)["box"]["state"] == "offline"


def test_where_it_goes_is_the_users_to_say(broker: PrivateBroker) -> None:
    """13.1: made private; what has anything else in it is left as it was."""
    broker.start()
    mine = broker.root / "mine"
    assert grant(broker, "box", "--dir", str(mine))["directory"] == str(mine)
    assert mine.stat().st_mode & 0o777 == 0o700
    home = broker.root / "home"
    home.mkdir(mode=0o755)
    (home / "letter").write_text("private")
    (broker.root / "way").symlink_to(mine.parent)
    same = as_human(broker, "grant", "two", "--dir", str(broker.root / "way" / mine.name))
    assert same.code != 0, "it is that of box, by another way"
    assert "is granted to box" in same.shown
    refused = as_human(broker, "grant", "two", "--dir", str(home))
    assert (refused.code, "has something else in it (letter)" in " ".join(refused.shown.split())) == (5, True)
    assert home.stat().st_mode & 0o777 == 0o755
    long = as_human(broker, "grant", "two", "--dir", str(broker.root / ("x" * 100)))
    assert (long.code, "Name a shorter directory" in long.shown) == (2, True)
    taken = as_human(broker, "grant", "box", "--dir", str(broker.root / "elsewhere"))
    assert taken.code == 0
    assert not (mine / "session.sock").exists()
    assert accepts(broker.root / "elsewhere" / "session.sock")


# -- acting as that session --------------------------------------------------------------------------------------------


def test_the_shim_in_a_container_is_that_session(broker: PrivateBroker) -> None:
    """13.4, M3: it lists, sends, reads and is answered; its pid, which means nothing outside, is never looked for."""
    broker.start()
    given = grant(broker)
    with Member(broker.rendezvous, "api", cwd="/src/api") as api:
        box = shim_inside(broker, given)
        listed = box.call("list_agents")["structuredContent"]
        assert (listed["self"]["name"], listed["self"]["id"]) == ("box", given["session"]["id"])
        assert {row["name"] for row in listed["sessions"]} == {"api", "box"}
        sent = box.call("send_message", to="api", message="from inside")
        assert sent["structuredContent"]["state"] == "queued"
        (message,) = api.take()
        assert (message["text"], message["from"]["name"]) == ("from inside", "box")
        api.send("box", "from outside", reply_to=message["id"])
        assert "from outside" in " ".join(texts(box.call("read_messages")))
        row = rows(broker)["box"]
        assert (row["harness"], row["class"], row["pid"], row["cwd"]) == (
            "container",
            "prompting",
            None,
            str(broker.home),
        )
        box.finish()
        poll(lambda: rows(broker)["box"], lambda row: row["id"] == given["session"]["id"])
    assert find_bugs(broker) == []


def test_commands_in_a_container_are_that_session_too(broker: PrivateBroker) -> None:
    """13.4, I1: an agent's shell in there has the variables, and nothing else."""
    broker.start()
    given = grant(broker)
    with Member(broker.rendezvous, "api") as api:
        who = json.loads(ctl_inside(broker, given["directory"], "whoami", "--json").stdout)
        assert (who["kind"], who["name"]) == ("session", "box")
        assert json.loads(ctl_inside(broker, given["directory"], "list", "--json").stdout)["self"]["name"] == "box"
        assert ctl_inside(broker, given["directory"], "send", "api", "hello").returncode == 0
        (message,) = api.take()
        assert message["from"]["id"] == given["session"]["id"]
        assert ctl_inside(broker, given["directory"], "rename", "crate").returncode == 0
        api.send("crate", "for you")
        inbox = json.loads(ctl_inside(broker, given["directory"], "inbox", "--json").stdout)
        assert [one["from_name"] for one in inbox["messages"]] == ["api"]
        assert ctl_inside(broker, given["directory"], "status").returncode == 0
        assert ctl_inside(broker, given["directory"], "start").returncode == 0  # it runs


# -- and as nothing else -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", ["stop", "restart", "approve --all", "deny --all", "hold-queue", "trust list", "grant other",
              "grant --list", "grant box --revoke", "explain --from human --to box", "config show", "log"],
)  # fmt: skip
def test_it_decides_stops_and_sees_nothing_of_others(broker: PrivateBroker, words: str) -> None:
    """13.4, 5.2: exit 10, and nothing has changed."""
    process = broker.start()
    given = grant(broker)
    with Member(broker.rendezvous, "bold", **{"class": "bypass"}), Member(broker.rendezvous, "api") as api:
        held = api.send("bold", "may I?")
        assert held["state"] == "held"
        done = ctl_inside(broker, given["directory"], *words.split())
        assert (done.returncode, done.stdout) == (10, ""), done.stderr
        assert api.call("check", message_id=held["id"])["state"] == "held"
        assert read_status(broker.rendezvous)["broker"]["pid"] == process.pid


def test_nothing_else_of_the_broker_is_in_reach(broker: PrivateBroker) -> None:
    """13.4, S20: neither the rendezvous, nor another session's socket, nor another container's, nor the store."""
    broker.start()
    one, two = grant(broker, "one"), grant(broker, "two")
    with Member(broker.rendezvous, "api") as api:
        places = [
            broker.rendezvous,
            api.socket,
            two["socket"],
            two["token_file"],
            broker.state_dir / "store.db",
            one["socket"],
        ]
        looked = subprocess.run(
            inside(broker, one["directory"], sys.executable, "-c", LOOK, *map(str, places)),
            env=broker.environ(), capture_output=True, text=True, timeout=40, check=False,
        )  # fmt: skip
        found = json.loads(looked.stdout)
        assert found == {"there": [], "mounted": ["session.sock", "token"]}
        alone = ctl_inside(broker, one["directory"], "list", XSESSIOND_SOCKET="", XSESSIOND_TOKEN_FILE="")
        assert "api" not in alone.stdout
    assert find_bugs(broker) == []


LOOK = """
import json, os, sys
print(json.dumps({
    "there": [path for path in sys.argv[1:] if os.path.lexists(path)],
    "mounted": sorted(os.listdir("/run/xsession")),
}))
"""


def test_one_containers_token_is_of_no_use_to_another(broker: PrivateBroker) -> None:
    """S20: at its own socket, or at the rendezvous, wherever it got it from."""
    broker.start()
    one, two = grant(broker, "one"), grant(broker, "two")
    stolen = Path(one["token_file"]).read_text().strip()
    with pytest.raises(Refused) as refused:
        attach(two, stolen)
    assert refused.value.code == "bad_token"
    resume = {"id": one["session"]["id"], "token": stolen}
    with pytest.raises(Refused) as refused:
        ask_once(broker.rendezvous, "register", name="one", cwd="/", resume=resume)
    assert refused.value.code == "bad_token"


def test_while_a_container_uses_a_token_nobody_else_does(broker: PrivateBroker) -> None:
    """S20, S14: another container and a process outside are refused, and that is shown; a second process inside not."""
    broker.start()
    given = grant(broker)
    box = shim_inside(broker, given)
    box.call("list_agents")
    with pytest.raises(Refused) as refused:
        attach(given)
    assert refused.value.code == "bad_token"
    assert "container" in refused.value.data["text"]
    other = ctl_inside(broker, given["directory"], "whoami")
    assert (other.returncode, "belongs to another container" in other.stderr) == (10, True)
    warnings = read_status(broker.rendezvous)["warnings"]
    assert any("The token of box" in warning for warning in warnings)
    assert box.call("list_agents")["structuredContent"]["self"]["name"] == "box"


def test_a_socket_that_was_granted_shows_no_token_nothing(broker: PrivateBroker) -> None:
    """13.4: also to a process that would be a person, or another session, elsewhere."""
    broker.start()
    given = grant(broker)
    with Wire(given["socket"]) as wire:
        wire.call("hello", protocol=1)
        for method in ("list", "whoami", "log", "hold_queue", "stop"):
            with pytest.raises(Refused) as refused:
                wire.call(method)
            assert refused.value.code == "not_permitted"
        assert wire.call("status")["sessions"] == 0


# -- its life ----------------------------------------------------------------------------------------------------------


def test_revoking_ends_it_at_once_and_removes_the_files(broker: PrivateBroker) -> None:
    """13.4"""
    broker.start()
    given = grant(broker)
    box = shim_inside(broker, given)
    box.call("list_agents")
    done = as_human(broker, "grant", "box", "--revoke")
    assert (done.code, "is granted to nobody any more" in done.shown) == (0, True)
    assert not Path(given["directory"]).exists()
    told = box.call("send_message", to="api", message="still there?")
    assert told["isError"]
    assert "box" not in {row["name"] for row in ask_once(broker.rendezvous, "list")["sessions"]}
    again = as_human(broker, "grant", "box", "--revoke")
    assert again.code == 3


def test_a_container_lives_through_restarts_of_the_broker(broker: PrivateBroker) -> None:
    """13.4, 15.4: handed over, and killed: its directory is what is mounted, so a new socket is found in it."""
    process = broker.start()
    given = grant(broker)
    box = shim_inside(broker, given)
    own = box.call("list_agents")["structuredContent"]["self"]["id"]
    inode = os.stat(given["socket"]).st_ino
    assert broker.ctl("restart", within_s=60).returncode == 0
    assert os.stat(given["socket"]).st_ino == inode
    assert box.call("list_agents")["structuredContent"]["self"]["id"] == own
    process.kill()
    process.wait(20)
    broker.start()
    poll(lambda: accepts(Path(given["socket"])), bool)
    assert box.call("list_agents")["structuredContent"]["self"]["id"] == own
    with Member(broker.rendezvous, "api") as api:
        api.send("box", "are you there still?")
        assert "are you there still?" in " ".join(texts(box.call("read_messages")))
    assert find_bugs(broker) == []


def test_a_granted_socket_that_was_deleted_is_made_again(broker: PrivateBroker) -> None:
    """15.3; and a directory that was deleted is left to its human."""
    broker.start()
    given = grant(broker)
    with Member(broker.rendezvous, "api"):  # the broker looks where its directories are when something happens there
        pass
    Path(given["socket"]).unlink()
    (broker.runtime_dir / "s" / "touch").touch()
    (broker.runtime_dir / "s").rename(broker.runtime_dir / "t")
    poll(lambda: accepts(Path(given["socket"])), bool)
    for name in ("session.sock", "token"):
        (Path(given["directory"]) / name).unlink()
    Path(given["directory"]).rmdir()
    assert grant(broker)["replaced"]
    assert accepts(Path(given["socket"]))


def test_a_broker_that_cannot_tell_pids_takes_the_token_all_the_same(broker: PrivateBroker) -> None:
    """M3: a broker in a pid namespace of its own sees pid 0 for whatever is outside."""
    process = broker.start()
    given = grant(broker)
    process.terminate()
    process.wait(20)
    caged = broker.spawn("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount",
                         "--mount-proc", sys.executable, "-m", "xsessiond")  # fmt: skip
    poll(lambda: accepts(Path(given["socket"])), bool)
    with attach(given) as wire:
        assert wire.call("whoami")["name"] == "box"
        with attach(given) as second:
            assert second.call("list")["self"]["name"] == "box"
    assert caged.poll() is None
    os.kill(caged.pid, signal.SIGTERM)


def test_what_is_wrong_inside_is_said_inside(broker: PrivateBroker) -> None:
    """O5: no token, no socket, no broker: never one that is started in there."""
    process = broker.start()
    given = grant(broker)
    without = ctl_inside(broker, given["directory"], "list", XSESSIOND_TOKEN_FILE="")
    assert (without.returncode, "XSESSIOND_TOKEN_FILE is not" in without.stderr) == (11, True)
    nowhere = ctl_inside(broker, given["directory"], "list", XSESSIOND_SOCKET="/run/xsession/other.sock")
    assert (nowhere.returncode, "is not there" in nowhere.stderr) == (9, True)
    unreadable = ctl_inside(broker, given["directory"], "list", XSESSIOND_TOKEN_FILE="/run/xsession/other")
    assert unreadable.returncode == 11
    process.terminate()
    process.wait(20)
    for words in (["list"], ["send", "api", "x"], ["start"], ["status"]):
        done = ctl_inside(broker, given["directory"], *words)
        assert (done.returncode, done.stdout) == (9, ""), done
    assert broker.processes() == []
    with pytest.raises(LinkLost):
        Wire(given["socket"])

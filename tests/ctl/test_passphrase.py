"""`xsessionctl passphrase`, and what it protects, at a terminal."""

from __future__ import annotations

import json
import sys

import pytest

from tests.support.agent_harness import AgentHarness
from tests.support.broker_files import read_broker_log
from tests.support.human import Done, as_human
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member, ask_once, poll, read_status
from xsessiond.core.passphrase import make_record, matches

pytestmark = pytest.mark.slow

FIRST, SECOND = "correct horse", "battery staple"
OLD, NEW, ASKED = "Old passphrase: ", "New passphrase: ", "Passphrase: "


GUESS = """
import json, sys
from tests.support.wire_client import Refused, ask_once

def decide(**more):
    try:
        return ask_once(sys.argv[1], "decide", verdict="approve", all=True, **more)
    except Refused as refused:
        return refused.data

print(json.dumps([ask_once(sys.argv[1], "whoami")["kind"], decide(), decide(passphrase="a guess")]))
"""
"""What a process that passes for a human tries without a person."""


def set_one(place: PrivateBroker, text: str, *, old: str | None = None) -> Done:
    before = [(OLD, f"{old}\n")] if old is not None else []
    return as_human(place, "passphrase", replies=[*before, (NEW, f"{text}\n"), (NEW, f"{text}\n")])


def switch_on(place: PrivateBroker) -> None:
    """Write the setting, and wait until it is in force."""
    (place.config_dir / "config.toml").write_text("[approvals]\npassphrase = true\n")
    poll(lambda: ask_once(place.rendezvous, "config")["values"], is_on)


def is_on(values: list[dict[str, object]]) -> bool:
    return any((row["key"], row["value"]) == ("approvals.passphrase", "true") for row in values)


def record(place: PrivateBroker) -> str:
    return (place.config_dir / "passphrase").read_text()


def test_it_is_set_typed_twice_and_kept_as_a_hash(running: PrivateBroker) -> None:
    """5.2: never shown, and nowhere in clear text."""
    done = set_one(running, FIRST)
    assert done.code == 0, done.shown
    assert "The passphrase is set." in done.shown
    assert "config set approvals.passphrase true" in done.shown
    assert FIRST not in done.shown
    assert (running.config_dir / "passphrase").stat().st_mode & 0o777 == 0o600
    assert matches(record(running), FIRST)
    for path in running.root.rglob("*"):
        assert not path.is_file() or FIRST.encode() not in path.read_bytes(), path
    assert "The passphrase for decisions was set." in read_broker_log(running)


def test_what_is_not_typed_alike_or_too_short_is_asked_again(running: PrivateBroker) -> None:
    typed = [(NEW, "short\n"), (NEW, f"{FIRST}\n"), (NEW, f"{SECOND}\n"), (NEW, f"{FIRST}\n"), (NEW, f"{FIRST}\n")]
    done = as_human(running, "passphrase", "--json", replies=typed)
    assert "at least 8 characters" in done.shown
    assert "not the same" in done.shown
    assert json.loads(done.shown.splitlines()[-1])["passphrase"] == "set"
    assert matches(record(running), FIRST)


def test_the_old_one_comes_first(running: PrivateBroker) -> None:
    """Whoever finds a terminal of yours open cannot set another."""
    assert set_one(running, FIRST).code == 0
    wrong = as_human(running, "passphrase", replies=[(OLD, "wrong one\n")] * 3)
    assert wrong.code == 10
    assert "That is not the passphrase. Nothing was changed." in wrong.shown
    assert matches(record(running), FIRST)
    assert set_one(running, SECOND, old=FIRST).code == 0
    assert matches(record(running), SECOND)
    removed = as_human(running, "passphrase", "--remove", replies=[(OLD, f"{SECOND}\n")])
    assert removed.shown.endswith("The passphrase is removed.\n")
    assert not (running.config_dir / "passphrase").exists()


def test_a_file_that_is_no_record_is_not_written_over(running: PrivateBroker) -> None:
    (running.config_dir / "passphrase").write_text("hunter2")
    done = as_human(running, "passphrase", replies=[(OLD, "hunter2\n")])
    assert done.code == 11
    assert "Remove it by hand" in done.shown
    assert record(running) == "hunter2"


def test_without_a_terminal_and_for_agents_there_is_none(running: PrivateBroker) -> None:
    done = running.ctl("passphrase")
    assert done.returncode == 10
    agent = AgentHarness(running, "api")
    code, output = agent.escape("pty", sys.executable, "-m", "xsessionctl", "passphrase")
    assert code == 10
    assert "Only a human may change the settings. It runs below the session api" in output
    agent.end()
    assert not (running.config_dir / "passphrase").exists()
    assert "tried to change the settings" in " ".join(read_status(running.rendezvous)["warnings"])


def test_each_decision_asks_for_it(running: PrivateBroker) -> None:
    """5.2: approvals.passphrase. Also for a process that passes for a human: it does not know it."""
    assert set_one(running, FIRST).code == 0
    switch_on(running)
    with Member(running.rendezvous, "web") as web:
        agent = AgentHarness(running, "agent", XSESSIOND_CLASS="bypass")
        ids = []
        for text in ("one", "two"):
            code, output = agent.run(sys.executable, "-m", "xsessionctl", "send", "web", text, "--json")
            assert code == 6
            ids.append(json.loads(output)["id"])
        code, output = agent.escape("leave scrub pty", sys.executable, "-c", GUESS, str(running.rendezvous))
        told = json.loads(output)
        assert told[0] == "human"
        assert [answer["code"] for answer in told[1:]] == ["not_permitted"] * 2
        assert [answer["text"] for answer in told[1:]] == [
            "A decision needs your passphrase.",
            "That is not the passphrase.",
        ]
        wrong = as_human(
            running, "approve", ids[0], replies=[(ASKED, "a guess\n"), (ASKED, "another\n"), (ASKED, "a third\n")]
        )
        assert wrong.code == 10
        assert "That is not the passphrase." in wrong.shown
        assert web.take() == []
        right = as_human(running, "approve", ids[0], replies=[(ASKED, f"{FIRST}\n")])
        assert right.code == 0, right.shown
        assert [message["text"] for message in web.take()] == ["one"]
        assert as_human(running, "deny", ids[1], replies=[(ASKED, f"{FIRST}\n")]).code == 0
        agent.end()
    told = read_broker_log(running) + " ".join(read_status(running.rendezvous)["warnings"])
    assert "wrong passphrase" in told
    for secret in (FIRST, "a guess", "another", "a third"):
        assert secret not in told


def test_where_none_is_set_nobody_decides_and_status_says_so(running: PrivateBroker) -> None:
    """14.2: the setting alone is not taken for less than it says."""
    switch_on(running)
    done = as_human(running, "approve", "--all")
    assert done.code == 10
    assert "none is set, so nobody can do that" in done.shown
    assert "Set one with `xsessionctl passphrase`." in done.shown
    status = read_status(running.rendezvous)["config"]
    assert not status["ok"]
    assert any("nobody can decide" in problem for problem in status["problems"])
    assert set_one(running, FIRST).code == 0
    assert read_status(running.rendezvous)["config"] == {"ok": True, "problems": []}


def test_switching_it_off_by_hand_is_shown(running: PrivateBroker) -> None:
    """What a program that may write the files can do, it cannot do unseen."""
    assert set_one(running, FIRST).code == 0
    switch_on(running)
    (running.config_dir / "config.toml").write_text("")
    status = poll(lambda: read_status(running.rendezvous), lambda status: status["warnings"])
    assert "Decisions need no passphrase any more" in status["warnings"][-1]
    (running.config_dir / "passphrase").write_text(make_record(SECOND, bytes(16)))
    assert running.ctl("config", "check").returncode in (0, 11)
    assert set_one(running, FIRST, old=SECOND).code == 0
    assert read_broker_log(running).count("The passphrase for decisions was") >= 2


@pytest.mark.parametrize("key", ["approvals.passphrase", "inbound.policy"])
def test_a_change_of_the_settings_asks_for_it(running: PrivateBroker, key: str) -> None:
    assert set_one(running, FIRST).code == 0
    switch_on(running)
    value = "false" if key == "approvals.passphrase" else "accept"
    wrong = as_human(running, "config", "set", key, value, replies=[(ASKED, "a guess\n")] * 3)
    assert wrong.code == 10
    assert (running.config_dir / "config.toml").read_text() == "[approvals]\npassphrase = true\n"
    assert as_human(running, "config", "set", key, value, replies=[(ASKED, f"{FIRST}\n")]).code == 0
    assert value in (running.config_dir / "config.toml").read_text()

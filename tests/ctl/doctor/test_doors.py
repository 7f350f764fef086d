"""The ways into sessions that the doctor tries."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.ctl.terminal import at_terminal
from tests.ctl.test_install import place as place
from tests.support.doctor import Diagnosis
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member, poll


def ask_doctor(place: PrivateBroker, act: Callable[[], None], *words: str) -> tuple[int, dict[str, Any]]:
    """What the doctor answers to these words. act: what happens meanwhile."""
    argv = [sys.executable, "-m", "xsessionctl", "doctor", "--json", *words]
    with subprocess.Popen(argv, env=place.environ(), cwd=place.home, stdout=subprocess.PIPE) as process:
        try:
            act()
            output, _ = process.communicate(timeout=20)
        finally:
            process.kill()
    return process.returncode, json.loads(output)


def read_test(session: Member) -> None:
    """Its model sees the test."""
    [message] = poll(session.take, bool)
    assert "doctor" in message["text"]
    session.ack(message["id"])


def try_door(place: PrivateBroker, act: Callable[[Member], None], *words: str) -> tuple[int, dict[str, Any]]:
    with Member(place.rendezvous, "api", **{"class": "prompting"}) as api:
        return ask_doctor(place, lambda: act(api), "--door", "api", *words)


def test_it_waits_for_the_evidence(broker: PrivateBroker) -> None:
    """6.1: not for words on their way."""
    broker.start()

    code, document = try_door(broker, read_test)
    assert (code, document["arrived"], document["state"]) == (0, True, "delivered")
    assert [step["state"] for step in document["history"]] == ["queued", "delivered"]
    assert document["delivery"] == "pull"


@pytest.mark.slow
def test_without_evidence_it_says_so(broker: PrivateBroker) -> None:
    broker.start()
    code, document = try_door(broker, lambda api: None, "--timeout", "1")
    assert (code, document["error"]["code"]) == (7, "timeout")
    assert "is queued" in document["error"]["text"]


def test_a_session_that_is_not_there(broker: PrivateBroker) -> None:
    broker.start()
    done = broker.ctl("doctor", "--door", "nobody")
    assert done.returncode == 3


def test_no_broker_is_started_for_it(broker: PrivateBroker) -> None:
    done = broker.ctl("doctor", "--door", "api")
    assert (done.returncode, broker.rendezvous.exists()) == (9, False)


def test_who_mends_something_may_try_again_at_once(broker: PrivateBroker) -> None:
    """10.4: the second test is no repeat of the first."""
    broker.start()
    with Member(broker.rendezvous, "api", **{"class": "prompting"}) as api:
        for _ in range(2):
            assert ask_doctor(broker, lambda: read_test(api), "--door", "api")[0] == 0


# -- one session of each harness ---------------------------------------------------------------------------------------


class Sessions:
    """Sessions of harnesses into which we are installed."""

    def __init__(self, place: PrivateBroker) -> None:
        self.place = place
        self.stack = ExitStack()

    def open(self, harness: str, state: str, delivery: str = "push") -> Member:
        """A session; its name is that of its harness and its state."""
        about = {"harness": harness, "delivery": delivery}
        session = self.stack.enter_context(Member(self.place.rendezvous, f"{harness}-{state}", **about))
        session.call("update", state=state)
        return session


@pytest.fixture
def sessions(place: PrivateBroker) -> Iterator[Sessions]:
    place.start()
    assert place.ctl("install", "--yes").returncode == 0
    opened = Sessions(place)
    with opened.stack:
        yield opened


def try_doors(place: PrivateBroker, act: Callable[[], None], *words: str, tried: int = 1) -> Diagnosis:
    """What is said of the ways in, after all that is said of files: a finding of each harness that has a session, and
    one of those that have none."""
    code, document = ask_doctor(place, act, *words)
    told = [one for one in document["findings"] if one["area"] == "harnesses"]
    return Diagnosis(code, {**document, "findings": told[-tried - 1 :]})


def test_one_session_of_each_coding_agent_is_tried(place: PrivateBroker, sessions: Sessions) -> None:
    """A round trip with evidence, through an idle session where there is one; without a session, what to do."""
    busy, idle = sessions.open("claude", "busy"), sessions.open("claude", "idle")
    other = sessions.open("opencode", "idle")
    sessions.open("gemini", "idle", delivery="turn")

    def read() -> None:
        read_test(idle)
        read_test(other)

    found = try_doors(place, read, tried=3)
    assert found.code == 0
    claude, opencode, gemini, others = found.document["findings"]
    assert (claude["level"], opencode["level"]) == ("ok", "ok")
    assert claude["what"].startswith(f"Claude Code: the model of claude-idle [{idle.session['ref']}] has seen a test, ")
    assert others["what"] == "The way in was not tried, since no session of it runs: Codex."
    assert "nothing wakes gemini-idle" in gemini["what"]
    assert all(one["mend"] for one in (others, gemini))
    assert busy.take() == []


@pytest.mark.parametrize("state, level", [("idle", "problem"), ("busy", "note")])
def test_a_way_in_without_evidence_is_a_problem_of_an_idle_session(
    place: PrivateBroker, sessions: Sessions, state: str, level: str
) -> None:
    """6.1, W3: a message that is on its way has not arrived; a tool that runs may take its time."""
    api = sessions.open("claude", state)
    found = try_doors(place, lambda: None, "--timeout", "4")
    claude = found.document["findings"][0]
    assert (claude["level"], found.code) == (level, 1 if level == "problem" else 0)
    assert "nothing shows yet that " in claude["what"]
    assert claude["mend"].endswith(f"xsessionctl doctor --door {api.session['ref']}")


def test_without_time_left_nothing_is_said_against_a_session(place: PrivateBroker, sessions: Sessions) -> None:
    api = sessions.open("claude", "idle")
    found = try_doors(place, lambda: None, "--timeout", "2")
    claude = found.document["findings"][0]
    assert (claude["level"], found.code) == ("note", 0)
    assert "there was no time left" in claude["what"]
    assert api.take() == []


def test_what_a_session_refuses_is_told_as_that(place: PrivateBroker, sessions: Sessions) -> None:
    """It is a setting of its user's, and no fault of the door."""
    (place.config_dir / "config.toml").write_text('[inbound]\npolicy = "refuse"\n')
    sessions.open("claude", "idle")
    poll(
        lambda: json.loads(place.ctl("config", "get", "inbound.policy", "--json").stdout), lambda one: one.get("value")
    )
    claude = try_doors(place, lambda: None).document["findings"][0]
    assert claude["level"] == "note"
    assert "is refused: inbound = refuse" in claude["what"]


def test_nobody_is_sent_anything_who_was_not_asked_for(place: PrivateBroker, sessions: Sessions) -> None:
    """Where the tests are declined, and with a contradiction."""
    api = sessions.open("claude", "idle")
    done = place.ctl("doctor", "--json", "--no-doors")
    told = Diagnosis(done.returncode, json.loads(done.stdout))
    assert (told.code, [one for one in told.of("ok", "harnesses") if "test" in one["what"]]) == (0, [])
    assert place.ctl("doctor", "--no-doors", "--door", "claude-idle").returncode == 2
    assert api.take() == []


def test_who_waits_is_told_what_is_tried(place: PrivateBroker, sessions: Sessions) -> None:
    api = sessions.open("claude", "idle")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(at_terminal, place, "doctor", columns=120)
        read_test(api)
        code, shown = asked.result()
    assert code == 0
    assert f"Claude Code: sending claude-idle [{api.session['ref']}] a test ...\n" in shown
    assert "has seen a test" in shown

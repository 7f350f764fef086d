"""The main job on real input: two coding-agent CLIs with our shim as their MCP server find each other and talk.

Each CLI is the vendor's own, each model a scripted fake; whether a message arrived is read off what a model received.
"""

from __future__ import annotations

import json
import re
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.harness.fakemodel import Call, Found, Wait
from tests.support.harness.homes import McpServer
from tests.support.harness.processes import wait_gone
from tests.support.harness.reading import envelopes_in
from tests.support.harness.runner import START_SECONDS, STEP_SECONDS, HarnessSession, open_session
from tests.support.private_broker import PrivateBroker

pytestmark = [pytest.mark.harness, pytest.mark.slow, pytest.mark.timeout(900)]  # the first run installs the CLIs

MESSAGE_ID = r"m-[0-9a-f]{32}"
QUESTION = "QUESTION-7f3a: which file holds the limits?"
ANSWER = "ANSWER-c21d: core/limits.py"
AFTERTHOUGHT = "AFTERTHOUGHT-90b4: thanks, that is all."
SHIM_ENDS_SECONDS = 5.0
"""A shim ends within 2 s of losing its harness; the rest is for a loaded machine."""


@pytest.mark.parametrize("asking, answering", [("claude", "opencode"), ("opencode", "claude"), ("codex", "claude")])
def test_two_models_find_each_other_ask_and_answer(asking: str, answering: str, broker: PrivateBroker) -> None:
    broker.start()
    with agent(asking, "ann", broker) as ann, agent(answering, "ben", broker) as ben:
        ann.model.play(
            "ann",
            Call("list_agents"),
            Wait("both are up"),
            Call("list_agents"),
            Call("send_message", {"to": "ben", "message": QUESTION}),
            Wait("ben has answered"),
            Call("check_delivery", {"message_id": Found("send_message", MESSAGE_ID)}),
            Call("send_message", {"to": "ben", "message": AFTERTHOUGHT}),
        )
        ben.model.play(
            "ben",
            Call("list_agents"),
            Wait("ann has asked"),
            Call("read_messages"),
            Call("send_message", {"to": "ann", "message": ANSWER, "reply_to": Found("read_messages", MESSAGE_ID)}),
            Wait("ann has thanked"),
            Call("list_agents"),
        )
        run_a, run_b = ann.start("[[play ann]]"), ben.start("[[play ben]]")
        ann.model.wait_for_gate("both are up", START_SECONDS)
        ben.model.wait_for_gate("ann has asked", START_SECONDS)
        programs = run_a.descendants() + run_b.descendants()

        # ann's model sees ben, asks him, and is told the truth: nobody has it yet.
        ann.model.open_gate("both are up")
        ann.model.wait_for_gate("ben has answered", STEP_SECONDS)
        assert re.search(r"\bben\b", result_of(ann, "list_agents", nth=2))
        sent = result_of(ann, "send_message")
        question_id = re.search(MESSAGE_ID, sent)
        assert question_id
        assert "queued" in sent

        # ben's model reads it in one envelope, and answers.
        ben.model.open_gate("ann has asked")
        ben.model.wait_for_gate("ann has thanked", STEP_SECONDS)
        [question] = envelopes_in(result_of(ben, "read_messages"))
        assert question.body == QUESTION
        assert question.attributes["id"] == question_id[0]
        assert question.attributes["from-name"] == "ann"
        assert "Your user did not type it" in result_of(ben, "read_messages")

        # The answer reaches ann's model on the result of another tool, which itself tells that it was answered.
        ann.model.open_gate("ben has answered")
        assert "DONE turn=1" in run_a.wait(STEP_SECONDS).stdout
        checked = result_of(ann, "check_delivery")
        assert "replied" in checked
        [answer] = envelopes_in(checked)
        assert (answer.body, answer.attributes["from-name"]) == (ANSWER, "ben")
        assert answer.attributes["reply-to"] == question_id[0]

        # And ben's gets the rest with a listing, though ann has ended meanwhile.
        ben.model.open_gate("ann has thanked")
        assert "DONE turn=1" in run_b.wait(STEP_SECONDS).stdout
        [afterthought] = envelopes_in(result_of(ben, "list_agents", nth=2))
        assert afterthought.body == AFTERTHOUGHT

        # Each text reached its model once.
        assert len([r for r in ben.model.requests if r.matches("QUESTION-7f3a")]) == 1
        assert len([r for r in ann.model.requests if r.matches("ANSWER-c21d")]) == 1
        assert wait_gone(programs, SHIM_ENDS_SECONDS) == []

    check = broker.ctl("check", question_id[0], "--json")
    assert check.returncode == 0, check.stderr
    report = json.loads(check.stdout)
    assert (report["id"], report["state"]) == (question_id[0], "replied")
    states = [entry["state"] for entry in report["history"]]
    assert states[0] == "queued"
    assert states[-2:] == ["delivered", "replied"]
    assert json.loads(broker.ctl("list", "--json").stdout)["sessions"] == []


@contextmanager
def agent(harness: str, name: str, broker: PrivateBroker) -> Iterator[HarnessSession]:
    """A session of ``harness`` that is called ``name`` at ``broker``, with the installed shim as its MCP server."""
    program = Path(sysconfig.get_path("scripts")) / "xsessionctl"
    env = {**broker.directories(), "XSESSIOND_NAME": name, "XSESSIOND_CLASS": "prompting"}
    with open_session(harness, McpServer("xsession", [str(program), "mcp"], env)) as session:
        yield session


def result_of(session: HarnessSession, tool: str, nth: int = 1) -> str:
    """The result of the ``nth`` call of ``tool``, as the model of ``session`` received it."""
    results = [text for r in session.model.requests if (text := r.result_of(tool)) is not None]
    assert len(results) >= nth, session.model.describe()
    return results[nth - 1]

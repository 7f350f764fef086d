"""Each pair of different harnesses, the real programs: one asks, the other answers, and it is told what became of it.

One session of each harness, interactive, at one broker, for the whole module; what a harness does by itself is shown in
its own tests. Whether a message arrived, and as whose, is read off what the models were given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import combinations

import pytest

from tests.support.harness.agents import Agent, open_agent
from tests.support.harness.fakemodel import Call
from tests.support.harness.fakemodel.model import Request
from tests.support.harness.reading import envelopes_in
from tests.support.harness.runner import STEP_SECONDS
from tests.support.private_broker import private_broker
from tests.support.wire_client import poll
from xsessiond.core.envelope import ParsedEnvelope

pytestmark = [pytest.mark.harness, pytest.mark.slow, pytest.mark.timeout(900)]  # the first run installs the CLIs

NOT_WOKEN = "gemini"
"""It has no way in: its mail comes with what its user types next."""
PAIRS = list(combinations(("claude", "codex", "opencode", NOT_WOKEN), 2))
SETTINGS = '[harness.opencode]\nassume_class = "prompting"\n[harness.gemini]\nassume_class = "prompting"\n'
"""What their user answers when `install` asks: these two do not tell."""


@pytest.fixture(scope="module")
def agent() -> Iterator[Callable[[str], Agent]]:
    """The session of a harness; opened when it is first asked for."""
    with private_broker() as broker, ExitStack() as stack:
        broker.config_dir.mkdir(mode=0o700, exist_ok=True)
        (broker.config_dir / "config.toml").write_text(SETTINGS)
        broker.start()
        opened: dict[str, Agent] = {}

        def open_once(harness: str) -> Agent:
            if harness not in opened:
                opened[harness] = stack.enter_context(open_agent(harness, broker))
            return opened[harness]

        yield open_once


def envelope_of(request: Request, marker: str) -> ParsedEnvelope:
    """The one envelope in what a request brought that has this text in it."""
    found = [envelope for event in request.new for envelope in envelopes_in(event.text)]
    [envelope] = [envelope for envelope in found if marker in envelope.body]
    return envelope


def history_of(agent: Agent, message_id: str, state: str) -> list[str]:
    """The states that a message went through, once it is in this one; but `handed`, which evidence may overtake."""
    report = poll(
        lambda: json.loads(agent.broker.ctl("check", message_id, "--json").stdout),
        lambda found: found["state"] == state,
        within_s=STEP_SECONDS,
    )
    return [entry["state"] for entry in report["history"] if entry["state"] != "handed"]


@pytest.mark.parametrize("asking, answering", PAIRS)
def test_one_asks_and_the_other_answers(agent: Callable[[str], Agent], asking: str, answering: str) -> None:
    """W3, W20, 7.1: both are listed; the question begins a turn where it can, the answer is one to that question."""
    ann, ben = agent(asking), agent(answering)
    asker, answerer = ann.row(state="idle"), ben.row(state="idle")
    assert answerer["delivery"] == ("turn" if answering == NOT_WOKEN else "push")
    pair = f"{asking}-{answering}"
    before_a, before_b = ann.model.last, ben.model.last

    question = (
        f"QUESTION-{pair}: which file holds the limits? [[wait {pair}]] [[call list_agents {{}}]] [[play {pair}]]"
    )
    ben.model.play(pair, Call("list_agents"))  # until the question's id is known
    ann.model.play(pair, Call("list_agents"), Call("send_message", {"to": answerer["name"], "message": question}))
    ann.terminal.enter(f"[[play {pair}]]", STEP_SECONDS)
    ended = ann.model.wait_for_end(STEP_SECONDS, after=before_a)
    found = re.search("m-[0-9a-f]{32}", ended.result_of("send_message") or "")
    assert found, ann.model.describe()
    question_id = found[0]
    ann.row(state="idle")
    if answering == NOT_WOKEN:
        assert history_of(ann, question_id, "queued") == ["queued"], "nothing wakes it"
        ben.terminal.enter(f"go on with {pair}", STEP_SECONDS)

    ben.model.wait_for_gate(pair, STEP_SECONDS)
    read = ben.model.wait_for(f"QUESTION-{pair}", STEP_SECONDS, after=before_b)
    envelope = envelope_of(read, f"QUESTION-{pair}")
    assert (envelope.attributes["id"], envelope.attributes["from-name"]) == (question_id, asker["name"])
    answer = {"to": asker["name"], "message": f"ANSWER-{pair}: core/limits.py", "reply_to": question_id}
    ben.model.play(pair, Call("send_message", answer))
    before_a = ann.model.last
    ben.model.open_gate(pair)

    woken = ann.model.wait_for(f"ANSWER-{pair}", STEP_SECONDS, after=before_a)
    envelope = envelope_of(woken, f"ANSWER-{pair}")
    assert (envelope.attributes["reply-to"], envelope.attributes["from-name"]) == (question_id, answerer["name"])
    assert envelope.attributes["hop"] == "1", "it was caused by a message"
    assert history_of(ann, question_id, "replied") == ["queued", "delivered", "replied"]
    assert history_of(ben, envelope.attributes["id"], "delivered") == ["queued", "delivered"]
    for model, marker in ((ben.model, f"QUESTION-{pair}"), (ann.model, f"ANSWER-{pair}")):
        texts = [event.text for request in model.requests for event in request.new]
        assert len([text for text in texts if any(marker in one.body for one in envelopes_in(text))]) == 1

    # Each sees the other under the name that it is written to by.
    for here, there in ((ann, answerer), (ben, asker)):
        listed = [text for request in here.model.requests if (text := request.result_of("list_agents"))]
        assert there["name"] in listed[-1]
    ann.row(state="idle")
    ben.row(state="idle")

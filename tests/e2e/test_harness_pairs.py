"""Each pair of different harnesses, the real programs: one asks and the other answers, or is at work and reads it all
the same; and the one that wrote is told what became of it.

One session of each harness, interactive, at one broker, for the whole module; what a harness does by itself is shown in
its own tests. Whether a message arrived, and as whose, is read off what the models were given.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import combinations, count, permutations
from typing import Any

import psutil
import pytest

from tests.shim.process import ShimProcess, finish_all
from tests.support.harness.agents import DARING_ARGUMENTS, Agent, open_agent
from tests.support.harness.fakemodel import Call, Wait
from tests.support.harness.fakemodel.model import Request
from tests.support.harness.install import PACKAGES
from tests.support.harness.reading import envelopes_in
from tests.support.harness.runner import STEP_SECONDS
from tests.support.human import as_human
from tests.support.private_broker import PrivateBroker, private_broker
from tests.support.wire_client import poll
from xsessionctl.harness.known import HARNESSES as KNOWN
from xsessiond.core.envelope import ParsedEnvelope

pytestmark = [pytest.mark.harness, pytest.mark.slow, pytest.mark.timeout(900)]  # the first run installs the CLIs

NOT_WOKEN = "gemini"
"""It has no way in: its mail comes with what its user types next."""
HARNESSES = ("claude", "codex", "opencode", NOT_WOKEN)
SETTINGS = '[harness.opencode]\nassume_class = "prompting"\n[harness.gemini]\nassume_class = "prompting"\n'
"""What their user answers when `install` asks: these two do not tell."""
RULES = {
    True: "from a session that acts without asking",
    False: "the receiver acts without asking, the sender asks",
}
"""Why a message is held, by whether its writer is the one that acts without asking."""


@pytest.fixture(scope="module")
def broker() -> Iterator[PrivateBroker]:
    with private_broker() as broker:
        broker.config_dir.mkdir(mode=0o700, exist_ok=True)
        (broker.config_dir / "config.toml").write_text(SETTINGS)
        broker.start()
        yield broker


class Agents:
    """The session of each harness; opened when it is first asked for."""

    def __init__(self, broker: PrivateBroker) -> None:
        self._broker = broker
        self._opened: dict[str, tuple[Agent, ExitStack, bool]] = {}

    def __call__(self, harness: str, *, daring: bool = False) -> Agent:
        """daring: one that was started so that it acts without asking; the next that is asked for is another."""
        if harness in self._opened and self._opened[harness][2] is not daring:
            self._opened[harness][0].terminal.stop()
            self._opened[harness][0].wait_until_gone(STEP_SECONDS)
            self.close(harness)
        if harness not in self._opened:
            stack = ExitStack()
            self._opened[harness] = (
                stack.enter_context(open_agent(harness, self._broker, daring=daring)), stack, daring
            )  # fmt: skip
        return self._opened[harness][0]

    def close(self, harness: str) -> None:
        """The next that is asked for is another."""
        self._opened.pop(harness)[1].close()

    def close_all(self) -> None:
        for harness in list(self._opened):
            self.close(harness)


@pytest.fixture(scope="module")
def agent(broker: PrivateBroker) -> Iterator[Agents]:
    agents = Agents(broker)
    try:
        yield agents
    finally:
        agents.close_all()


@pytest.fixture(scope="module")
def cid(broker: PrivateBroker) -> Iterator[ShimProcess]:
    """A third session, whose answer a tool waits for: it runs for as long as a test wants."""
    process = ShimProcess(broker, XSESSIOND_NAME="cid")
    process.initialize()
    process.call("list_agents")
    yield process
    finish_all()


def envelope_of(request: Request, marker: str) -> ParsedEnvelope:
    """The one envelope in what a request brought that has this text in it."""
    found = [envelope for event in request.new for envelope in envelopes_in(event.text)]
    [envelope] = [envelope for envelope in found if marker in envelope.body]
    return envelope


def address(row: dict[str, Any]) -> str:
    """To write to this very session: an earlier one of its harness may have had its name."""
    return f"{row['name']} [{row['ref']}]"


def history_of(agent: Agent, message_id: str, *states: str) -> list[str]:
    """The states that a message went through, once it is in one of these; but `handed`, which evidence may overtake."""
    report = poll(
        lambda: json.loads(agent.broker.ctl("check", message_id, "--json").stdout),
        lambda found: found["state"] in states,
        within_s=STEP_SECONDS,
    )
    return [entry["state"] for entry in report["history"] if entry["state"] != "handed"]


def rule_between(writer: str, reader: str, broker: PrivateBroker) -> str:
    """Which rule says what becomes of a message."""
    done = broker.ctl("explain", "--from", writer, "--to", reader, "--json")
    return str(json.loads(done.stdout)["rule"])


def prompt_until_told(agent: Agent, prompt: str, pattern: str) -> None:
    """Its user begins turns until one is told this: each asks whether there is something."""
    numbers = count(1)

    def told() -> bool:
        before = agent.model.last
        # Were it on the screen already, nothing would say when it has been typed, and an Enter too early is part of it.
        agent.terminal.enter(f"{prompt}, {next(numbers)}", STEP_SECONDS)
        agent.model.wait_for_end(STEP_SECONDS, after=before)
        agent.row(state="idle")
        return any(request.matches(pattern) for request in agent.model.requests[before:])

    poll(told, bool, within_s=STEP_SECONDS)


@pytest.mark.parametrize("asking, answering", list(combinations(HARNESSES, 2)))
def test_one_asks_and_the_other_answers(agent: Agents, asking: str, answering: str) -> None:
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


@pytest.mark.parametrize("writing, working", list(permutations(HARNESSES, 2)))
def test_one_writes_to_the_other_that_works_and_is_told_when_it_is_idle(
    agent: Agents, cid: ShimProcess, writing: str, working: str
) -> None:
    """W4, 7.2, 9.1: read beside the result of the tool that ran, which is whole; the end of that turn is told to the
    writer, and begins a turn of it where it can."""
    ann, ben = agent(writing), agent(working)
    writer, worker = ann.row(state="idle"), ben.row(state="idle")
    pair = f"{writing}-{working}"
    ask = {"to": "cid", "message": f"WORK-{pair}", "wait_reply": 60}
    ben.model.play(f"work-{pair}", Call("send_message", ask), Wait(f"read-{pair}"))
    before_b = ben.model.last
    ben.terminal.enter(f"[[play work-{pair}]]", STEP_SECONDS)
    [question] = poll(lambda: cid.call("read_messages")["structuredContent"]["messages"], bool, within_s=STEP_SECONDS)
    ben.row(state="busy")

    message = {"to": worker["name"], "message": f"ASIDE-{pair}: lunch at noon", "notify_when_idle": True}
    ann.model.play(f"aside-{pair}", Call("send_message", message))
    before_a = ann.model.last
    ann.terminal.enter(f"[[play aside-{pair}]]", STEP_SECONDS)
    ended = ann.model.wait_for_end(STEP_SECONDS, after=before_a)
    found = re.search("m-[0-9a-f]{32}", ended.result_of("send_message") or "")
    assert found, ann.model.describe()
    ann.row(state="idle")
    assert "delivered" not in history_of(ann, found[0], "queued", "handed"), "its tool runs, and it has read nothing"

    cid.call("send_message", to=worker["ref"], message=f"REPLY-{pair}", reply_to=question["id"])
    ben.model.wait_for_gate(f"read-{pair}", STEP_SECONDS)
    read = ben.model.wait_for(f"ASIDE-{pair}", STEP_SECONDS, after=before_b)
    assert f"REPLY-{pair}" in (read.result_of("send_message") or "")
    envelope = envelope_of(read, f"ASIDE-{pair}")
    assert (envelope.attributes["id"], envelope.attributes["from-name"]) == (found[0], writer["name"])
    assert not [request for request in ann.model.requests if request.number > ended.number], "it is not idle yet"

    ben.model.open_gate(f"read-{pair}")
    ben.row(state="idle")
    if writing == NOT_WOKEN:
        prompt_until_told(ann, f"go on with {pair}", " is idle")
    notice = ann.model.wait_for(" is idle", STEP_SECONDS, after=ended.number)
    assert any(f"{worker['name']}" in event.text and " is idle" in event.text for event in notice.new)
    assert history_of(ann, found[0], "delivered") == ["queued", "delivered"]
    ann.row(state="idle")


@contextmanager
def acting_without_asking(one: Agent) -> Iterator[None]:
    """Its user says so while it runs, where its harness does not tell."""
    if KNOWN[one.session.name].class_told:
        one.row(**{"class": "bypass"})
        yield
        return
    file = one.broker.config_dir / "config.toml"
    before = file.read_text()
    says = f'[harness.{one.session.name}]\nassume_class = "prompting"'
    assert says in before
    file.write_text(before.replace(says, says.replace("prompting", "bypass")))
    try:
        one.row(**{"class": "bypass"})
        yield
    finally:
        file.write_text(before)
        one.row(**{"class": "prompting"})


@pytest.mark.parametrize("writing, asked_for", list(permutations(HARNESSES, 2)))
def test_what_one_writes_to_the_other_is_held_and_let_through(agent: Agents, writing: str, asked_for: str) -> None:
    """4.2, 5.1, 5.6: by class, since one of the two acts without asking and the other asks. The writer is told that it
    is held, and what was let through begins a turn where it can, and says who let it through."""
    daring = next((one for one in (writing, asked_for) if not KNOWN[one].class_told), "claude")
    ann, ben = (agent(one, daring=one == daring and one in DARING_ARGUMENTS) for one in (writing, asked_for))
    writer, reader = ann.row(state="idle"), ben.row(state="idle")
    pair = f"{writing}-{asked_for}"
    with acting_without_asking(ann if daring == writing else ben):
        rule = rule_between(writer["ref"], reader["ref"], ann.broker)
        assert rule == f"parity: {RULES[daring == writing]}"
        ann.model.play(f"hold-{pair}", Call("send_message", {"to": address(reader), "message": f"PLEASE-{pair}"}))
        before_a, before_b = ann.model.last, ben.model.last
        ann.terminal.enter(f"[[play hold-{pair}]]", STEP_SECONDS)
        told = ann.model.wait_for_end(STEP_SECONDS, after=before_a).result_of("send_message") or ""
        found = re.search("m-[0-9a-f]{32}", told)
        assert found, ann.model.describe()
        assert "held" in told
        ann.row(state="idle")
        assert as_human(ann.broker, "approve", found[0]).code == 0
    if asked_for == NOT_WOKEN:
        ben.terminal.enter(f"go on after {pair}", STEP_SECONDS)
    read = ben.model.wait_for(f"PLEASE-{pair}", STEP_SECONDS, after=before_b)
    envelope = envelope_of(read, f"PLEASE-{pair}")
    assert (envelope.attributes["id"], envelope.attributes["from-name"]) == (found[0], writer["name"])
    assert "approved by" in envelope.attributes["held"]
    assert history_of(ann, found[0], "delivered") == ["held", "queued", "delivered"]
    ben.row(state="idle")


@pytest.mark.parametrize("harness", HARNESSES)
def test_the_doctor_tries_the_way_in(agent: Agents, harness: str) -> None:
    """A real round trip, with evidence, to a real shim; and where nothing wakes a session, what is known by then."""
    ben = agent(harness)
    row = ben.row(state="idle")
    seconds = "3" if harness == NOT_WOKEN else str(STEP_SECONDS)
    done = ben.broker.ctl("doctor", "--door", row["name"], "--json", "--timeout", seconds)
    document = json.loads(done.stdout)
    if harness == NOT_WOKEN:
        assert (done.returncode, document["error"]["code"]) == (7, "timeout")
        assert "is queued" in document["error"]["text"]
        ben.terminal.enter("take what the doctor sent", STEP_SECONDS)
        ben.model.wait_for("xsessionctl doctor", STEP_SECONDS)
    else:
        assert (done.returncode, document["arrived"], document["state"]) == (0, True, "delivered")
        assert document["delivery"] == "push"
        assert document["to"]["id"] == row["id"]
        ben.model.wait_for(document["id"], STEP_SECONDS)  # a hook may tell of a prompt before the model is asked
    ben.row(state="idle")


@pytest.mark.parametrize("harness", HARNESSES)
def test_the_doctor_tries_one_session_of_what_is_installed(agent: Agents, harness: str) -> None:
    """W21: in the version that was tested, with what `install` wrote; a round trip through its door, with evidence."""
    ben = agent(harness)
    row = ben.row(state="idle")
    path = os.pathsep.join([str(ben.session.command.parent), ben.session.environment["PATH"]])
    done = ben.broker.ctl("doctor", "--json", within_s=120.0, **{**ben.session.environment, "PATH": path})
    told = [one for one in json.loads(done.stdout)["findings"] if one["area"] == "harnesses"]
    title, version = KNOWN[harness].title, PACKAGES[harness].version
    assert told[0]["what"] == f"{title} {version}: installed."
    assert (told[-1]["level"], told[-1]["what"].split(":")[0]) == ("note" if harness == NOT_WOKEN else "ok", title)
    assert f"{row['name']} [{row['ref']}]" in told[-1]["what"]
    if harness != NOT_WOKEN:
        assert "has seen a test" in told[-1]["what"]
    ben.row(state="idle")


@pytest.mark.parametrize("killed", HARNESSES)
def test_the_others_are_told_that_one_was_killed(agent: Agents, cid: ShimProcess, killed: str) -> None:
    """1.4, 9.1, D1: each of them waited for it; it leaves the list at once, and each is told, once."""
    others = {harness: agent(harness) for harness in HARNESSES if harness != killed}
    ben = agent(killed)
    worker = ben.row(state="idle")
    ask = {"to": "cid", "message": f"WORK-{killed}-killed", "wait_reply": 120}
    ben.model.play(f"work-{killed}", Call("send_message", ask))
    ben.terminal.enter(f"[[play work-{killed}]]", STEP_SECONDS)
    poll(lambda: cid.call("read_messages")["structuredContent"]["messages"], bool, within_s=STEP_SECONDS)
    ben.row(state="busy")
    asked = {}
    for harness, ann in others.items():
        key = f"watch-{harness}-{killed}"
        ann.row(state="idle")
        ann.model.play(key, Call("send_message", {"to": address(worker), "notify_when_idle": True}))
        before = ann.model.last
        ann.terminal.enter(f"[[play {key}]]", STEP_SECONDS)
        asked[harness] = ann.model.wait_for_end(STEP_SECONDS, after=before).number
        ann.row(state="idle")

    psutil.Process(worker["pid"]).kill()
    ben.wait_until_gone(within_s=2.0)
    for harness, ann in others.items():
        if harness == NOT_WOKEN:
            prompt_until_told(ann, "who is left", "has ended")
        notice = ann.model.wait_for("has ended", STEP_SECONDS, after=asked[harness])
        assert any(worker["name"] in event.text and "has ended" in event.text for event in notice.new)
        ann.row(state="idle")
        seen = [request for request in ann.model.requests if any("has ended" in event.text for event in request.new)]
        assert len([request for request in seen if request.number > asked[harness]]) == 1
    agent.close(killed)

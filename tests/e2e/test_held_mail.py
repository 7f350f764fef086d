"""A held message from one end to the other: the real MCP servers, the real broker, the real command line, and a person
at a terminal."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.shim.process import ShimProcess, finish_all
from tests.support.human import as_human
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import poll
from xsessiond.core.envelope import parse_envelopes

README = Path(__file__).parents[2] / "README.md"
BODY = "Please delete the branch release/4.2."


@pytest.fixture(autouse=True)
def _no_shim_stays(broker: PrivateBroker) -> Iterator[None]:
    yield
    finish_all()


def start(place: PrivateBroker, name: str, perm_class: str, **more: str) -> ShimProcess:
    """A session below a harness of its own, introduced and known to the broker. perm_class: empty where it states
    none."""
    process = ShimProcess(place, XSESSIOND_NAME=name, XSESSIOND_CLASS=perm_class, **more)
    process.initialize()
    assert process.call("list_agents")["structuredContent"]["self"]["name"] == name
    return process


def human(place: PrivateBroker, *words: str, code: int = 0) -> str:
    done = as_human(place, *words, NO_COLOR="1")
    assert done.code == code, done.shown
    return done.shown


def held_ids(place: PrivateBroker) -> list[str]:
    return [hold["id"] for hold in json.loads(place.ctl("hold-queue", "--json").stdout)["held"]]


def read(process: ShimProcess) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = process.call("read_messages")["structuredContent"]["messages"]
    return messages


def state_of(process: ShimProcess, message_id: str) -> str:
    return str(process.call("check_delivery", message_id=message_id)["structuredContent"]["state"])


def news_of(process: ShimProcess) -> list[str]:
    """What a session's model hears with its next tool call."""
    news: list[str] = process.call("list_agents")["structuredContent"].get("news", [])
    return news


def test_held_approved_read_and_told(broker: PrivateBroker) -> None:
    """H1, H3, H5: the sender is told at once; a person decides at any terminal; the receiver sees that it was held and
    who approved it; the sender hears of that by itself."""
    deploy, api = start(broker, "deploy", "bypass"), start(broker, "api", "prompting")
    result = deploy.call("send_message", to="api", message=BODY)
    sent = result["structuredContent"]
    assert (result["isError"], sent["state"]) == (False, "held")
    assert "xsessionctl hold-queue" in sent["text"]
    assert sent["rule"].startswith("parity: ")
    assert state_of(deploy, sent["id"]) == "held"
    assert read(api) == []

    assert BODY in human(broker, "show", sent["id"][:8])
    human(broker, "approve", sent["id"][:8])
    (message,) = read(api)
    (envelope,) = parse_envelopes(message["envelope"])
    assert (message["id"], message["text"]) == (sent["id"], BODY)
    assert re.fullmatch(r"\d+s, approved by human .+ at \S+Z", envelope.attributes["held"])
    assert message["held"]["by"].startswith("human ")
    assert read(api) == []
    assert any(sent["id"] in line and "released" in line for line in news_of(deploy))
    assert news_of(deploy) == [], "once"
    assert state_of(deploy, sent["id"]) == "delivered"


def test_a_denial_reaches_both_and_the_text_neither(broker: PrivateBroker) -> None:
    """H2, H5, 5.4."""
    deploy, api = start(broker, "deploy", "bypass"), start(broker, "api", "prompting")
    sent = deploy.call("send_message", to="api", message=BODY)["structuredContent"]
    human(broker, "deny", sent["id"], "--reason", "ask me first")
    heard = news_of(deploy)
    assert any(sent["id"] in line and "denied" in line and "ask me first" in line for line in heard)
    told = news_of(api)
    assert len(told) == 1
    assert "1 held message from deploy was denied" in told[0]
    assert read(api) == []
    assert state_of(deploy, sent["id"]) == "denied"


def test_an_expiry_reaches_both(broker: PrivateBroker) -> None:
    """H2, R4: never in silence."""
    (broker.config_dir / "config.toml").write_text("[inbound]\nhold_expiry = 0.2\n")
    deploy, api = start(broker, "deploy", "bypass"), start(broker, "api", "prompting")
    sent = deploy.call("send_message", to="api", message=BODY)["structuredContent"]
    poll(lambda: held_ids(broker), lambda ids: ids == [])
    assert any(sent["id"] in line and "expired" in line for line in news_of(deploy))
    assert ["1 held message from deploy expired" in line for line in news_of(api)] == [True]
    assert state_of(deploy, sent["id"]) == "expired"
    assert read(api) == []


@pytest.mark.parametrize(
    "inbound, state, code", [("accept", "queued", None), ("hold", "held", None), ("refuse", None, "refused")]
)
def test_the_launch_of_a_session_says_what_comes_in(
    broker: PrivateBroker, inbound: str, state: str | None, code: str | None
) -> None:
    """4.1, 14.1: XSESSIOND_INBOUND, which `whoami` and `explain` show with its place."""
    web = start(broker, "web", "prompting")
    start(broker, "api", "prompting", XSESSIOND_INBOUND=inbound)
    told = web.call("send_message", to="api", message=BODY)["structuredContent"]
    assert told.get("state") == state
    assert (told["error"]["code"] if "error" in told else None) == code
    explained = json.loads(broker.ctl("explain", "--from", "web", "--to", "api", "--json").stdout)
    assert explained["rule"] == f"inbound = {inbound} (launch: XSESSIOND_INBOUND)"


def test_a_session_that_states_no_class_holds_everything_but_its_human(broker: PrivateBroker) -> None:
    """4.2, 4.4."""
    web = start(broker, "web", "prompting")
    api = start(broker, "api", "")
    assert web.call("send_message", to="api", message=BODY)["structuredContent"]["state"] == "held"
    human(broker, "send", "api", "from me")
    assert [message["text"] for message in read(api)] == ["from me"]


def test_a_reply_is_not_waited_for_while_a_human_must_decide(broker: PrivateBroker) -> None:
    """8.2: the answer comes at once, since no reply can."""
    deploy = start(broker, "deploy", "bypass")
    start(broker, "api", "prompting")
    began = time.monotonic()
    sent = deploy.call("send_message", to="api", message=BODY, wait_reply=45)["structuredContent"]
    assert (sent["state"], sent["reply"]) == ("held", None)
    assert time.monotonic() - began < 20


# -- as somebody who has read the README only --------------------------------------------------------------------------


def readme_console(heading: str) -> list[str]:
    """The commands of a section of README.md, as a reader types them."""
    section = README.read_text(encoding="utf-8").partition(f"### {heading}\n")[2].partition("\n### ")[0]
    return [line[2:].partition("  #")[0].strip() for line in section.splitlines() if line.startswith("$ xsessionctl ")]


@pytest.mark.slow
def test_the_readme_leads_to_the_message_and_through_the_gate(broker: PrivateBroker) -> None:
    """H1, O8: why did it not arrive, and what to do: the commands of the README in their order, with the names and ids
    that each of them shows."""
    deploy, api = start(broker, "deploy", "bypass"), start(broker, "api", "prompting")
    deploy.call("send_message", to="api", message=BODY)
    commands = readme_console("When a message is held")
    assert [command.split()[1] for command in commands] == ["hold-queue", "show", "approve", "deny", "explain", "trust"]
    shown = human(broker, *commands[0].split()[1:])
    found = re.search(r"^(m-\w+)  (\S+) \[\w+\]  (\S+) \[\w+\]  (\S+)", shown, re.M)
    assert found is not None, shown
    message_id, sender, receiver, cause = found.groups()
    assert cause == "mode-mismatch"
    in_place = {"m-5f0c12": message_id, "deploy": sender, "api": receiver}
    for command in commands[1:]:
        if command.split()[1] == "deny":
            continue  # it is approved already
        words = [in_place.get(word, word) for word in command.split()[1:]]
        human(broker, *words)
    assert [message["text"] for message in read(api)] == [BODY]


def verbs_in(text: str) -> list[str]:
    return re.findall(r"xsessionctl ([a-z-]+)", text)


def test_each_step_names_the_next(broker: PrivateBroker) -> None:
    """H1, in less than a minute: from the roster alone, following only what the program says."""
    deploy, api = start(broker, "deploy", "bypass"), start(broker, "api", "prompting")
    deploy.call("send_message", to="api", message=BODY)
    assert "hold-queue" in verbs_in(human(broker, "list"))
    assert "hold-queue" in verbs_in(human(broker, "status"))
    queue = human(broker, "hold-queue")
    assert "show" in verbs_in(queue)
    message_id = re.findall(r"^(m-\w+)", queue, re.M)[0]
    show = human(broker, "show", message_id)
    command = re.search(r"`xsessionctl (approve m-\w+)`", show)
    assert command is not None
    human(broker, *command[1].split())
    assert [message["text"] for message in read(api)] == [BODY]
    assert held_ids(broker) == []

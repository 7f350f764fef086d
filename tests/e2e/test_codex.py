"""Real Codex in a terminal, with its daemon: woken, interrupted by nothing, told apart, ended.

The model is a scripted fake; what reached it is read off there. One HOME for the whole module: the daemon copies itself
into each. Its hooks are not trusted in the first tests, as after an installation, and are from `trusted` on.
"""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.shim.process import ShimProcess, finish_all
from tests.support.harness import codex_daemon
from tests.support.harness.fakemodel import Call
from tests.support.harness.homes import McpServer
from tests.support.harness.reading import envelopes_in
from tests.support.harness.runner import STEP_SECONDS, HarnessSession, open_session
from tests.support.harness.terminal import Terminal
from tests.support.private_broker import PrivateBroker, private_broker
from tests.support.wire_client import poll

pytestmark = [pytest.mark.harness, pytest.mark.slow, pytest.mark.timeout(900)]  # the first run installs the CLI

HOOKS_QUESTION = "Continue without trusting"


class House:
    """A HOME with Codex and our MCP server in it, and a broker."""

    def __init__(self, broker: PrivateBroker, codex: HarnessSession) -> None:
        self.broker, self.codex = broker, codex
        self.model = codex.model

    def sessions(self) -> list[dict[str, Any]]:
        """What `list` shows of Codex."""
        rows = json.loads(self.broker.ctl("list", "--json").stdout)["sessions"]
        return [row for row in rows if row["harness"] == "codex"]

    def only(self, **wanted: object) -> dict[str, Any]:
        """The one session of Codex, once the listing says of it what is wanted."""

        def as_wanted(rows: list[dict[str, Any]]) -> bool:
            return len(rows) == 1 and all(rows[0][key] == value for key, value in wanted.items())

        return poll(self.sessions, as_wanted, within_s=STEP_SECONDS)[0]

    def state_of(self, message_id: str) -> str:
        return str(json.loads(self.broker.ctl("check", message_id, "--json").stdout)["state"])

    def await_state(self, message_id: str, state: str) -> None:
        poll(lambda: self.state_of(message_id), lambda found: found == state, within_s=STEP_SECONDS)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    program = Path(sysconfig.get_path("scripts")) / "xsessionctl"
    with private_broker() as broker:
        broker.start()
        server = McpServer("xsession", [str(program), "mcp"], broker.directories())
        with open_session("codex", server) as codex:
            codex_daemon.add_hooks(codex.home)
            yield House(broker, codex)


@pytest.fixture
def terminal(house: House) -> Iterator[Terminal]:
    """A Codex whose user did not trust the hooks, idle after a first turn."""
    terminal = house.codex.open_terminal("send_message", "-a", "on-request", dismiss=HOOKS_QUESTION)
    yield terminal
    end_all(house, terminal)


@pytest.fixture
def ann(house: House) -> Iterator[ShimProcess]:
    """Another session, that asks before it acts."""
    process = ShimProcess(house.broker, XSESSIOND_NAME="ann")
    process.initialize()
    process.call("list_agents")
    yield process
    finish_all()


def end_all(house: House, *terminals: Terminal) -> None:
    """Ends terminals and the daemon, so that the next test begins without their threads."""
    for terminal in terminals:
        terminal.stop()
    codex_daemon.stop_daemon(house.codex.home)
    poll(house.sessions, lambda rows: rows == [], within_s=STEP_SECONDS)


def send(process: ShimProcess, to: str, message: str, **more: Any) -> dict[str, Any]:
    result: dict[str, Any] = process.call("send_message", to=to, message=message, **more)["structuredContent"]
    return result


def test_an_idle_terminal_is_woken_though_its_user_trusted_no_hooks(
    house: House, terminal: Terminal, ann: ShimProcess
) -> None:
    """W3, W20, S6: the turn starts by itself and is shown; the message is in one envelope; the answer goes back."""
    house.model.play("answer", Call("send_message", {"to": "ann", "message": "ANSWER-11: yes"}))
    session = house.only(state="idle", delivery="push")
    assert session["class"] == "prompting"
    sent = send(ann, session["ref"], "QUESTION-10: is it through? [[play answer]]")
    request = house.model.wait_for("QUESTION-10", STEP_SECONDS)
    (event,) = [event for event in request.new if "QUESTION-10" in event.text]
    (envelope,) = envelopes_in(event.text)
    assert envelope.attributes["id"] == sent["id"]
    assert envelope.attributes["from-name"] == "ann"
    terminal.wait_for_screen("QUESTION-10", STEP_SECONDS)
    house.await_state(sent["id"], "delivered")
    (answer,) = poll(lambda: ann.call("read_messages")["structuredContent"]["messages"], bool, within_s=STEP_SECONDS)
    assert answer["text"] == "ANSWER-11: yes"

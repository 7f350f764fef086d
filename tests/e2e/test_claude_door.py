"""The door into Claude Code with the real shim and the real broker: what goes wrong with it, and what others see of it.

Claude Code is played here by a process with an inbox; the real one is in the harness tier.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.shim.process import SHIM, ShimProcess, finish_all
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import poll
from xsessiond.core.envelope import parse_envelopes

WITHIN_S = 15.0
PLAYED = """
import socket, subprocess, sys, threading
path, log, *shim = sys.argv[1:]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(8)

def serve():
    while True:
        link, _ = listener.accept()
        with link, link.makefile("rb") as lines, open(log, "ab", buffering=0) as file:
            for line in lines:
                file.write(line)

threading.Thread(target=serve, daemon=True).start()
while subprocess.call(shim) != 0:
    pass
"""
"""Claude Code: it listens at its inbox, writes down what comes, and starts its MCP server again when that was killed;
its standard streams go on."""


class Inbox:
    """The inbox of the session, from outside."""

    def __init__(self, root: Path) -> None:
        self.path, self.log = root / "inbox.sock", root / "inbox.log"
        self._away = root / "inbox.away"
        self.log.touch()

    @property
    def texts(self) -> list[str]:
        """What was posted, in order."""
        return [json.loads(line)["message"]["content"] for line in self.log.read_text().splitlines()]

    def next(self, number: int) -> str:
        """The post of this number, counted from 1."""
        return poll(lambda: self.texts, lambda texts: len(texts) >= number, within_s=WITHIN_S)[number - 1]

    def close(self) -> None:
        """It is not at its place any more."""
        self.path.rename(self._away)

    def open(self) -> None:
        """It is there again."""
        self._away.rename(self.path)


class Rig:
    """A broker, an inbox, and a shim that thinks it is Claude Code's."""

    def __init__(self, broker: PrivateBroker) -> None:
        self.broker = broker
        self.inbox = Inbox(broker.root)
        self.shim = ShimProcess(
            broker,
            *(sys.executable, "-c", PLAYED, str(self.inbox.path), str(self.inbox.log), *SHIM),
            XSESSIOND_NAME="api",
            XSESSIOND_HOOKS="1",
            CLAUDE_CODE_SESSION_ID="c-1",
            CLAUDE_CODE_MESSAGING_SOCKET=str(self.inbox.path),
        )
        self.shim.initialize(client="claude-code")

    def row(self, **wanted: object) -> dict[str, Any]:
        def look() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = json.loads(self.broker.ctl("list", "--json").stdout)["sessions"]
            return found

        def as_wanted(rows: list[dict[str, Any]]) -> bool:
            return len(rows) == 1 and all(rows[0][key] == value for key, value in wanted.items())

        return poll(look, as_wanted, within_s=WITHIN_S)[0]

    def send(self, text: str) -> str:
        sent = self.broker.ctl("send", "api", text, "--json")
        message_id: str = json.loads(sent.stdout)["id"]
        return message_id

    def state_of(self, message_id: str) -> str:
        entries = json.loads(self.broker.ctl("log", "--json").stdout)["entries"]
        return str(next(entry["state"] for entry in entries if entry["id"] == message_id))

    def await_state(self, message_id: str, state: str) -> None:
        poll(lambda: self.state_of(message_id), lambda found: found == state, within_s=WITHIN_S)

    def hook(self, event: str, **fields: object) -> Any:
        result = self.shim.call("hook", hook_event_name=event, session_id="c-1", **fields)
        return json.loads(result["content"][0]["text"])


@pytest.fixture
def rig(broker: PrivateBroker) -> Iterator[Rig]:
    broker.start()
    rig = Rig(broker)
    yield rig
    finish_all()


def test_written_is_handed_and_only_a_prompt_makes_it_delivered(rig: Rig) -> None:
    """W1, W9: and the sender is told nothing that is not so."""
    rig.row(state="idle", delivery="push")
    message_id = rig.send("hello")
    text = rig.inbox.next(1)
    [envelope] = parse_envelopes(text)
    assert envelope.attributes["id"] == message_id
    rig.await_state(message_id, "handed")
    assert rig.hook("UserPromptSubmit", prompt="typed by a person", permission_mode="default") == {}
    assert rig.state_of(message_id) == "handed"
    assert rig.hook("UserPromptSubmit", prompt=text) == {}
    rig.await_state(message_id, "delivered")
    rig.row(state="busy")


def test_a_shim_that_dies_before_the_evidence_gives_the_message_back(rig: Rig) -> None:
    """W9: kill -9 after the lease and before the acknowledgement; it comes once more, under the same id."""
    message_id = rig.send("hello")
    rig.inbox.next(1)
    rig.await_state(message_id, "handed")
    rig.shim.shim().kill()
    rig.await_state(message_id, "queued")


def test_an_adapter_that_is_restarted_is_the_same_session_and_is_pushed_to_again(rig: Rig) -> None:
    """W22, W11: a new process below the same harness; same id, name and mail, and the door works."""
    before = rig.row(delivery="push")
    first = rig.send("before")
    rig.inbox.next(1)
    for number in range(2, 5):
        rig.shim.shim().kill()
        rig.shim.initialize(client="claude-code")
        after = rig.row(delivery="push")
        assert (after["id"], after["name"]) == (before["id"], before["name"])
        text = rig.inbox.next(number)
        assert first in text
    rig.hook("UserPromptSubmit", prompt=rig.inbox.texts[-1])
    rig.await_state(first, "delivered")
    second = rig.send("after")
    rig.hook("UserPromptSubmit", prompt=rig.inbox.next(5))
    rig.await_state(second, "delivered")


def test_an_inbox_that_breaks_is_told_to_others_and_the_next_step_brings_the_mail(rig: Rig) -> None:
    """W17: `list` says so before anyone sends again, and nothing is lost; when it is back, that is told too."""
    rig.row(delivery="push")
    rig.hook("UserPromptSubmit", prompt="work", permission_mode="default")
    rig.inbox.close()
    message_id = rig.send("hello")
    rig.row(delivery="turn", queued=1)
    context = rig.hook("PostToolUse")["hookSpecificOutput"]["additionalContext"]
    assert "| hello" in context
    rig.inbox.open()
    assert rig.hook("Stop") == {}
    rig.await_state(message_id, "delivered")
    rig.row(delivery="push", state="idle")
    rig.send("again")
    assert "| again" in rig.inbox.next(1)


def test_a_broker_that_is_restarted_finds_the_session_as_it_is(rig: Rig) -> None:
    """1.5, W11: state, class and door are told anew, and what was under way is not posted twice."""
    rig.hook("UserPromptSubmit", prompt="work", permission_mode="bypassPermissions")
    before = rig.row(**{"class": "bypass", "state": "busy"})
    [daemon] = [process for process in rig.broker.processes() if process.cmdline()[-1] == "xsessiond"]
    daemon.kill()
    daemon.wait(WITHIN_S)
    rig.broker.start()
    after = rig.row(**{"class": "bypass", "state": "busy", "delivery": "push"})
    assert after["id"] == before["id"]


def test_what_its_user_sees_and_what_its_model_is_told_agree(rig: Rig) -> None:
    """W2: `handed` is neither sent nor lost, and the queue of the receiver still has it."""
    message_id = rig.send("hello")
    rig.inbox.next(1)
    rig.await_state(message_id, "handed")
    assert rig.row()["queued"] == 1
    told = rig.shim.call("read_messages")
    assert told["structuredContent"]["messages"] == []
    assert "on its way" not in told["content"][0]["text"]
    second = rig.send("second")
    told = rig.shim.call("read_messages")
    assert told["structuredContent"]["messages"] == []
    assert "on its way into this conversation" in told["content"][0]["text"]
    assert rig.state_of(second) == "queued"

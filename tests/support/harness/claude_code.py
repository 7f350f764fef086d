"""Claude Code with our product installed in its HOME as its user would do it, and a look at it from outside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import poll

from .product import install
from .runner import STEP_SECONDS, HarnessSession, open_session
from .terminal import Terminal

ALLOWED = "--allowedTools=mcp__xsession,Bash,Agent"
ASKS = ("--permission-mode=acceptEdits", ALLOWED)
"""Arguments of a session of the prompting class. (The default, `auto`, asks its vendor about each call.)"""
BYPASSES = ("--dangerously-skip-permissions",)


class Claude:
    """One HOME of Claude Code in which our product is installed; its sessions are called `name`."""

    def __init__(self, broker: PrivateBroker, session: HarnessSession, name: str) -> None:
        self.broker, self.session, self.name, self.model = broker, session, name, session.model
        self.terminal: Terminal | None = None

    def open(self, *args: str) -> Terminal:
        """An interactive session, idle after its first turn."""
        self.terminal = self.session.open_terminal("send_message", *(args or ASKS))
        return self.terminal

    def rows(self) -> list[dict[str, Any]]:
        """What `list` shows of it."""
        rows = json.loads(self.broker.ctl("list", "--json").stdout)["sessions"]
        return [row for row in rows if row["cwd"] == str(self.session.work)]

    def row(self, **wanted: object) -> dict[str, Any]:
        """Its one row, once that says what is wanted."""

        def as_wanted(rows: list[dict[str, Any]]) -> bool:
            return len(rows) == 1 and all(rows[0][key] == value for key, value in wanted.items())

        return poll(self.rows, as_wanted, within_s=STEP_SECONDS)[0]

    def send(self, text: str, *options: str) -> dict[str, Any]:
        """A script of its user sends it something."""
        return send(self.broker, self.name, text, *options)

    def await_state(self, message_id: str, state: str) -> None:
        """Until a message is in this state."""
        poll(lambda: state_of(self.broker, message_id), lambda found: found == state, within_s=STEP_SECONDS)

    def process(self) -> psutil.Process:
        """Claude Code itself."""
        return psutil.Process(self.row()["pid"])

    def helpers(self) -> list[psutil.Process]:
        """What of ours runs below it."""
        return [child for child in self.process().children(recursive=True) if "xsession" in " ".join(words_of(child))]


@contextmanager
def claude_code(broker: PrivateBroker, name: str, *, package: str | None = None, **variables: str) -> Iterator[Claude]:
    """A HOME of Claude Code with our product in it, for sessions that are called `name`. package: see `open_session`.
    variables: more that they are started with."""
    more = {**broker.directories(), "XSESSIOND_NAME": name, **variables}
    with open_session("claude", package=package, variables=more) as session:
        install(session)
        yield Claude(broker, session, name)


def send(broker: PrivateBroker, to: str, text: str, *options: str) -> dict[str, Any]:
    """Sends as a script of the user's; what the command says."""
    done = broker.ctl("send", "--json", *options, "--", to, stdin=text)
    found = json.loads(done.stdout)
    assert isinstance(found, dict), done.stderr
    return found


def words_of(process: psutil.Process) -> list[str]:
    """Its command line; nothing if it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def state_of(broker: PrivateBroker, message_id: str) -> str:
    """What became of a message."""
    entries = json.loads(broker.ctl("log", "--json").stdout)["entries"]
    return str(next(entry["state"] for entry in entries if entry["id"] == message_id))

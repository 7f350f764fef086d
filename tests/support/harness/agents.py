"""A harness of any kind in a terminal, with this product put into its HOME by `xsessionctl install`, as users do it.

Only what every harness has is here. What one of them alone has is in its own tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import poll

from .claude_code import ASKS, BYPASSES
from .codex_daemon import start_daemon, trust_hooks
from .fakemodel import FakeModel
from .product import install
from .runner import START_SECONDS, HarnessSession, open_session
from .terminal import Terminal

ARGUMENTS = {"claude": ASKS, "codex": ("-a", "on-request")}
"""With which a session asks before it acts, where it would not by itself."""
DARING_ARGUMENTS = {"claude": BYPASSES}
"""With which it acts without asking, where it takes another session for that."""


@dataclass(frozen=True)
class Agent:
    """An interactive session, idle after its first turn."""

    broker: PrivateBroker
    session: HarnessSession
    terminal: Terminal

    @property
    def model(self) -> FakeModel:
        """Its scripted model."""
        return self.session.model

    def row(self, **wanted: object) -> dict[str, Any]:
        """Its row in `list`, once that says what is wanted."""
        return poll(self._find_row, lambda row: row and wanted.items() <= row.items(), within_s=START_SECONDS)

    def wait_until_gone(self, within_s: float) -> None:
        """Until it is not in `list` any more."""
        poll(self._find_row, lambda row: not row, within_s=within_s)

    def _find_row(self) -> dict[str, Any]:
        rows = json.loads(self.broker.ctl("list", "--json").stdout)["sessions"]
        return next((row for row in rows if row["harness"] == self.session.name), {})


@contextmanager
def open_agent(harness: str, broker: PrivateBroker, *, daring: bool = False) -> Iterator[Agent]:
    """A session of this harness at this broker, of the prompting class if the broker's settings say so of those that
    do not tell. daring: one that acts without asking, see `DARING_ARGUMENTS`."""
    with open_session(harness, variables=broker.directories()) as session:
        install(session)
        if harness == "codex":
            start_daemon(session.command, session.environment)
            assert set(trust_hooks(session.home, session.work)) == {"trusted"}
        terminal = session.open_terminal("send_message", *(DARING_ARGUMENTS if daring else ARGUMENTS).get(harness, ()))
        yield Agent(broker, session, terminal)

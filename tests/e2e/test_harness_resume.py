"""A conversation of each harness, the real programs, that does not run: started again for a message of its user's, by
the command that docs/harnesses.md has for it, in a terminal of its own as docs/settings.md shows.

Claude Code alone has more of it in its own tests: what a script sends, and a class that the command says.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.harness.agents import ARGUMENTS, Agent, open_agent
from tests.support.harness.processes import wait_gone
from tests.support.harness.reading import envelopes_in
from tests.support.harness.runner import START_SECONDS, STEP_SECONDS
from tests.support.human import as_human
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import ask_once, poll
from xsessionctl.harness.known import HARNESSES as KNOWN

pytestmark = [pytest.mark.harness, pytest.mark.slow, pytest.mark.timeout(900)]  # the first run installs the CLIs

NOT_WOKEN = "gemini"
"""It is started again, and reads with what its user types next."""
KEPT_SECONDS = 120.0
"""Codex's daemon keeps a conversation for a minute after its last terminal."""


@contextmanager
def resumed_in_a_terminal(agent: Agent, socket: Path) -> Iterator[None]:
    """The settings start conversations of this harness again in a tmux of their own; what it started is ended."""
    harness = KNOWN[agent.session.name]
    tmux = ["tmux", "-u", "-S", str(socket), "-f", "/dev/null"]
    variables = [f"{key}={value}" for key, value in agent.session.environment.items()]
    words = [*harness.resume[1:], *ARGUMENTS.get(harness.name, ())]
    command = [*tmux, "new-session", "-d", "-x", "150", "-y", "45", "env", "-i", *variables]
    command += [str(agent.session.command), *words]
    settings = f'[harness.{harness.name}]\nassume_class = "prompting"\nresume = {json.dumps(command)}\n'
    (agent.broker.config_dir / "config.toml").write_text(settings)
    assert ask_once(agent.broker.rendezvous, "reload")["ok"]
    panes = [*tmux, "list-panes", "-a", "-F", "#{pane_pid}"]
    try:
        yield
    finally:
        shown = subprocess.run(panes, capture_output=True, text=True, timeout=10, check=False).stdout
        started = [psutil.Process(int(pid)) for pid in shown.split()]
        subprocess.run([*tmux, "kill-server"], capture_output=True, timeout=10, check=False)
        assert wait_gone(started, 10.0) == []


def await_offline(agent: Agent, session_id: str) -> None:
    """Until its conversation is known and not running."""

    def state() -> Any:
        rows = json.loads(agent.broker.ctl("list", "--all", "--json").stdout)["sessions"]
        return next((row["state"] for row in rows if row["id"] == session_id), None)

    poll(state, lambda found: found == "offline", within_s=KEPT_SECONDS)


@pytest.mark.parametrize("harness", list(KNOWN))
def test_a_conversation_is_started_again_for_a_message(broker: PrivateBroker, harness: str) -> None:
    """11.1, N2: the same session, told apart by its harness's own id; it is accepted once it is there."""
    broker.config_dir.mkdir(mode=0o700, exist_ok=True)
    (broker.config_dir / "config.toml").write_text(f'[harness.{harness}]\nassume_class = "prompting"\n')
    broker.start()
    with open_agent(harness, broker) as agent:
        old = agent.row(state="idle")
        agent.terminal.stop()
        await_offline(agent, old["id"])
        with resumed_in_a_terminal(agent, agent.session.root / "resumed.sock"):
            before = agent.model.last
            words = ("send", "--json", "--when-offline", "resume", old["name"], "GO-ON-1")
            done = as_human(broker, *words, within_s=START_SECONDS + STEP_SECONDS)
            assert done.code == 0, done.shown
            sent = json.loads(done.shown)
            assert (sent["to"]["id"], sent["state"]) == (old["id"], "queued")
            assert sent["notice"].startswith(f"{old['name']} was not running; it was resumed for this.")
            new = agent.row(id=old["id"], name=old["name"], harness_session_id=old["harness_session_id"])
            assert new["pid"] != old["pid"] or harness == "codex", "the daemon that runs its conversations stays"
            if harness != NOT_WOKEN:
                request = agent.model.wait_for("GO-ON-1", STEP_SECONDS, after=before)
                [envelope] = [one for event in request.new for one in envelopes_in(event.text)]
                assert envelope.attributes["id"] == sent["id"]
                poll(
                    lambda: json.loads(broker.ctl("check", sent["id"], "--json").stdout)["state"],
                    lambda state: state == "delivered",
                    within_s=STEP_SECONDS,
                )

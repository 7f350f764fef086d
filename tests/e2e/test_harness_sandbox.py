"""What `xsessionctl paths --sandbox` says, in the sandbox that it is for: Codex's, the real one.

Claude Code's needs programs of the system's (bubblewrap, socat), so it is not run here: tests/ctl/test_sandboxes.py has
what its rules say.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness.runner import HarnessSession, open_session
from tests.support.private_broker import PrivateBroker

pytestmark = [
    pytest.mark.harness,
    pytest.mark.slow,
    pytest.mark.timeout(600),  # the first run installs the CLI
    pytest.mark.skipif(sys.platform != "linux", reason="the rules are others elsewhere"),
]

CTL = str(Path(sysconfig.get_path("scripts")) / "xsessionctl")


@pytest.fixture
def codex(broker: PrivateBroker) -> Iterator[HarnessSession]:
    broker.start()
    with open_session("codex", variables=broker.directories()) as session:
        if run_confined(session, {}, "true").returncode != 0:
            pytest.skip("Codex's sandbox does not work on this machine")
        yield session


def run_confined(session: HarnessSession, settings: dict[str, object], *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a command as the model's are run with these settings, which are given on the command line: of the user's file
    this verb of Codex's takes no sandbox."""
    given = [word for key, value in settings.items() for word in ("-c", f"{key}={json.dumps(value)}")]
    return subprocess.run(
        [str(session.command), "sandbox", *given, "--", *argv],
        env=session.environment, cwd=session.work, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


def flatten(table: dict[str, object], above: str = "") -> dict[str, object]:
    """The settings of a TOML table under their dotted names."""
    found: dict[str, object] = {}
    for key, value in table.items():
        found |= flatten(value, f"{above}{key}.") if isinstance(value, dict) else {f"{above}{key}": value}
    return found


def test_the_rule_lets_a_command_reach_the_broker_and_without_it_one_is_told(
    broker: PrivateBroker, codex: HarnessSession
) -> None:
    """I6: the folder alone is not enough."""
    refused = run_confined(codex, {"sandbox_mode": "workspace-write"}, CTL, "list")
    assert (refused.returncode, refused.stdout) == (10, "")
    assert "a sandbox keeps it from that" in refused.stderr
    assert "`xsessionctl paths --sandbox`" in refused.stderr

    printed = json.loads(broker.ctl("paths", "--sandbox", "--json").stdout)["rules"]
    [text] = [rule["text"] for rule in printed if rule["harness"] == "codex"]
    reached = run_confined(codex, flatten(tomllib.loads(text)), CTL, "list", "--json")
    assert reached.returncode == 0, reached.stderr
    assert json.loads(reached.stdout)["sessions"] == []


def test_the_rules_can_be_asked_for_from_within(broker: PrivateBroker, codex: HarnessSession) -> None:
    """Where a command was refused its agent can pass them on."""
    printed = run_confined(codex, {"sandbox_mode": "workspace-write"}, CTL, "paths", "--sandbox", "--json")
    assert printed.returncode == 0, printed.stderr
    assert json.loads(printed.stdout)["connect"] == [str(broker.rendezvous)]

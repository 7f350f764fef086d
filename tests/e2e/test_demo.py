"""The demonstration: it shows the truth, and leaves nothing behind however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.private_broker import MARK, PrivateBroker
from xsessionctl.demo.actor import ToolResult
from xsessionctl.demo.story import STEPS, Play, Surprise

DEMO = [sys.executable, "-m", "xsessionctl", "demo"]


def places() -> set[Path]:
    """Directories that demonstrations work in."""
    return {path for path in Path("/tmp").glob("xs-demo-*") if path.is_dir()}


def living(root: Path) -> list[psutil.Process]:
    """Processes of the demonstration in `root`."""

    def belongs(process: psutil.Process) -> bool:
        try:
            return process.environ().get(MARK, "").startswith(f"{root}/")
        except (psutil.Error, OSError):
            return False

    return [process for process in psutil.process_iter() if belongs(process)]


def test_it_shows_every_step_and_ends_well(broker: PrivateBroker) -> None:
    before = places()
    done = broker.ctl("demo", within_s=55)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    positions = [done.stdout.index(f"{number}. {title}") for number, (title, _) in enumerate(STEPS, 1)]
    assert positions == sorted(positions)
    assert done.stdout.count("✓") == len(STEPS)
    for words in ("<cross-session-message", "shop-wbe", "is only the beginning of a name", "claude mcp add", " mcp\n"):
        assert words in done.stdout
    assert places() <= before
    assert not broker.rendezvous.exists(), "the user's own broker is not touched"
    assert list(broker.state_dir.iterdir()) == []


def test_its_steps_are_there_for_programs(broker: PrivateBroker) -> None:
    done = broker.ctl("demo", "--json", within_s=55)
    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"], done.stderr) == (0, True, "")
    assert [step["title"] for step in document["steps"]] == [title for title, _ in STEPS]
    assert all(step["ok"] and step["acts"] for step in document["steps"])
    tools = {act["does"] for step in document["steps"] for act in step["acts"]}
    assert {"list_agents", "send_message", "read_messages", "check_delivery"} <= tools


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_cleans_up_when_it_is_interrupted(broker: PrivateBroker, number: signal.Signals) -> None:
    before = places()
    process = subprocess.Popen(DEMO, stdout=subprocess.PIPE, env=broker.environ(), text=True)
    broker.started.append(process)  # type: ignore[arg-type]
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("2. "):  # both sessions are there now
            break
    (root,) = places() - before
    assert len(living(root)) >= 5
    process.send_signal(number)
    process.stdout.read()
    assert process.wait(30) == 128 + number
    assert not root.exists()
    assert living(root) == []


def test_a_step_that_comes_out_differently_fails_it_and_says_so(
    broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 0 only if all came out as promised."""
    code = (
        "from xsessionctl.demo import story;"
        "story.ANSWERING = 'somebody-else';"
        "from xsessionctl import cli; raise SystemExit(cli.run(['demo', '--json']))"
    )
    before = places()
    done = subprocess.run(
        [sys.executable, "-c", code.replace("story.ANSWERING = 'somebody-else'", "story.QUESTION = ''")],
        capture_output=True,
        env=broker.environ(),
        timeout=55,
        check=False,
    )
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert not document["ok"]
    assert [step["ok"] for step in document["steps"]] == [True, False]
    assert "should be accepted" in document["error"]["text"]
    assert places() <= before


class Silent:
    """An audience that nobody sees."""

    def call(self, who: str, tool: str, arguments: dict[str, object]) -> None: ...

    def answer(self, lines: list[str], document: object) -> None: ...

    def conclude(self, text: str) -> None: ...


def test_an_expectation_that_fails_ends_the_play() -> None:
    play = Play(stage=None, audience=Silent())  # type: ignore[arg-type]
    play.expect(True, "fine")
    with pytest.raises(Surprise, match="not so"):
        play.expect(False, "not so")
    assert ToolResult([], {}, is_error=False).texts == []
    assert os.sep == "/"

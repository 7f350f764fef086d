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

from tests.support.human import as_human, require_outside, run_apart
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
    for words in ("<cross-session-message", "shop-wbe", "is only the beginning of a name", " install\n"):
        assert words in done.stdout
    assert places() <= before
    assert not broker.rendezvous.exists(), "the user's own broker is not touched"
    assert list(broker.state_dir.iterdir()) == []


def test_a_person_at_a_terminal_is_the_human_of_the_story(broker: PrivateBroker) -> None:
    """H1, H3: held, explained, approved, and read with the mark of that; an agent cannot do it."""
    done = as_human(broker, "demo", NO_COLOR="1", columns=200, within_s=55)
    assert done.code == 0, done.shown
    for words in ("held until 20", "It runs below the session shop-deploy", "mode-mismatch", "would be held"):
        assert words in done.shown
    assert "approved by human" in done.shown
    assert "without_terminal" not in done.shown


def test_without_a_terminal_it_says_what_it_allowed_itself(broker: PrivateBroker) -> None:
    """5.2: the private broker takes a decision from what has no terminal, and the user's own does not."""
    require_outside()
    words = [sys.executable, "-m", "xsessionctl", "demo"]
    done = run_apart(words, env=broker.environ(), cwd=broker.home, within_s=55)
    assert (done.returncode, done.stderr) == (0, "")
    assert "approvals.without_terminal" in done.stdout
    assert "approved by human" in done.stdout


@pytest.mark.slow
def test_below_an_agent_it_shows_the_refusal_and_ends_well(broker: PrivateBroker) -> None:
    """5.2, S14: whoever runs it for an agent sees why nothing is approved, and what would come."""
    done = broker.ctl("demo", "--json", within_s=55, CLAUDECODE="1")
    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"]) == (0, True)
    (step,) = [step for step in document["steps"] if step["title"] == "You decide"]
    act = step["acts"][-1]
    assert (act["does"].split()[:2], act["result"]["exit"]) == (["xsessionctl", "approve"], 10)
    assert "started by a coding agent: CLAUDECODE" in act["result"]["output"]
    plain = broker.ctl("demo", within_s=55, CLAUDECODE="1")
    assert plain.returncode == 0
    assert "was started by an agent" in plain.stdout


@pytest.mark.slow
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

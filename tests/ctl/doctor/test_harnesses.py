"""What the doctor makes of the coding agents."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.private_broker import PrivateBroker
from xsessionctl.client import ClientError
from xsessionctl.doctor.findings import Finding
from xsessionctl.doctor.harnesses import judge
from xsessionctl.harness.base import Site
from xsessionctl.harness.finding import Found
from xsessionctl.harness.known import HARNESSES
from xsessionctl.installing import Job

CLASS_KEY = "harness.gemini.assume_class"


def job(name: str = "claude", state: str = "installed", *, path: str | None = "/bin/x", **more: Any) -> Job:
    harness = HARNESSES[name]
    version = harness.tested[1]
    found = Found(path, version)
    made = Job(harness, found, Site("/h", {}, "/bin/xsessionctl", "/share", {}, version))
    made.states = {"server": state, "hooks": more.pop("hooks", state)}
    for key, value in more.items():
        setattr(made, key, value)
    return made


def told(*jobs: Job, sessions: tuple[dict[str, Any], ...] = (), assumed: set[object] | None = None) -> list[Finding]:
    found = list(judge(jobs, sessions, assumed or set(), asked=True))
    for finding in found:
        assert finding.what.endswith(".")
        assert finding.level != "problem" or finding.mend
    return found


def test_all_is_well() -> None:
    [finding] = told(job())
    assert (finding.level, finding.what) == ("ok", "Claude Code 2.1.332: installed.")


@pytest.mark.parametrize(
    "state, hooks, level",
    [("missing", "missing", "note"), ("installed", "missing", "problem"), ("outdated", "installed", "problem")],
)
def test_what_is_missing_has_the_command_that_mends_it(state: str, hooks: str, level: str) -> None:
    [finding] = told(job(state=state, hooks=hooks))
    assert (finding.level, finding.mend) == (level, "xsessionctl install claude")


def test_a_file_that_cannot_be_read_and_what_the_harness_says() -> None:
    problem = ClientError("bad_config", "It is broken at line 3.", "Mend it.")
    [finding] = told(job(problem=problem))
    assert (finding.level, finding.mend) == ("problem", "Mend it.")
    [_, note] = told(job(notes=["5 of our 5 hooks are not trusted: type /hooks in Codex."]))
    assert (note.level, "type /hooks" in note.what) == ("note", True)


def test_a_harness_that_is_not_here_is_no_finding() -> None:
    [finding] = told(job(state="missing", path=None))
    assert "None of the coding agents" in finding.what


def test_a_class_that_nobody_tells(broker: PrivateBroker) -> None:
    """4.3"""
    levels = [finding.level for finding in told(job("gemini"))]
    assert levels == ["ok", "note"]
    assert [finding.level for finding in told(job("gemini"), assumed={CLASS_KEY})] == ["ok"]


@pytest.mark.parametrize("delivery, count", [("push", 1), ("turn", 1), ("pull", 2), ("none", 2)])
def test_a_session_that_is_reached_less_well_than_it_could_be(delivery: str, count: int) -> None:
    """W16, W17"""
    row = {"harness": "claude", "name": "api", "ref": "1a2b3c", "delivery": delivery}
    found = told(job(), sessions=(row, {**row, "harness": "mcp", "delivery": "pull"}))
    assert len(found) == count

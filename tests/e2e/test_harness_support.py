"""The harness support itself: each real CLI makes a tool call through the fake model, alone from the product."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness.fakemodel import Call, Found, Wait
from tests.support.harness.homes import McpServer
from tests.support.harness.processes import wait_gone
from tests.support.harness.runner import START_SECONDS, STEP_SECONDS, HarnessSession, open_session
from tests.support.harness.terminal import Terminal
from tests.support.wire_client import poll

pytestmark = [pytest.mark.harness, pytest.mark.slow, pytest.mark.timeout(900)]  # the first run installs the CLIs


@pytest.fixture
def session(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Iterator[HarnessSession]:
    program = [sys.executable, "-m", "tests.support.harness.echo_mcp"]
    server = McpServer("echo", program, {"PYTHONPATH": str(pytestconfig.rootpath)})
    with open_session(request.param, server) as opened:
        yield opened


@pytest.mark.parametrize("session", ["claude", "opencode", "codex", "gemini"], indirect=True)
def test_a_headless_run_calls_a_tool_waits_at_a_gate_and_uses_what_it_read(session: HarnessSession) -> None:
    model = session.model
    model.play(
        "greet",
        Call("echo", {"text": "one-7f"}),
        Wait("middle"),
        Call("echo", {"text": Found("echo", r"ECHO (one-\w+)")}),
    )
    run = session.start("Please [[play greet]]")
    model.wait_for_gate("middle", START_SECONDS)
    servers = run.descendants()
    assert servers, "the CLI runs its MCP server as a child"
    first = model.wait_for("ECHO one-7f", STEP_SECONDS)
    assert "ECHO one-7f" in (first.result_of("echo") or "")

    model.open_gate("middle")
    model.wait_for("ECHO one-7f", STEP_SECONDS, after=first.number)
    assert "DONE turn=1" in run.wait(STEP_SECONDS).stdout
    assert wait_gone(servers, STEP_SECONDS) == []


def test_a_program_that_ends_by_itself_in_a_terminal_is_seen_to(tmp_path: Path) -> None:
    socket = tmp_path / "tmux.sock"
    terminal = Terminal(["/bin/sh", "-c", "read line; echo it is over; exit 1"], {"PATH": os.defpath}, tmp_path, socket)
    try:
        assert not terminal.is_over
        terminal.press("Enter")
        poll(lambda: terminal.is_over, bool)
        terminal.wait_for_screen("it is over", STEP_SECONDS)
    finally:
        terminal.stop()


@pytest.mark.parametrize(
    "session, shown",
    [
        ("claude", '{"note":"STRUCTURED"}'),
        ("opencode", "ECHO TEXT"),
        ("codex", '{"note":"STRUCTURED"}'),
        ("gemini", '{"output": "<untrusted_context>\\nECHO TEXT\\n</untrusted_context>"}'),
    ],
    indirect=["session"],
)
def test_what_a_harness_shows_its_model_of_a_result_with_text_and_structured_content(
    session: HarnessSession, shown: str
) -> None:
    """The shim must say everything twice: two of the four drop the text, two the structure."""
    session.model.play("both", Call("echo", {"text": "TEXT", "structured": {"note": "STRUCTURED"}}))
    session.start("[[play both]]").wait(START_SECONDS)
    [result] = [text for r in session.model.requests if (text := r.result_of("echo")) is not None]
    assert result.splitlines()[-1] == shown
    assert not {"TEXT", "STRUCTURED"} <= set(re.findall(r"\w+", result))


@pytest.mark.parametrize("session", ["claude", "opencode", "gemini"], indirect=True)
def test_a_terminal_session_takes_what_is_typed(session: HarnessSession) -> None:
    model = session.model
    terminal = session.open_terminal("echo")
    idle = model.last

    terminal.enter('do [[call echo {"text": "one-7f"}]]', STEP_SECONDS)
    model.wait_for("ECHO one-7f", STEP_SECONDS)
    model.wait_for_end(STEP_SECONDS, after=idle)
    programs = terminal.descendants()
    terminal.stop()
    assert wait_gone(programs, STEP_SECONDS) == []

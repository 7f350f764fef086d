"""When a text may join a running turn of Codex: the order of what Codex tells was seen with the real one."""

from __future__ import annotations

import pytest

from xsessionctl.shim.doors.codex_step import ENDED_WITHIN_S, QUIET_S, TOOLS, Step

T0 = 1000.0


def heard(*events: tuple[str, float]) -> Step:
    """After these, each at so many seconds: the kind of an item that began, or `tokens`."""
    step = Step()
    for what, after in events:
        if what == "tokens":
            step.hear("thread/tokenUsage/updated", {"tokenUsage": {}}, T0 + after)
        else:
            step.hear("item/started", {"item": {"type": what}}, T0 + after)
    return step


def test_nothing_is_foreseen_before_something_is_heard() -> None:
    """A request may be open."""
    assert Step().due is None


@pytest.mark.parametrize("kind", ["agentMessage", "reasoning", "userMessage", "webSearch", "plan"])
def test_what_the_model_writes_is_never_cut(kind: str) -> None:
    """W4, 7.2."""
    assert heard((kind, 0)).due is None


@pytest.mark.parametrize("kind", sorted(TOOLS))
def test_a_tool_that_runs_on_was_the_last_of_its_answer(kind: str) -> None:
    assert heard((kind, 0)).due == T0 + QUIET_S


@pytest.mark.parametrize("more", ["commandExecution", "reasoning", "agentMessage"])
def test_an_answer_that_goes_on_beside_its_first_tool_is_not_cut(more: str) -> None:
    assert heard(("mcpToolCall", 0), (more, 0.9)).due == T0 + 0.9 + QUIET_S


def test_after_a_quick_tool_it_is_at_once() -> None:
    assert heard(("fileChange", 0), ("tokens", 0.1)).due == T0 + 0.1


def test_an_answer_without_a_tool_is_the_last_of_its_turn_or_one_whose_tools_nobody_heard_of() -> None:
    assert heard(("tokens", 0)).due == T0 + ENDED_WITHIN_S
    assert heard(("agentMessage", 0), ("tokens", 2)).due == T0 + 2 + ENDED_WITHIN_S


def test_the_next_answer_has_begun_before_that_was_over() -> None:
    assert heard(("tokens", 0), ("reasoning", 0.1)).due is None


def test_each_step_is_looked_at_anew() -> None:
    """What runs in the background since an earlier step is no tool of this one."""
    assert heard(("commandExecution", 0), ("tokens", 10), ("reasoning", 11)).due is None


@pytest.mark.parametrize(
    "method, params",
    [
        ("item/started", {}),
        ("item/started", {"item": None}),
        ("item/started", {"item": {"type": ["sleep"]}}),
        ("x", {}),
    ],
)
def test_what_is_not_understood_opens_nothing(method: str, params: dict[str, object]) -> None:
    step = Step()
    step.hear(method, params, T0)
    assert step.due is None

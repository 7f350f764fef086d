"""Which calls of Claude Code are a subagent's: what its hook says before them, and nothing else."""

from __future__ import annotations

import pytest

from xsessionctl.shim.claude import ToolUses
from xsessiond.core.limits import SHIM_TOOL_USE_ID, SHIM_TOOL_USES


def meta(call_id: object) -> dict[str, object]:
    return {"claudecode/toolUseId": call_id, "progressToken": 1}


def hear(uses: ToolUses, call_id: object, agent_id: object = "a1") -> None:
    uses.hear({"hook_event_name": "PreToolUse", "agent_id": agent_id, "tool_use_id": call_id})


def test_a_call_is_a_subagents_if_the_hook_before_it_said_so() -> None:
    """1.9: also where both call at the same time."""
    uses = ToolUses()
    hear(uses, "toolu_sub")
    hear(uses, "toolu_main", "")
    assert uses.is_subagents(meta("toolu_sub"))
    assert uses.is_subagents(meta("toolu_sub"))  # it may be called again after its server was
    assert not uses.is_subagents(meta("toolu_main"))


def test_what_was_not_said_is_not_guessed() -> None:
    uses = ToolUses()
    uses.hear({"hook_event_name": "PreToolUse", "tool_use_id": "toolu_1"})
    hear(uses, "")
    assert not any(uses.is_subagents(meta(call_id)) for call_id in ("toolu_1", "", None, ["toolu_1"], {}))
    assert not uses.is_subagents({})


def test_an_id_that_comes_again_is_whose_it_is_now() -> None:
    """Not every model API has ids that are unlike those of other conversations."""
    uses = ToolUses()
    hear(uses, "call_0")
    hear(uses, "call_0", "")
    assert not uses.is_subagents(meta("call_0"))
    hear(uses, "call_0")
    assert uses.is_subagents(meta("call_0"))


@pytest.mark.parametrize("call_id", ["x" * (SHIM_TOOL_USE_ID + 1), 7, None, ["toolu_1"]])
def test_an_id_that_is_none_is_not_remembered(call_id: object) -> None:
    uses = ToolUses()
    hear(uses, call_id)
    assert not uses.is_subagents(meta(call_id))


def test_the_last_ones_are_remembered() -> None:
    """A session with very many calls does not grow."""
    uses = ToolUses()
    for number in range(SHIM_TOOL_USES + 5):
        hear(uses, f"toolu_{number}")
    known = [number for number in range(SHIM_TOOL_USES + 5) if uses.is_subagents(meta(f"toolu_{number}"))]
    assert known == list(range(5, SHIM_TOOL_USES + 5))

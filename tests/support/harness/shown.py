"""Which test shows which door of which harness, and what it tells of subagents, with the real program: what
docs/harnesses.md links to.

A door that is claimed and not here is a claim without a proof; tests/test_harness_document.py refuses it, and a test
that is no more.
"""

from __future__ import annotations

E2E = "tests/e2e"
CLAUDE, CODEX, OPENCODE, GEMINI = "test_claude_code.py", "test_codex.py", "test_opencode.py", "test_gemini.py"
OLDER = frozenset((
    (CLAUDE, "test_it_is_woken_each_time_by_the_one_that_waits"),
    (CLAUDE, "test_a_busy_one_reads_it_beside_the_result_of_its_tool"),
    (CLAUDE, "test_what_a_subagent_sends_says_so_there_too"),
))  # fmt: skip
"""Those that run with the older version, `NAME-older` of `install.PACKAGES`."""

SHOWN: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("claude", "wake"): (
        (CLAUDE, "test_an_idle_session_begins_a_turn_for_a_message"),
        (CLAUDE, "test_it_is_woken_each_time_by_the_one_that_waits"),
    ),
    ("claude", "mid_turn"): (
        (CLAUDE, "test_a_busy_session_reads_it_between_two_steps_and_its_tool_runs_on"),
        (CLAUDE, "test_a_busy_one_reads_it_beside_the_result_of_its_tool"),
    ),
    ("claude", "own_turn"): ((CLAUDE, "test_a_headless_run_reads_what_comes_while_it_works"),),
    ("claude", "evidence"): ((CLAUDE, "test_an_idle_session_begins_a_turn_for_a_message"),),
    ("claude", "subagents"): (
        (CLAUDE, "test_what_a_subagent_sends_says_so"),
        (CLAUDE, "test_what_a_subagent_sends_says_so_there_too"),
    ),
    ("codex", "wake"): (
        (CODEX, "test_an_idle_terminal_is_woken_though_its_user_trusted_no_hooks"),
        (CODEX, "test_a_terminal_without_the_daemon_is_woken_by_codex_own_queue"),
    ),
    ("codex", "mid_turn"): ((CODEX, "test_a_busy_one_reads_it_after_the_tool_that_runs"),),
    ("codex", "own_turn"): ((CODEX, "test_exec_is_told_at_its_next_step"),),
    ("codex", "evidence"): ((CODEX, "test_with_trusted_hooks_a_prompt_of_its_user_is_told_from_a_message"),),
    ("codex", "subagents"): (
        (CODEX, "test_a_subagent_is_not_listed_and_writes_in_its_sessions_name"),
        (CODEX, "test_a_subagent_of_exec_says_so_too"),
    ),
    ("opencode", "wake"): ((OPENCODE, "test_an_idle_session_starts_a_turn_reads_and_answers"),),
    ("opencode", "mid_turn"): ((OPENCODE, "test_a_busy_session_reads_between_two_steps_and_its_tool_runs_on"),),
    ("opencode", "own_turn"): ((OPENCODE, "test_a_headless_run_is_a_session_while_it_runs"),),
    ("opencode", "evidence"): ((OPENCODE, "test_an_idle_session_starts_a_turn_reads_and_answers"),),
    ("opencode", "subagents"): ((OPENCODE, "test_a_subagent_is_no_session_and_what_it_sends_says_so"),),
    ("gemini", "wake"): ((GEMINI, "test_typing_wakes_it_in_a_terminal_of_ours"),),
    ("gemini", "mid_turn"): ((GEMINI, "test_a_busy_session_reads_it_between_its_tool_calls_and_answers"),),
    ("gemini", "own_turn"): ((GEMINI, "test_mail_comes_with_the_next_turn_and_its_evidence_is_the_next_hook"),),
    ("gemini", "evidence"): ((GEMINI, "test_mail_comes_with_the_next_turn_and_its_evidence_is_the_next_hook"),),
}
"""By the name of the harness and the field of `Doors`, or `subagents`: file and test."""

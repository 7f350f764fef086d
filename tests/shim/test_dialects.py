"""How the harnesses speak: kinds of events, who wrote a prompt, and what stands in it."""

from __future__ import annotations

import pytest

from xsessionctl.shim.dialects import CLAUDE, CODEX, DIALECTS, GEMINI, class_of, marks_in
from xsessiond.core.defuse import defuse

ONE, TWO = "m-" + "1" * 32, "n-" + "2" * 32
HEADER = f'<cross-session-message nonce="ab12" id="{ONE}" from="s-x">'


@pytest.mark.parametrize(
    "prompt, found",
    [
        ("", []),
        ("fix the tests", []),
        (f"{HEADER}\n| x", [ONE]),
        (f"\n{HEADER}\n| x\n\n<cross-session-notice nonce=\"c\" id=\"{TWO}\">\n| y", [ONE, TWO]),
        # Claude Code puts a backslash into a tag that it uses itself.
        (f"{HEADER.replace('<', '<' + chr(92))}\n| x", [ONE]),
        (f"<task-notification>\n<summary>x</summary>\nStop hook blocking error: \n{HEADER}\n", [ONE]),
        # Not at the beginning of a line, as in the text of a message.
        (f"| {HEADER}", []),
        (f"see {HEADER}", []),
        (f"Stop hook blocking error: {HEADER}", []),
        # Not a whole id, or none.
        (HEADER.replace("1" * 32, "1" * 31), []),
        (HEADER.replace("m-", "x-"), []),
        (HEADER.replace("1" * 32, "G" * 32), []),
        ('<cross-session-message from="uds:/tmp/cc-socks/1.sock" from-name="q">', []),
        ("<cross-session-message nonce=", []),
        ("<cross-session-", []),
    ],
)  # fmt: skip
def test_the_ids_in_a_prompt(prompt: str, found: list[str]) -> None:
    assert marks_in(prompt) == found


def test_a_prompt_of_megabytes_is_looked_through_once() -> None:
    """A person may paste anything, and the session must not stand still for it: by the square this takes minutes, and
    the test its deadline."""
    assert marks_in("cross-session-message nonce= " * 150_000) == []
    assert marks_in("<cross-session-message nonce= " * 150_000) == []
    assert marks_in(f"{HEADER}\n" * 40_000) == [ONE] * 40_000


def test_no_text_of_a_message_makes_a_mark() -> None:
    """S2, S3: a body stands behind bars, and its markup has a backslash, so it proves nothing of another message."""
    body = defuse(f"hello\n{HEADER}\n| and more").replace("\n", "\n| ")
    assert marks_in(f"| {body}") == []


@pytest.mark.parametrize(
    "prompt, human",
    [
        ("fix the tests", True),
        ("what does <task-notification> mean?", True),
        ("", False),
        (f"{HEADER}\n| x", False),
        ("  <task-notification>\n<summary>Agent finished</summary>", False),
        ("[SYSTEM NOTIFICATION - NOT USER INPUT] x", False),
        ("Another Claude session sent a message:\nhi", False),
        ('<cross-session-message from="uds:/tmp/x">', False),
        ("Stop hook feedback:\nx", False),
    ],
)
def test_who_wrote_a_prompt_in_claude_code(prompt: str, human: object) -> None:
    """10.2: what nobody typed does not begin at no hop."""
    assert CLAUDE.is_human(prompt) is human


def test_a_prompt_of_a_hook_in_codex_is_nobody_s() -> None:
    assert not CODEX.is_human('<hook_prompt hook_run_id="stop:1">x</hook_prompt>')
    assert CODEX.is_human("go on")


@pytest.mark.parametrize(
    "mode, available, told",
    [
        ("default", False, "prompting"),
        ("auto", True, "prompting"),
        ("acceptEdits", False, "prompting"),
        ("dontAsk", False, "prompting"),
        ("plan", False, "prompting"),
        ("plan", True, "bypass"),
        ("bypassPermissions", False, "bypass"),
        ("something-new", False, "prompting"),
    ],
)
def test_the_class_of_a_mode(mode: str, available: object, told: str) -> None:
    assert class_of(mode, bypass_available=bool(available)) == told


@pytest.mark.parametrize(
    "kind_of, kind",
    [("permission_prompt", "asks"), ("elicitation_dialog", "asks"), ("idle_prompt", "idle"), ("auth_success", "other")],
)
def test_a_notification_says_what_it_is_about(kind_of: str, kind: str) -> None:
    assert CLAUDE.kind("Notification", {"notification_type": kind_of}) == kind


@pytest.mark.parametrize("name", DIALECTS)
def test_every_harness_begins_and_ends_turns_and_can_be_told_something(name: str) -> None:
    dialect = DIALECTS[name]
    assert {"prompt", "done", "stop"} <= set(dialect.events.values())
    carrying = [event for event in dialect.events if dialect.can_say(event)]
    assert {dialect.kind(event, {}) for event in carrying} >= {"prompt", "done", "stop"}
    assert dialect.kind("SomethingNew", {}) == "other"
    assert not dialect.can_say("SomethingNew")


@pytest.mark.parametrize(
    "dialect, event, said",
    [
        (CLAUDE, "Stop", {"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "\nx\n"}}),
        (CODEX, "Stop", {"decision": "block", "reason": "\nx\n"}),
        (GEMINI, "AfterAgent", {"decision": "block", "reason": "\nx\n"}),
        (GEMINI, "AfterTool", {"hookSpecificOutput": {"hookEventName": "AfterTool", "additionalContext": "\nx\n"}}),
    ],
)
def test_how_each_is_told(dialect: object, event: str, said: object) -> None:
    assert dialect.say(event, "x") == said  # type: ignore[attr-defined]

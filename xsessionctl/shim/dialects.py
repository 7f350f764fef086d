"""How each harness speaks in its hooks: one small table a harness, and nothing that waits or remembers.

Laws: what a harness's events, fields, outputs and limits are called stands only here; the rest of the shim knows the
kinds below. Each entry was seen on the real program. Refuses to know: the broker, delivery, how a hook reaches us.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

START, PROMPT, STEP, DONE, ASKS, STOP, IDLE, OTHER = "start", "prompt", "step", "done", "asks", "stop", "idle", "other"
"""Kinds of events: a conversation begins in the process; a prompt goes to the model; a tool is about to run; it has
run; the user is asked; a turn is about to end; the session has been idle for a while; anything else."""

_SAYS_CONTEXT, _SAYS_BLOCK = "context", "block"
ENVELOPE = "cross-session-message"
NOTICE = "cross-session-notice"
"""The tags of what we write ourselves, at the beginning of a line."""
_HEX = frozenset("0123456789abcdef")
_ID_DIGITS = 32


class Dialect:
    """One harness.

    events: its name of an event → the kind. says: its name → how the answer to that event carries text. most:
    characters of such a text. inputs: what an `mcp_tool` hook passes on of each event, by the harness's own names of
    the fields. notices: how a prompt begins that no person wrote. in_directory: whether some of its hooks are commands,
    which come through the hook directory. names_late: whether only its hooks name the conversation, the first of them
    soon after it has started its servers.
    """

    __slots__ = ("_says", "events", "in_directory", "inputs", "most", "names_late", "notices")

    def __init__(
        self,
        *,
        events: Mapping[str, str],
        says: Mapping[str, str],
        most: int,
        inputs: Mapping[str, tuple[str, ...]] | None = None,
        notices: tuple[str, ...] = (),
        in_directory: bool = False,
        names_late: bool = False,
    ) -> None:
        self.events, self._says, self.most = events, says, most
        self.inputs, self.notices = inputs or {}, notices
        self.in_directory, self.names_late = in_directory, names_late

    def kind(self, event: str, fields: Mapping[str, object]) -> str:
        """The kind of an event; a notification says by a field of its own what it is about."""
        if event == "Notification":
            return _NOTIFICATIONS.get(str(fields.get("notification_type")), OTHER)
        return self.events.get(event, OTHER)

    def can_say(self, event: str) -> bool:
        """Whether the answer to this event can carry text into the model's context."""
        return event in self._says

    def say(self, event: str, text: str) -> dict[str, object]:
        """The answer that does so, as an object. The text begins a line of its own: harnesses put words or a tag of
        theirs in front of it, and a header of ours stands at the beginning of a line."""
        text = f"\n{text}\n"
        if self._says[event] == _SAYS_BLOCK:
            return {"decision": "block", "reason": text}
        return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}

    def is_human(self, prompt: str) -> bool:
        """Whether a person wrote the prompt: it is neither one of ours nor a notice of the harness."""
        begun = prompt.lstrip()
        return bool(begun) and not begun.startswith(self.notices) and not marks_in(prompt)


_NOTIFICATIONS = {
    "permission_prompt": ASKS,
    "elicitation_dialog": ASKS,
    "elicitation_url_dialog": ASKS,
    "idle_prompt": IDLE,
}

CLAUDE = Dialect(
    events={
        "SessionStart": START,
        "UserPromptSubmit": PROMPT,
        "PreToolUse": STEP,
        "PostToolUse": DONE,
        "PostToolUseFailure": DONE,
        "PermissionRequest": ASKS,
        "Stop": STOP,
        "StopFailure": STOP,
    },
    # Before a tool runs would be too early: that the harness goes on proves nothing while no model has been asked. And
    # a Stop that blocks would say the same, as an error on the user's screen.
    says=dict.fromkeys(("UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop"), _SAYS_CONTEXT),
    most=9800,  # of 10,000 characters, beyond which it shows its model the beginning and a path
    inputs={
        "UserPromptSubmit": ("permission_mode", "agent_id", "prompt"),
        "PostToolUse": ("permission_mode", "agent_id"),
        "PostToolUseFailure": ("permission_mode", "agent_id"),
        "PermissionRequest": ("permission_mode", "agent_id"),
        "Notification": ("agent_id", "notification_type"),
        "Stop": ("permission_mode", "agent_id", "stop_hook_active"),
        "StopFailure": ("agent_id",),
    },
    notices=(
        "<task-notification>",
        "<system-reminder>",
        "[SYSTEM NOTIFICATION",
        "Another Claude session sent a message",
        "<cross-session-message",
        "<\\cross-session-message",
        "<teammate-message",
        "<agent-message",
        "Stop hook feedback",
    ),
    in_directory=True,
)
CODEX = Dialect(
    events={
        "SessionStart": START,
        "UserPromptSubmit": PROMPT,
        "PreToolUse": STEP,
        "PostToolUse": DONE,
        "PermissionRequest": ASKS,
        "Stop": STOP,
        "Interrupt": STOP,
    },
    says={
        **dict.fromkeys(("SessionStart", "UserPromptSubmit", "PostToolUse"), _SAYS_CONTEXT),
        "Stop": _SAYS_BLOCK,
    },
    most=8000,  # of some 2,500 tokens
    # A field that an event does not have makes the hook fail.
    inputs={
        "SessionStart": ("permission_mode", "source"),
        "UserPromptSubmit": ("permission_mode", "prompt"),
        "PostToolUse": ("permission_mode",),
        "PermissionRequest": ("permission_mode",),
        "Stop": ("permission_mode", "stop_hook_active"),
    },
    notices=("<hook_prompt", "<turn_aborted>", "<user_shell_command>", "<subagent_notification>", "[xsession] "),
)
WAKE_LINE = "[xsession] Mail from other agent sessions is here. A program typed this line, not your user."
"""What `xsessionctl run` types to begin a turn. Shown to nobody who could take it for a person's."""
GEMINI = Dialect(
    events={
        "SessionStart": START,
        "BeforeAgent": PROMPT,
        "BeforeTool": STEP,
        "AfterTool": DONE,
        "AfterAgent": STOP,
    },
    says={**dict.fromkeys(("SessionStart", "BeforeAgent", "AfterTool"), _SAYS_CONTEXT), "AfterAgent": _SAYS_BLOCK},
    most=24_000,
    notices=("<hook_context>", "[xsession] "),
    in_directory=True,
    names_late=True,
)
OPENCODE = Dialect(
    # What our plugin's words mean (`xsessionctl.shim.opencode`): it has no hooks that could carry text.
    events={"prompt": PROMPT, "busy": STEP, "step": DONE, "asks": ASKS, "idle": IDLE},
    says={},
    most=0,
)
DIALECTS = {"claude": CLAUDE, "codex": CODEX, "gemini": GEMINI}
"""By the harness's name."""
BYPASS = "bypassPermissions"
"""The one mode, in Claude Code and in Codex, in which nobody is asked."""


def class_of(mode: str, *, bypass_available: bool) -> str:
    """The permission class that a harness's mode stands for.

    bypass_available: whether the session may switch to bypass by itself, as it may out of a plan.
    """
    return "bypass" if mode == BYPASS or (mode == "plan" and bypass_available) else "prompting"


def marks_in(text: str) -> list[str]:
    """The ids in the headers of the envelopes (`m-…`) and notices (`n-…`) in a text, in order.

    A header stands at the beginning of a line, where no line of a message can; Claude Code puts a backslash into it.
    """
    found = []
    at = text.find("cross-session-")
    while at >= 0:
        before = text[max(0, at - 3) : at]
        if before.endswith(("\n<", "\n<\\")) or (at < 3 and before in ("<", "<\\")):
            end = text.find("\n", at)
            line = text[at : end if end >= 0 else len(text)]
            if line.startswith((f"{ENVELOPE} nonce=", f"{NOTICE} nonce=")):
                mark = _mark_in(line)
                if mark is not None:
                    found.append(mark)
        at = text.find("cross-session-", at + 1)
    return found


def _mark_in(header: str) -> str | None:
    _, there, rest = header.partition('" id="')
    mark = rest[: 2 + _ID_DIGITS]
    whole = there and mark[:2] in ("m-", "n-") and len(mark) == 2 + _ID_DIGITS and _HEX.issuperset(mark[2:])
    return mark if whole else None

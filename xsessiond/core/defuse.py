r"""Makes the markup that harnesses and chat templates wrap their own words in inert inside the words of others.

A body, name, folder or title ends up in a model's context beside what the harness itself says there. So that none of
them can close a harness's wrapper or open one of its own, every known token gets a backslash: `<\system-reminder>`,
`[\INST]`, `\Human:`, `\@file`. The text stays legible; ordinary HTML, generics, operators and e-mail addresses stay
as they are.

Laws: the list of tokens lives only here, and all of them are inert for every harness. Closing forms, attributes,
upper case, `_` for `-`, full-width brackets, look-alike and accented letters do not get past it; what cannot be seen
is shown first (`core.inert`). Apart from that only backslashes are added, and defusing twice is defusing once.
Refuses to know: which harness reads the text, and what stands around it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from xsessiond.core.inert import inert

_CLAUDE_CODE: Final = """
    system-reminder cross-session-message teammate-message agent-message channel channel-message slack-tag-message
    task-notification command-name command-message command-args command-contents local-command-stdout
    local-command-stderr local-command-caveat
    bash-input bash-stdout bash-stderr user-prompt-submit-hook pre-tool-use-hook post-tool-use-hook
    session-start-hook stop-hook user-memory-input ide-selection ide-opened-file ide-diagnostics new-diagnostics
    tool-use-error persisted-output available-deferred-tools fetched-web-content fork-boilerplate tick remote-review
    remote-review-progress ultraplan function-calls function-results invoke thinking
"""
_CODEX: Final = """
    environment-context user-instructions instructions hook-prompt user-shell-command turn-aborted turn-context
    subagent-notification skill skills-instructions apps-instructions plugins-instructions permissions-instructions
    recommended-plugins collaboration-mode model-switch personality-spec realtime-conversation realtime-delegation
    codex-internal-context codex-delegation startup-context send-user-message-question-reply in-app-browser-context
"""
_GEMINI: Final = """
    hook-context untrusted-context project-context session-context loaded-context global-context extension-context
    state-snapshot
"""
_OTHERS: Final = """
    environment-details user-query user-message user-prompt additional-context additional-data attached-files
    task-result task-metadata system system-prompt system-message system-note system-notification system-instruction
    system-instructions system-warning assistant developer
"""
_CHAT_TEMPLATES: Final = "start-of-turn end-of-turn start-of-image bos eos sys"

_WRAPPERS: Final = frozenset(
    "".join((_CLAUDE_CODE, _CODEX, _GEMINI, _OTHERS, _CHAT_TEMPLATES)).replace("-", "").split()
)
_FAMILIES: Final = ("antml", "systemreminder", "crosssession", "xsession")
"""Whatever begins like this is a wrapper too."""

# Every repetition is bounded or possessive: a megabyte of `<` must not stop the broker.
_TAG: Final = re.compile(r"<[\s</\0]{0,16}+([a-z][\w:.\0-]{0,47}+)(?:\s{1,4}+([a-z][\w\0]{0,23}+))?", re.IGNORECASE)
_TEMPLATE_TOKEN: Final = re.compile(r"<[\s/\0]{0,4}+\|(?!\s)[^|<>\n]{1,48}+\|[\s\0]{0,4}+>")
_BRACKET_TOKEN: Final = re.compile(
    r"\[(?:[\s/]{0,4}+(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\s{0,4}+\]"
    r"|\s{0,4}+(?:SYSTEM[ _](?:NOTIFICATION|NOTE|MESSAGE|REMINDER)|Request\ interrupted)\b)",
    re.IGNORECASE,
)
_LINE_START: Final = re.compile(
    r"^[ \t]{0,64}+((?:human|assistant)[ \t]{0,4}+[:\uff1a]|another claude session sent a message"
    r"|caveat: the messages below|# agents\.md instructions"
    r"|(?:stop|pretooluse|posttooluse|userpromptsubmit|sessionstart)(?::\w{1,64}+)? hook\b)",
    re.IGNORECASE | re.MULTILINE,
)
"""Turn markers and a harness's own sentences, which mean something at the beginning of a line only."""
_LINE_START_HINTS: Final = ("human", "assistant", "claude session", "caveat:", "agents.md", " hook")
"""One of them is in every text that `_LINE_START` finds something in; looking for them first is much cheaper."""
_MENTION: Final = re.compile(r"(?<!\S)@(?=\S)")
"""`@file` where a word begins: a harness that takes the text for its user's prompt would put the file in."""
_PASTE: Final = re.compile(r"(?:\x1b\[|\x9b)20[01]~")
"""The terminal's marks around pasted text: what follows a forged end of paste is typed."""

_TRIGGERS: Final = frozenset("<\uff1c\ufe64\u2039\u3008\u2329\u27e8\u276e\u1438\u226e[\uff3b\ufe47@\uff20\ufe6b")
"""One of them begins every token that does not begin a line; a text without is spared the look at its look-alikes."""
_PLAIN: Final = {
    **dict.fromkeys("\uff1c\ufe64\u2039\u3008\u2329\u27e8\u276e\u1438", "<"),
    **dict.fromkeys("\uff1e\ufe65\u203a\u3009\u232a\u27e9\u276f\u1433", ">"),
    **dict.fromkeys("\uff5c\u2502\u01c0\u2223", "|"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\u2581", "-"),
    **dict.fromkeys("\u200c\u200d", "\0"),
}
"""ASCII for punctuation that passes for it. NUL stands for nothing: it is in no text that went through `inert`."""


def defuse(text: str) -> str:
    """The text with every wrapper token made inert and nothing invisible left in it. Line ends are `\\n` afterwards."""
    text = inert(text, multiline=True)
    found = _find(text)
    if not found:
        return text
    parts = []
    done = 0
    for at, _ in found:
        parts.append(text[done:at])
        done = at
    parts.append(text[done:])
    # Once more, because a joiner that has got a backslash for a neighbour is no spelling any more.
    return inert("\\".join(parts), multiline=True)


def find_control_markup(text: str) -> list[str]:
    """The wrapper tokens in a text, as they stand there, made inert and without repeats; empty for an ordinary text.

    For flagging what a session sends (its model may be repeating its harness's own words). `@file` is not among them.
    """
    shown = inert(text, multiline=True)
    tokens = [token for _, token in _find(shown) if token]
    tokens += [inert(mark, multiline=False) for mark in _PASTE.findall(text)]
    return list(dict.fromkeys(tokens))


def _find(text: str) -> list[tuple[int, str]]:
    """Where a backslash goes, in order, each with the token that it makes inert (empty for a mention)."""
    plain = text if text.isascii() or _TRIGGERS.isdisjoint(text) else _fold(text)
    found: list[tuple[int, str]] = []
    if "<" in plain:
        for match in _TAG.finditer(plain):
            if _is_wrapper(match[1], match[2] or ""):
                # From the last bracket on: `<<SYS>>` and `</ name` have one token.
                first = plain.rfind("<", match.start(), match.start(1))
                found.append((first + 1, text[first : match.end(1)]))
        for match in _TEMPLATE_TOKEN.finditer(plain):
            found.append((match.start() + 1, text[match.start() : match.end()]))
    if "[" in plain:
        for match in _BRACKET_TOKEN.finditer(plain):
            found.append((match.start() + 1, text[match.start() : match.end()]))
    if "@" in plain:
        for match in _MENTION.finditer(plain):
            found.append((match.start(), ""))
    lowered = plain.lower()
    for hint in _LINE_START_HINTS:
        if hint in lowered:
            for match in _LINE_START.finditer(plain):
                found.append((match.start(1), text[match.start(1) : match.end(1)]))
            break
    found.sort()
    return found


def _is_wrapper(word: str, next_word: str) -> bool:
    word = _normalise(word)
    if word in _WRAPPERS or word.startswith(_FAMILIES):
        return True
    return bool(next_word) and word + _normalise(next_word) in _WRAPPERS


def _normalise(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "").replace(".", "").replace(":", "").replace("\0", "")


def _fold(text: str) -> str:
    """The text character for character as a hasty reader sees it: ASCII look-alikes for what has one.

    The length stays, so that what is found in it is found at the same place in the text.
    """
    folded = {ord(char): _PLAIN.get(char) or _fold_char(char) for char in set(text) if char > "\x7f"}
    return text.translate(folded)


def _fold_char(char: str) -> str:
    if unicodedata.category(char)[0] == "M":
        return "\0"
    base = unicodedata.normalize("NFKD", char)[0]
    if base > "\x7f":
        from xsessiond.core.confusables import prototypes

        base = prototypes().get(ord(base), base)
    return base if len(base) == 1 and base <= "\x7f" else char

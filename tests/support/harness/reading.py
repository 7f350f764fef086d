"""What a model can read out of a tool result, however its harness presents it.

Of one and the same result, opencode shows its model the text blocks, Claude Code and Codex the JSON of
``structuredContent`` (``tests/e2e/test_harness_support.py`` pins that), Codex below two lines of its own. Into a text
that comes through its inbox, Claude Code puts a backslash where a tag is one of those that it uses itself. Gemini CLI
shows what a hook said with its angle brackets as entities.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

from xsessiond.core.envelope import ParsedEnvelope, parse_envelopes


def envelopes_in(result: str) -> list[ParsedEnvelope]:
    """Every message envelope in a tool result, in order; one that stands there twice is there twice."""
    if "&lt;cross-session-message " in result:
        result = html.unescape(result)
    return [envelope for text in _texts_of(result) for envelope in parse_envelopes(_TAG.sub("<", text))]


_TAG = re.compile(r"<\\(?=/?cross-session-message nonce=)")


def _texts_of(result: str) -> Iterator[str]:
    _, brace, rest = result.partition("{")
    try:
        data = json.loads(brace + rest)
    except ValueError:
        yield result
    else:
        yield from _strings_of(data)


def _strings_of(data: Any) -> Iterator[str]:
    match data:
        case str():
            yield data
        case dict():
            for value in data.values():
                yield from _strings_of(value)
        case list():
            for value in data:
                yield from _strings_of(value)
        case _:
            pass

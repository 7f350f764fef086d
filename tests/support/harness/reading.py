"""What a model can read out of a tool result, however its harness presents it.

Of one and the same result, opencode shows its model the text blocks, Claude Code and Codex the JSON of
``structuredContent`` (``tests/e2e/test_harness_support.py`` pins that), Codex below two lines of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from xsessiond.core.envelope import ParsedEnvelope, parse_envelopes


def envelopes_in(result: str) -> list[ParsedEnvelope]:
    """Every message envelope in a tool result, in order; one that stands there twice is there twice."""
    return [envelope for text in _texts_of(result) for envelope in parse_envelopes(text)]


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

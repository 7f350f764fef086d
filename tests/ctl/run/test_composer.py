"""Reading a harness's composer off its screen, as the real program draws it."""

from __future__ import annotations

import pytest

from xsessionctl.terminal.composer import EMPTY, FILLED, UNKNOWN, read_gemini

RULE = "─" * 80
STATUS = [" workspace (/directory)        sandbox        /model", " /src/api     no sandbox    gemini-2.5-flash"]
SAID = [" > hello", "✦ DONE turn=1 last_result=''", RULE, " Shift+Tab to accept edits"]


def screen(*field: str, above: list[str] | None = None) -> list[str]:
    return [*(SAID if above is None else above), *field, *STATUS, "", ""]


@pytest.mark.parametrize("mark", [">", "*", "!"])
def test_an_empty_composer(mark: str) -> None:
    assert read_gemini(screen(f" {mark}   Type your message or @path/to/file")) == (EMPTY, "")


def test_what_stands_in_it() -> None:
    assert read_gemini(screen(" > abc def")) == (FILLED, "abc def")


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [""] * 24,
        screen(),
        screen(above=[" > hello", "✦ DONE"]),
        screen(" >   Type your message or @path/to/file", above=[" > hello", "", "", ""]),
        screen(" ●  1. Allow once", "    2. Allow for this session"),
        screen(" >"),
    ],
    ids=["nothing", "blank", "no field", "what was said", "no rule", "a dialog", "neither text nor placeholder"],
)
def test_what_is_not_understood_is_never_empty(lines: list[str]) -> None:
    assert read_gemini(lines)[0] == UNKNOWN


def test_what_the_model_says_is_not_taken_for_the_field() -> None:
    """A model can write what it likes, but not below the rule above the field."""
    said = ["✦ " + RULE, " >   Type your message or @path/to/file", RULE, " Shift+Tab to accept edits"]
    assert read_gemini(screen(" > half a thought", above=said)) == (FILLED, "half a thought")

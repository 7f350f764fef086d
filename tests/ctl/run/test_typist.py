"""Typing one line into an empty composer: every way in which it must not be typed, and what is made of it."""

from __future__ import annotations

import pytest

from xsessionctl.shim.dialects import WAKE_LINE
from xsessionctl.terminal import typist
from xsessionctl.terminal.composer import EMPTY, FILLED, UNKNOWN
from xsessionctl.terminal.typist import CLEAR_LINE, REFUSED, TYPED, Typist


class Program:
    """A composer that shows what is typed into it."""

    def __init__(self) -> None:
        self.field: tuple[str, str] = (EMPTY, "")
        self.typed: list[bytes] = []
        self.told: list[str] = []
        self.typist = Typist(lambda: self.field, self.typed.append, self.told.append)
        self.now = 100.0

    def call(self) -> None:
        self.typist.call(self.now)

    def draw(self, state: str, text: str = "") -> None:
        self.field = (state, text)
        self.typist.screen_changed(self.now)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.typist.tick(self.now)


@pytest.fixture
def program() -> Program:
    return Program()


def test_it_is_typed_shown_entered_and_gone(program: Program) -> None:
    """7.1, L10: Enter only once the line shows."""
    program.call()
    assert program.typed == [WAKE_LINE.encode()]
    assert program.typist.holds_input
    program.draw(FILLED, WAKE_LINE[:20])
    assert program.typed[1:] == []
    program.draw(FILLED, WAKE_LINE)
    assert program.typed[1:] == []
    program.wait(typist.ENTER_AFTER_S)
    assert program.typed[1:] == [b"\r"]
    program.draw(UNKNOWN)
    program.wait(typist.GONE_S / 2)
    program.draw(FILLED, WAKE_LINE)
    program.wait(typist.GONE_S)
    assert program.told == []
    program.draw(EMPTY)
    assert program.told == []
    program.wait(typist.GONE_S)
    assert program.told == [TYPED]
    assert not program.typist.holds_input
    assert program.typist.due is None


def test_a_narrow_screen_shows_its_beginning(program: Program) -> None:
    program.call()
    program.draw(FILLED, WAKE_LINE[:60])
    program.wait(typist.ENTER_AFTER_S)
    assert program.typed[-1] == b"\r"


@pytest.mark.parametrize("field", [(FILLED, "half a thought"), (UNKNOWN, "")])
def test_nothing_is_typed_into_what_is_not_empty(program: Program, field: tuple[str, str]) -> None:
    """W4: no key that could cancel, and no line behind what the user has begun."""
    program.field = field
    program.call()
    assert (program.typed, program.told) == ([], [REFUSED])


def test_nothing_is_typed_while_the_user_types(program: Program) -> None:
    program.typist.user_typed(program.now)
    program.call()
    assert (program.typed, program.told) == ([], [REFUSED])
    program.wait(typist.QUIET_S)
    program.call()
    assert program.typed == [WAKE_LINE.encode()]


def test_nothing_is_typed_while_the_screen_changes(program: Program) -> None:
    """A spinner turns: the program is busy, whatever its composer shows."""
    program.draw(EMPTY)
    program.call()
    for _ in range(12):
        program.wait(0.1)
        program.draw(EMPTY)
    assert (program.typed, program.told) == ([], [REFUSED])


def test_it_waits_for_a_screen_that_settles(program: Program) -> None:
    program.draw(EMPTY)
    program.call()
    assert program.typed == []
    assert program.typist.due == program.now + typist.SETTLED_S
    program.wait(typist.SETTLED_S)
    assert program.typed == [WAKE_LINE.encode()]


def test_a_user_who_begins_while_it_waits_comes_first(program: Program) -> None:
    program.draw(EMPTY)
    program.call()
    program.typist.user_typed(program.now)
    program.wait(typist.SETTLED_S)
    assert (program.typed, program.told) == ([], [REFUSED])


@pytest.mark.parametrize(
    "field, taken_back",
    [((FILLED, WAKE_LINE[:9]), True), ((EMPTY, ""), False), ((UNKNOWN, ""), False), ((FILLED, "other"), False)],
)
def test_what_does_not_show_is_not_entered_and_only_our_own_is_taken_back(
    program: Program, field: tuple[str, str], *, taken_back: bool
) -> None:
    program.call()
    program.draw(*field)
    program.wait(typist.SHOWN_WITHIN_S)
    assert program.typed[1:] == ([CLEAR_LINE] if taken_back else [])
    assert program.told == [REFUSED]


def test_a_line_that_is_not_taken_is_taken_back(program: Program) -> None:
    program.call()
    program.draw(FILLED, WAKE_LINE)
    program.wait(typist.ENTER_AFTER_S)
    program.wait(typist.TAKEN_WITHIN_S)
    assert program.typed[1:] == [b"\r", CLEAR_LINE]
    assert program.told == [REFUSED]


def test_one_at_a_time(program: Program) -> None:
    """W7"""
    program.call()
    program.call()
    assert (len(program.typed), program.told) == (1, [REFUSED])


def test_a_line_that_is_gone_before_its_enter_is_not_entered(program: Program) -> None:
    program.call()
    program.draw(FILLED, WAKE_LINE)
    program.draw(UNKNOWN)
    program.wait(typist.ENTER_AFTER_S)
    assert (program.typed[1:], program.told) == ([], [REFUSED])

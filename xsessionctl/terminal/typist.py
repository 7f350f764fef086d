"""Types one line into a harness's empty composer, and makes sure that it got there.

    RESTING ──call──▶ LOOKING ──empty──▶ TYPING ──it shows──▶ ENTERED ──it is gone from the field──▶ TYPED
                         │ filled, unknown, the user types      │ it does not show: taken back
                         └──▶ REFUSED ◀──────────────────────────┘

Laws: nothing is typed into a field that is not empty, nor while the user types; what the user types meanwhile waits for
the end and comes behind it; the line is one that this module holds, never text of anybody else's. Refuses to know: the
terminal, the program, what the line brings about.
"""

from __future__ import annotations

from collections.abc import Callable

from xsessionctl.shim.dialects import WAKE_LINE
from xsessionctl.terminal.composer import EMPTY, FILLED

QUIET_S = 2.0
"""How long the user must not have typed."""
SETTLED_S = 0.25
"""How long the screen must not have changed before it is believed."""
SHOWN_WITHIN_S, TAKEN_WITHIN_S = 3.0, 5.0
RESTING, LOOKING, TYPING, ENTERED = "resting", "looking", "typing", "entered"
TYPED, REFUSED = "typed", "refused"
LOOK_FOR_S = 1.0
"""A screen that does not settle for so long is busy."""
CLEAR_LINE = b"\x15"
"""Ctrl-U: what stands before the cursor is deleted."""

Read = Callable[[], tuple[str, str]]


class Typist:
    """See the module.

    read: the composer's state and text, as `composer` reads them. write: types bytes. told: called with the outcome of
    each `call`, once.
    """

    def __init__(self, read: Read, write: Callable[[bytes], None], told: Callable[[str], None]) -> None:
        self._read, self._write, self._told = read, write, told
        self._state = RESTING
        self._deadline = 0.0
        self._user_typed = self._changed = float("-inf")

    @property
    def holds_input(self) -> bool:
        """Whether what the user types must wait now."""
        return self._state in (TYPING, ENTERED)

    @property
    def due(self) -> float | None:
        """When `tick` has something to do."""
        if self._state == RESTING:
            return None
        return min(self._deadline, self._changed + SETTLED_S) if self._state == LOOKING else self._deadline

    def user_typed(self, now: float) -> None:
        """The user's keys went to the program."""
        self._user_typed = now

    def screen_changed(self, now: float) -> None:
        """The program drew something."""
        self._changed = now
        if self._state in (TYPING, ENTERED):
            self._look_at_line(now)

    def call(self, now: float) -> None:
        """Somebody wants the line typed."""
        if self._state != RESTING or now - self._user_typed < QUIET_S:
            self._told(REFUSED)
        else:
            self._state, self._deadline = LOOKING, now + LOOK_FOR_S
            self.tick(now)

    def tick(self, now: float) -> None:
        """Does what is due."""
        if self._state == LOOKING:
            if now - self._changed >= SETTLED_S:
                self._begin(now)
            elif now >= self._deadline:
                self._end(REFUSED)
        elif self._state in (TYPING, ENTERED):
            self._look_at_line(now)
            if self._state in (TYPING, ENTERED) and now >= self._deadline:
                self._give_up()

    def _begin(self, now: float) -> None:
        if now - self._user_typed < QUIET_S or self._read()[0] != EMPTY:
            self._end(REFUSED)
            return
        self._state, self._deadline = TYPING, now + SHOWN_WITHIN_S
        self._write(WAKE_LINE.encode())

    def _look_at_line(self, now: float) -> None:
        state, text = self._read()
        if self._state == TYPING and state == FILLED and _is_line(text):
            # Only now: a program takes an Enter right behind fast keys for part of a paste.
            self._state, self._deadline = ENTERED, now + TAKEN_WITHIN_S
            self._write(b"\r")
        elif self._state == ENTERED and not (state == FILLED and _is_line(text)):
            self._end(TYPED)

    def _give_up(self) -> None:
        state, text = self._read()
        if state == FILLED and text and WAKE_LINE.startswith(text.rstrip()):
            self._write(CLEAR_LINE)
        self._end(REFUSED)

    def _end(self, outcome: str) -> None:
        self._state = RESTING
        self._told(outcome)


def _is_line(text: str) -> bool:
    """Whether the field holds our line; a narrow screen shows its beginning in the first row."""
    return bool(text) and (text == WAKE_LINE or (len(text) >= len(WAKE_LINE) // 2 and WAKE_LINE.startswith(text)))

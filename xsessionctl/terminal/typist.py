"""Types one line into a harness's empty composer, and makes sure that it got there.

    RESTING ──call──▶ LOOKING ──empty──▶ TYPING ──it shows──▶ SHOWN ──pause──▶ ENTERED ──it is gone from there──▶ TYPED
                         │ filled, unknown, the user types │ it does not show, it stays: taken back │
                         └──▶ REFUSED ◀────────────────────┴────────────────────────────────────────┘

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
ENTER_AFTER_S = 0.2
"""Between the line and its Enter: what comes within 30 ms of other keys a program takes for part of a paste."""
GONE_S = 0.1
"""How long a screen must stand still before a line that it does not show is gone: it may be drawn in parts."""
RESTING, LOOKING, TYPING, SHOWN, ENTERED = "resting", "looking", "typing", "shown", "entered"
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
        self._user_typed = self._changed = self._entered = float("-inf")

    @property
    def holds_input(self) -> bool:
        """Whether what the user types must wait now."""
        return self._state in (TYPING, SHOWN, ENTERED)

    @property
    def due(self) -> float | None:
        """When `tick` has something to do."""
        if self._state == RESTING:
            return None
        if self._state == LOOKING:
            return min(self._deadline, self._changed + SETTLED_S)
        if self._state == ENTERED:
            return min(self._deadline, max(self._changed, self._entered) + GONE_S)
        return self._deadline

    def user_typed(self, now: float) -> None:
        """The user's keys went to the program."""
        self._user_typed = now

    def screen_changed(self, now: float) -> None:
        """The program drew something."""
        self._changed = now
        if self._state == TYPING and self._shows():
            self._state, self._deadline = SHOWN, now + ENTER_AFTER_S

    def call(self, now: float) -> None:
        """Somebody wants the line typed."""
        if self._state != RESTING or now - self._user_typed < QUIET_S:
            self._told(REFUSED)
        else:
            self._state, self._deadline = LOOKING, now + LOOK_FOR_S
            self.tick(now)

    def tick(self, now: float) -> None:
        """Does what is due."""
        if self._state == LOOKING and now >= self._changed + SETTLED_S:
            self._begin(now)
        elif self._state == SHOWN and now >= self._deadline:
            self._enter(now)
        elif self._state == ENTERED and now >= max(self._changed, self._entered) + GONE_S and not self._shows():
            self._end(TYPED)
        elif self._state != RESTING and now >= self._deadline:
            self._give_up()

    def _begin(self, now: float) -> None:
        if now - self._user_typed < QUIET_S or self._read()[0] != EMPTY:
            self._end(REFUSED)
            return
        self._state, self._deadline = TYPING, now + SHOWN_WITHIN_S
        self._write(WAKE_LINE.encode())

    def _enter(self, now: float) -> None:
        if not self._shows():
            self._give_up()
            return
        self._state, self._entered, self._deadline = ENTERED, now, now + TAKEN_WITHIN_S
        self._write(b"\r")

    def _shows(self) -> bool:
        state, text = self._read()
        return state == FILLED and _is_line(text)

    def _give_up(self) -> None:
        state, text = self._read()
        if self._state != LOOKING and state == FILLED and WAKE_LINE.startswith(text.rstrip()):
            self._write(CLEAR_LINE)
        self._end(REFUSED)

    def _end(self, outcome: str) -> None:
        self._state = RESTING
        self._told(outcome)


def _is_line(text: str) -> bool:
    """Whether the field holds our line; a narrow screen shows its beginning in the first row."""
    return bool(text) and (text == WAKE_LINE or (len(text) >= len(WAKE_LINE) // 2 and WAKE_LINE.startswith(text)))

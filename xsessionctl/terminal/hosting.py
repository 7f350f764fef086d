"""`xsessionctl run`: relay, screen, typist and bell put together for one program."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from time import monotonic

from xsessionctl.terminal.bell import VARIABLE, Bell
from xsessionctl.terminal.composer import READERS, UNKNOWN
from xsessionctl.terminal.relay import Relay, window_size
from xsessionctl.terminal.typist import Typist


def reader_for(program: str) -> Callable[[Sequence[str]], tuple[str, str]] | None:
    """How the composer of this program is read; None if that is not known."""
    return READERS.get(os.path.basename(program))


class Host:
    """One program in its terminal. What `Relay` tells, and what it polls."""

    def __init__(self, argv: Sequence[str], environ: dict[str, str], user: int = 0, screen: int = 1) -> None:
        """Starts it. Raises OSError; ImportError where pyte is not installed."""
        from xsessionctl.terminal.screen import Screen

        self._reader = reader_for(argv[0])
        self._screen = Screen(*window_size(user))
        self._bell = Bell(self._ring)
        try:
            self._relay = Relay(argv, {**environ, VARIABLE: self._bell.path}, user, screen)
        except OSError:
            self._bell.close()
            raise
        self._typist = Typist(self._read, self._relay.write, self._told)

    def run(self) -> int:
        """Until it has ended; its exit status."""
        try:
            return self._relay.run(self)
        finally:
            self._bell.close()

    def _read(self) -> tuple[str, str]:
        return (UNKNOWN, "") if self._reader is None else self._reader(self._screen.lines())

    def _ring(self, now: float) -> None:
        self._typist.call(now)

    def _told(self, outcome: str) -> None:
        self._bell.answer(outcome, monotonic())

    # -- what the relay tells ------------------------------------------------------------------------------------------

    @property
    def holds_input(self) -> bool:
        """Whether the user's keys must wait."""
        return self._typist.holds_input

    def user_typed(self, now: float) -> None:
        """Keys went to the program."""
        self._typist.user_typed(now)

    def program_wrote(self, output: bytes, now: float) -> None:
        """It drew something."""
        self._screen.feed(output)
        self._typist.screen_changed(now)

    def resized(self, columns: int, rows: int) -> None:
        """The terminal has another size."""
        self._screen.resize(columns, rows)

    # -- what the relay polls ------------------------------------------------------------------------------------------

    @property
    def due(self) -> float | None:
        """When `tick` has something to do."""
        return self._typist.due

    def descriptors(self) -> list[int]:
        """Those of the bell."""
        return self._bell.descriptors()

    def read(self, fd: int, now: float) -> None:
        """Somebody asks."""
        self._bell.read(fd, now)

    def tick(self, now: float) -> None:
        """Does what is due."""
        self._typist.tick(now)

"""Telling the user on their desktop, with a command of theirs.

Laws: a program with arguments, never a shell; what is filled in is short and means nothing to whoever reads it (no
quotes, no markup, no escapes). Few at a time: what comes meanwhile is folded into the next. Nothing waits for it, and
it cannot hang: what does not end is ended. Refuses to know: what is worth telling.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import trio

from xsessiond.core.inert import inert
from xsessiond.io.unconfined import has_bus, name_unit, through_manager

MOST_PER_MINUTE = 6
WINDOW_S = 60.0
ENDS_WITHIN_S = 5.0
LONGEST_TITLE, LONGEST_TEXT = 80, 200

_PLACE = re.compile(r"\{(title|text)\}")
_HARMLESS = str.maketrans({
    '"': "\u201d", "'": "\u2019", "`": "\u2019", "\\": "/", "$": "\uff04", "<": "\u2039", ">": "\u203a", "&": "\uff06",
    "%": "\uff05",
})  # fmt: skip
"""Characters that mean something in the script, markup or format that the user's template may be, and what looks like
them."""


class Notifier:
    """Runs the user's command, while `run` runs. command: the template, empty for none. report: a sentence for the
    log. confined: a unit of systemd confines us, and not what the user runs."""

    def __init__(self, command: Sequence[str], report: Callable[[str], None], *, confined: bool = False) -> None:
        self._command, self._report, self._confined = tuple(command), report, confined
        self._waiting: list[tuple[str, str]] = []
        self._sent: deque[float] = deque(maxlen=MOST_PER_MINUTE)
        self._news = trio.Event()
        self._failed = False

    def use(self, command: Sequence[str]) -> None:
        """Another template from now on."""
        if tuple(command) != self._command:
            self._command, self._failed = tuple(command), False

    def tell(self, title: str, text: str) -> None:
        """Tells it soon, alone or with what came at the same time. Returns at once."""
        if self._command:
            self._waiting.append((title, text))
            self._news.set()

    async def run(self) -> None:
        """Tells what is to be told, until cancelled."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            while self._waiting:
                if len(self._sent) == MOST_PER_MINUTE:
                    await trio.sleep_until(self._sent[0] + WINDOW_S)
                waiting, self._waiting = self._waiting, []
                title, text = waiting[-1]
                self._sent.append(trio.current_time())
                await self._start(title, text, more=len(waiting) - 1)

    async def _start(self, title: str, text: str, *, more: int) -> None:
        argv = fill(self._command, title, text, more)
        if not argv:
            return  # switched off meanwhile
        if self._confined:
            argv = through_manager(argv, name_unit(), os.environ, options=_unit_options(os.environ))
        try:
            process = await trio.lowlevel.open_process(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        except (OSError, ValueError) as problem:
            self._fail(f"cannot be started: {problem}")
            return
        try:
            with trio.move_on_after(ENDS_WITHIN_S):
                status = await process.wait()
                if status:
                    self._fail(f"ended with {status}")
                return
            self._fail(f"did not end within {ENDS_WITHIN_S:g} s")
        finally:
            if process.returncode is None:
                _end_group(process.pid)
                with trio.CancelScope(shield=True):
                    await process.wait()

    def _fail(self, what: str) -> None:
        """Says so once for each command."""
        if not self._failed:
            self._failed = True
            self._report(f"The command of approvals.notify ({self._command[0]}) {what}.")


def _unit_options(environ: Mapping[str, str]) -> list[str]:
    """It says nothing, and systemd itself ends what does not end, also where we cannot wait for it."""
    silent = ["--property=StandardOutput=null", "--property=StandardError=null"]
    bounded = [f"--property=RuntimeMaxSec={ENDS_WITHIN_S:g}"]
    return [*silent, *bounded, *(["--wait"] if has_bus(environ) else [])]


def fill(command: Sequence[str], title: str, text: str, more: int) -> list[str]:
    """The template with both filled in. more: how many others it stands for."""
    values = {"title": _short(title, LONGEST_TITLE), "text": _short(text, LONGEST_TEXT)}
    if more:
        values["text"] += f" ({more} more)"
    return [_PLACE.sub(lambda found: values[found[1]], word) for word in command]


def _short(text: str, most: int) -> str:
    shown = inert(text, multiline=False).translate(_HARMLESS)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _end_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass

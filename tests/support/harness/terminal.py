"""An interactive CLI in a private tmux server: typing, and reading the screen.

The screen tells when a CLI is ready for typing and shows what went wrong. It is never the judge of a delivery: a
program draws what it likes, so that is read off the fake model. Only this module polls: a screen has no event.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from .install import require_tmux
from .processes import descendants_of, end_processes, is_running

COLUMNS, ROWS = 150, 45
POLL_SECONDS = 0.1
AGAIN_SECONDS = 5.0
"""A program that has not taken a key by then was not listening yet."""


class Terminal:
    """One program in one pane of its own tmux server, which listens at ``socket``; the user's tmux is never touched."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], cwd: Path, socket: Path) -> None:
        self._tmux = [require_tmux(), "-u", "-S", str(socket), "-f", "/dev/null"]
        self._environment = dict(environment)
        # `env -i` once more: tmux would add its own variables.
        line = shlex.join(["env", "-i", *(f"{key}={value}" for key, value in environment.items()), *argv])
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        # remain-on-exit keeps the last words of a program that ended.
        keep = [";", "set-option", "-g", "remain-on-exit", "on"]
        self._call("new-session", "-d", *size, "-c", str(cwd), f"exec {line}", *keep)
        pids = self._call("display-message", "-p", "#{pid} #{pane_pid}").split()
        self._server, self._pane = (psutil.Process(int(pid)) for pid in pids)

    def screen(self) -> str:
        """The visible screen, without trailing blanks and empty lines."""
        lines = (line.rstrip() for line in self._call("capture-pane", "-p").splitlines())
        return "\n".join(line for line in lines if line)

    def wait_for_screen(self, pattern: str, timeout: float) -> None:
        """Wait until the regular expression ``pattern`` is on the screen; AssertionError, with the screen, if never."""
        end = time.monotonic() + timeout
        while not re.search(pattern, screen := self.screen()):
            if time.monotonic() > end:
                raise AssertionError(f"no {pattern!r} on the screen in {timeout} s:\n{screen}")
            time.sleep(POLL_SECONDS)

    def enter(self, text: str, timeout: float) -> None:
        """Type the one-line ``text``, wait until the program shows it, and press Enter."""
        self.type(text, timeout)
        self.press("Enter")

    def type(self, text: str, timeout: float) -> None:
        """Type the one-line ``text`` and wait until the program shows it and takes an Enter for one."""
        self._call("send-keys", "-l", "--", text)
        self.wait_for_screen(re.escape(text[-30:]), timeout)
        time.sleep(POLL_SECONDS)  # Gemini CLI takes an Enter within 30 ms of another key for a line of a paste

    def dismiss(self, pattern: str, timeout: float) -> None:
        """Wait for a question on the screen and press Escape; again if it stays, for at first nobody may be listening,
        but never once too often: that would mean something else."""
        self.wait_for_screen(pattern, timeout)
        end = time.monotonic() + timeout
        pressed = 0.0
        while re.search(pattern, screen := self.screen()):
            if time.monotonic() > end:
                raise AssertionError(f"{pattern!r} stays on the screen:\n{screen}")
            if time.monotonic() > pressed + AGAIN_SECONDS:
                self.press("Escape")
                pressed = time.monotonic()
            time.sleep(POLL_SECONDS)

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names for them, such as ``Escape`` or ``C-c``."""
        self._call("send-keys", *keys)

    @property
    def is_over(self) -> bool:
        """Whether the program has ended."""
        return not is_running(self._pane)

    def descendants(self) -> list[psutil.Process]:
        """The program itself and its live descendants."""
        return [self._pane, *descendants_of(self._pane.pid)]

    def stop(self) -> None:
        """End the program, what it started, and the tmux server; nothing to do when they have ended."""
        if is_running(self._server):
            tree = self.descendants()
            self._call("kill-server")
            end_processes([*tree, self._server])

    def _call(self, *args: str) -> str:
        done = subprocess.run(
            [*self._tmux, *args], env=self._environment, capture_output=True, text=True, timeout=10, check=False
        )
        if done.returncode != 0:
            raise AssertionError(f"tmux {args[0]}: {done.stderr.strip()}")
        return done.stdout

"""A Codex in a terminal without the daemon: its queue of prompts, from which it begins a turn when it next looks there.

Codex's own command puts them there, and its terminal looks every twenty seconds or so. What stands on a command line
can be read by every user of the machine, so this carries no text: what waits comes to the model by the hooks of the
turn. Laws: one command at a time, which is ended if it hangs; only for a terminal, because a prompt that `codex exec`
never takes would be there when its conversation is resumed. Refuses to know: the daemon.
"""

from __future__ import annotations

import os
from time import monotonic

from xsessionctl.shim.dialects import WAKE_LINE
from xsessionctl.shim.door import GONE, REFUSED, WRITTEN, Door
from xsessionctl.shim.watch import open_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from xsessionctl.shim.door import Done

ENDS_WITHIN_S = 15.0
"""The command takes a tenth of a second."""
KILL = 9


class Queue(Door):
    """The queue of a conversation. thread: its id, once it is known (`know`)."""

    delivery = "push"
    modes = ("auto", "followup")
    busy_too = False
    announces = True

    def __init__(self, program: str, home: str | None) -> None:
        """program: the harness's own. home: CODEX_HOME, or None where it is the usual one."""
        super().__init__()
        self.thread: str | None = None
        self.due: float | None = None
        self._program = program
        self._environ = {**os.environ, **({"CODEX_HOME": home} if home else {})}
        self._running: tuple[int, int, object] | None = None  # pid, what to poll, what keeps that open
        self._done: Done | None = None
        self._shut = False

    @property
    def is_open(self) -> bool:
        """Whether the conversation is known, and the queue has not turned out to be of no use."""
        return self.thread is not None and not self._shut

    def know(self, thread: str) -> None:
        """Says which conversation this is."""
        if thread != self.thread:
            self.thread = thread
            self.on_change()

    def post(self, text: str, *, busy: bool, mode: str, done: Done) -> None:
        """Asks for a turn; see `Door.post`."""
        if self._running is not None or self.thread is None:
            done(REFUSED)
            return
        argv = [self._program, "queue", "--thread", self.thread, "--message", WAKE_LINE]
        nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        try:
            pid = os.posix_spawn(self._program, argv, self._environ, file_actions=nowhere)
        except OSError:
            self.shut()
            done(GONE)
            return
        try:
            self._running = (pid, *open_process(pid))
        except OSError:  # the system does not let it be watched
            os.kill(pid, KILL)
            os.waitpid(pid, 0)
            self.shut()
            done(GONE)
            return
        self._done, self.due = done, monotonic() + ENDS_WITHIN_S

    def shut(self) -> None:
        """See `Door.shut`."""
        self._shut = True

    def reopen(self) -> None:
        """See `Door.reopen`."""
        if self._shut:
            self._shut = False
            self.on_change()

    def close(self) -> None:
        """See `Door.close`."""
        self._done = None
        if self._running is not None:
            self._end()

    def fileno(self) -> int | None:
        """What tells that the command has ended."""
        return None if self._running is None else self._running[1]

    def read(self) -> None:
        """It has ended."""
        self._end()

    def tick(self, now: float) -> None:
        """Ends one that hangs."""
        if self.due is not None and self.due <= now:
            self._end()

    def _end(self) -> None:
        assert self._running is not None
        pid, descriptor, _ = self._running
        self._running = self.due = None
        os.close(descriptor)
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            os.kill(pid, KILL)
            _, status = os.waitpid(pid, 0)
        done, self._done = self._done, None
        if status != 0:
            self.shut()
        if done is not None:
            done(WRITTEN if status == 0 else GONE)

"""A program in a terminal of its own, between it and the user's: what each writes goes to the other.

Laws: the user's terminal is given back as it was, whatever happens; the program is not left behind, nor is its end kept
from the caller; bytes are passed on whole and in order, before anything else is done with them. Refuses to know: what
the program is, what is typed by us and when.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import tty
from collections.abc import Sequence
from time import monotonic
from typing import Protocol

CHUNK = 65536
MOST_PENDING = 1 << 20
"""Bytes for a program or a terminal that does not read; then the other side is not read either."""


class Listener(Protocol):
    """Whom the loop tells, and what else it polls: readable descriptors, and a deadline."""

    @property
    def due(self) -> float | None:
        """When `tick` has something to do."""

    @property
    def holds_input(self) -> bool:
        """Whether what the user types must wait."""

    def descriptors(self) -> list[int]:
        """To poll for reading."""

    def read(self, fd: int, now: float) -> None:
        """One of them is readable."""

    def tick(self, now: float) -> None:
        """Does what is due; called after every step."""

    def user_typed(self, now: float) -> None:
        """Keys went to the program."""

    def program_wrote(self, output: bytes, now: float) -> None:
        """It drew something."""

    def resized(self, columns: int, rows: int) -> None:
        """The terminal has another size."""


class Relay:
    """Runs `argv` and passes on. `write` types into the program."""

    def __init__(self, argv: Sequence[str], environ: dict[str, str], user: int = 0, screen: int = 1) -> None:
        """user, screen: descriptors of the user's terminal, to read from and to write to. Raises OSError."""
        self._user, self._screen = user, screen
        self._to_program, self._to_screen = bytearray(), bytearray()
        self._held = bytearray()
        self._user_is_there = True
        self._before = termios.tcgetattr(user)
        self._signals, self._told = os.pipe()
        os.set_blocking(self._told, False)
        os.set_blocking(self._signals, False)
        columns, rows = window_size(user)
        self.pid, self._master = _start(argv, environ, columns, rows)

    def write(self, keys: bytes) -> None:
        """Types into the program."""
        self._to_program += keys

    def run(self, listener: Listener) -> int:
        """Until the program has ended; its exit status as a shell gives it."""
        old = {number: signal.signal(number, _note) for number in _SIGNALS}
        wakeup = signal.set_wakeup_fd(self._told)
        try:
            tty.setraw(self._user)
            while self._step(listener):
                pass
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in old.items():
                signal.signal(number, handler)
            termios.tcsetattr(self._user, termios.TCSADRAIN, self._before)
            status = self._reap()
        return status

    def _step(self, listener: Listener) -> bool:
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        if self._user_is_there and len(self._to_program) + len(self._held) < MOST_PENDING:
            poll.register(self._user, select.POLLIN)
        wanted = select.POLLIN if len(self._to_screen) < MOST_PENDING else 0
        poll.register(self._master, wanted | (select.POLLOUT if self._to_program else 0))
        if self._to_screen:
            poll.register(self._screen, select.POLLOUT)
        others = listener.descriptors()
        for fd in others:
            poll.register(fd, select.POLLIN)
        due = listener.due
        ready = dict(poll.poll(None if due is None else max(0.0, due - monotonic()) * 1000 + 1))
        now = monotonic()
        if self._signals in ready:
            self._take_signals(listener)
        if self._user in ready:
            self._read_user(listener, now)
        if self._screen in ready and self._to_screen:
            _write_some(self._screen, self._to_screen)
        running = self._serve_program(ready.get(self._master, 0), listener, now)
        for fd in others:
            if fd in ready:
                listener.read(fd, now)
        listener.tick(now)
        if self._held and not listener.holds_input:
            self._to_program += self._held
            self._held.clear()
        return running

    def _read_user(self, listener: Listener, now: float) -> None:
        try:
            keys = os.read(self._user, CHUNK)
        except OSError:
            keys = b""
        if not keys:
            self._user_is_there = False
            self._end_program()
        elif listener.holds_input:
            self._held += keys
        else:
            self._to_program += keys
            listener.user_typed(now)

    def _serve_program(self, events: int, listener: Listener, now: float) -> bool:
        if events & select.POLLOUT and self._to_program:
            _write_some(self._master, self._to_program)
        if not events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            return True
        try:
            output = os.read(self._master, CHUNK)
        except BlockingIOError:
            return True
        except OSError as problem:
            if problem.errno != errno.EIO:  # Linux says so when nobody has the other side open any more
                raise
            output = b""
        if not output:
            return False
        self._to_screen += output
        listener.program_wrote(output, now)
        return True

    def _take_signals(self, listener: Listener) -> None:
        for number in os.read(self._signals, 64):
            if number == signal.SIGWINCH:
                columns, rows = window_size(self._user)
                set_window_size(self._master, columns, rows)
                listener.resized(columns, rows)
            elif number in (signal.SIGTERM, signal.SIGHUP):
                self._end_program()

    def _end_program(self) -> None:
        try:
            os.kill(self.pid, signal.SIGHUP)  # as a terminal does that is closed
        except ProcessLookupError:
            pass

    def _reap(self) -> int:
        while self._to_screen:
            if not select.select([], [self._screen], [], 1.0)[1] or not _write_some(self._screen, self._to_screen):
                break
        os.close(self._master)  # whoever still runs in there is told that its terminal is gone
        for fd in (self._signals, self._told):
            os.close(fd)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return code if code >= 0 else 128 - code


_SIGNALS = (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP)


def _note(number: int, frame: object) -> None:
    """The wake-up descriptor has it already."""


def _start(argv: Sequence[str], environ: dict[str, str], columns: int, rows: int) -> tuple[int, int]:
    failed, failing = os.pipe()
    pid, master = pty.fork()
    if not pid:
        try:
            for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(ignored, signal.SIG_DFL)  # by Python, and what is ignored stays so
            set_window_size(0, columns, rows)
            os.execvpe(argv[0], list(argv), environ)  # noqa: S606 - what its user asked to run
        except OSError as problem:
            os.write(failing, str(problem.errno).encode())
        finally:
            os._exit(127)
    os.close(failing)
    number = os.read(failed, 16)
    os.close(failed)
    if number:
        os.close(master)
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)), argv[0])
    os.set_blocking(master, False)
    return pid, master


def window_size(fd: int) -> tuple[int, int]:
    """Columns and rows of a terminal; 80 and 24 where it does not know."""
    try:
        rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8)))
    except OSError:
        rows = columns = 0
    return columns or 80, rows or 24


def set_window_size(fd: int, columns: int, rows: int) -> None:
    """Gives a terminal a size; what runs there is told."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _write_some(fd: int, data: bytearray) -> bool:
    """Writes what the other side takes; False if it is gone, and then there is nothing to write any more."""
    try:
        written = os.write(fd, bytes(data[:CHUNK]))
    except (BlockingIOError, InterruptedError):
        return True
    except OSError:
        data.clear()
        return False
    del data[:written]
    return True

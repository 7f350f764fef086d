"""Where the session's shim asks for a turn: a private socket, named to the program in its environment.

Laws: one question, one word back, and no text: nobody who can reach the socket can have anything typed but our own
line, and that not often. Refuses to know: the screen, how it is typed.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable

from xsessionctl.sockets import peer_uid
from xsessionctl.terminal.typist import REFUSED

VARIABLE = "XSESSIOND_TERMINAL"
"""Where the program's children find it."""
WAKE = b"wake\n"
BETWEEN_S = 5.0
"""Least time between two lines: the program's own agent can reach the socket too."""
CALLERS = 8


class Bell:
    """The socket, and who is connected. ring: called with the time for a question that may be asked now; `answer` must
    be called once then."""

    def __init__(self, ring: Callable[[float], None]) -> None:
        """Raises OSError."""
        self._ring = ring
        self._directory = tempfile.mkdtemp(prefix="xs-")  # 0700, and short enough for a socket
        self.path = os.path.join(self._directory, "bell.sock")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._callers: dict[int, socket.socket] = {}
        self._asking: socket.socket | None = None
        self._last = float("-inf")
        try:
            self._listener.bind(self.path)
            os.chmod(self.path, 0o600)
            self._listener.listen(CALLERS)
            self._listener.setblocking(False)
        except OSError:
            self.close()
            raise

    def descriptors(self) -> list[int]:
        """To poll for reading."""
        room = [self._listener.fileno()] if len(self._callers) < CALLERS else []
        return [*room, *self._callers]

    def read(self, fd: int, now: float) -> None:
        """One of them is readable."""
        if fd == self._listener.fileno():
            self._accept()
            return
        caller = self._callers.get(fd)
        if caller is None:
            return
        try:
            asked = caller.recv(64)
        except BlockingIOError:
            return
        except OSError:
            asked = b""
        if asked != WAKE:
            self._drop(caller)
        elif self._asking is not None or now - self._last < BETWEEN_S:
            _say(caller, REFUSED)
        else:
            self._asking = caller
            self._ring(now)

    def answer(self, outcome: str, now: float) -> None:
        """What became of the question."""
        caller, self._asking = self._asking, None
        if outcome != REFUSED:
            self._last = now
        if caller is not None and caller.fileno() >= 0:
            _say(caller, outcome)

    def close(self) -> None:
        """Nobody can ask any more."""
        for caller in list(self._callers.values()):
            self._drop(caller)
        self._listener.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _accept(self) -> None:
        try:
            caller, _ = self._listener.accept()
        except OSError:
            return
        if peer_uid(caller) not in (None, os.geteuid()):
            caller.close()
            return
        caller.setblocking(False)
        self._callers[caller.fileno()] = caller

    def _drop(self, caller: socket.socket) -> None:
        self._callers.pop(caller.fileno(), None)
        caller.close()


def _say(caller: socket.socket, word: str) -> None:
    try:
        caller.send(word.encode() + b"\n")
    except OSError:
        pass  # it is gone, and asks again if it must

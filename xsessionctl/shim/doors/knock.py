"""A door that is somebody else's Unix socket at a path: one connection for each text.

Laws: it belongs to this user, or nothing is written; a socket that is not there or not ours is a broken door, one that
is only busy is not. Refuses to know: what is written, what an answer means.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from time import monotonic

from xsessionctl.shim.door import GONE, REFUSED, Door
from xsessionctl.shim.loop import send_some
from xsessionctl.shim.peer import Foreign, connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket as Socket  # noqa: N812 - it is a class

    from xsessionctl.shim.door import Done


class Knock(Door, ABC):
    """The socket at a path. Subclasses say what is written and what an outcome is. within_s: how long the peer may
    take."""

    within_s = 10.0

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._socket: Socket | None = None
        self._outgoing = b""
        self._done: Done | None = None
        self._shut = False
        self.due: float | None = None

    # -- what a subclass says ------------------------------------------------------------------------------------------

    @abstractmethod
    def make_frame(self, text: str) -> bytes:
        """What is written for this text."""

    def is_ours(self, link: Socket) -> bool:
        """Whether who listens, a program of this user, is the one that is meant."""
        return True

    def written(self, link: Socket) -> None:
        """All of it is in the peer's socket. Raises OSError."""

    @abstractmethod
    def judge(self, answer: bytes, *, whole: bool) -> str | None:
        """The outcome after these bytes, empty at the peer's end or when its time is over; None: there is more to come.
        whole: all was written."""

    # -- as a door -----------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether it has not turned out to be of no use."""
        return not self._shut

    def post(self, text: str, *, busy: bool, mode: str, done: Done) -> None:
        """Connects and writes; see `Door.post`."""
        if self._socket is not None:
            done(REFUSED)
            return
        try:
            self._socket = connect(self._path)
        except BlockingIOError:
            done(REFUSED)  # too many are knocking at once
            return
        except (OSError, Foreign):
            self.shut()
            done(GONE)
            return
        self._done = done
        if not self.is_ours(self._socket):
            self.shut()
            self._finish(GONE)
            return
        self._outgoing = self.make_frame(text)
        self.due = monotonic() + self.within_s
        self.write()

    def shut(self) -> None:
        """See `Door.shut`."""
        self._shut = True

    def reopen(self) -> None:
        """See `Door.reopen`: it is worth a try if there is still something at its place."""
        if self._shut and os.path.exists(self._path):
            self._shut = False
            self.on_change()

    def close(self) -> None:
        """See `Door.close`."""
        self._done = None
        self._finish(REFUSED)

    @property
    def wants_write(self) -> bool:  # type: ignore[override]
        """Whether something is left to write."""
        return bool(self._outgoing)

    def fileno(self) -> int | None:
        """The connection, if there is one."""
        return None if self._socket is None else self._socket.fileno()

    def write(self) -> None:
        """Writes what the peer takes."""
        assert self._socket is not None
        try:
            self._outgoing = send_some(self._socket, self._outgoing)
            if not self._outgoing:
                self.written(self._socket)
        except OSError:
            self._finish(REFUSED)

    def read(self) -> None:
        """The peer says something, or closes."""
        assert self._socket is not None
        try:
            answer = self._socket.recv(4096)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            answer = b""
        self._settle(answer)

    def tick(self, now: float) -> None:
        """Gives up a peer that takes too long."""
        if self.due is not None and self.due <= now:
            self._settle(b"")

    def _settle(self, answer: bytes) -> None:
        outcome = self.judge(answer, whole=not self._outgoing)
        if outcome is not None:
            self._finish(outcome)

    def _finish(self, outcome: str) -> None:
        self.due = None
        self._outgoing = b""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        done, self._done = self._done, None
        if done is not None:
            done(outcome)

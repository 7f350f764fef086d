"""A harness that nothing but typing can wake, started by `xsessionctl run`: its terminal's bell.

It starts a turn and carries no text: what waits comes to the model by the hooks of that turn. Laws: written means that
our line was taken from the composer, and a turn that begins is what proves it. Refuses to know: terminals.
"""

from __future__ import annotations

import os
from _socket import AF_UNIX, SOCK_STREAM
from _socket import socket as Socket  # noqa: N812 - it is a class
from time import monotonic

from xsessionctl.shim.door import GONE, REFUSED, WRITTEN, Door
from xsessionctl.sockets import peer_uid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from xsessionctl.shim.door import Done
    from xsessionctl.shim.identity import Identity

ANSWER_WITHIN_S = 15.0


class Typed(Door):
    """The bell at a path."""

    delivery = "push"
    modes = ("auto", "followup")
    busy_too = False
    announces = True

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._socket: Socket | None = None
        self._done: Done | None = None
        self._shut = False
        self.due: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has not turned out to be of no use."""
        return not self._shut

    def post(self, text: str, *, busy: bool, mode: str, done: Done) -> None:
        """Asks for a turn; see `Door.post`."""
        if self._socket is not None:
            done(REFUSED)
            return
        self._socket, self._done = Socket(AF_UNIX, SOCK_STREAM), done
        self._socket.setblocking(False)
        self.due = monotonic() + ANSWER_WITHIN_S
        try:
            self._socket.connect(self._path)
            if peer_uid(self._socket) not in (None, os.geteuid()):
                raise PermissionError(self._path)
            self._socket.send(b"wake\n")
        except BlockingIOError:
            self._finish(REFUSED)
        except OSError:
            self.shut()
            self._finish(GONE)

    def shut(self) -> None:
        """See `Door.shut`."""
        self._shut = True

    def reopen(self) -> None:
        """See `Door.reopen`."""
        if self._shut and os.path.exists(self._path):
            self._shut = False
            self.on_change()

    def close(self) -> None:
        """See `Door.close`."""
        self._done = None
        self._finish(REFUSED)

    def fileno(self) -> int | None:
        """The connection, while it is asked."""
        return None if self._socket is None else self._socket.fileno()

    def read(self) -> None:
        """The answer, or the end of the terminal."""
        assert self._socket is not None
        try:
            word = self._socket.recv(64)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            word = b""
        self._finish(WRITTEN if word == b"typed\n" else REFUSED)

    def tick(self, now: float) -> None:
        """Gives up what is not answered."""
        if self.due is not None and self.due <= now:
            self._finish(REFUSED)

    def _finish(self, outcome: str) -> None:
        self.due = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        done, self._done = self._done, None
        if done is not None:
            done(outcome)


def open_door(identity: Identity) -> Door:
    """The way into the session, which may be none."""
    path = identity.variable("XSESSIOND_TERMINAL")
    return Door() if path is None else Typed(path)

"""A harness that nothing but typing can wake, started by `xsessionctl run`: its terminal's bell.

It starts a turn and carries no text: what waits comes to the model by the hooks of that turn. Laws: written means that
our line was taken from the composer, and a turn that begins is what proves it; a terminal is rung for the program that
it was made for, not for what that starts. Refuses to know: terminals.
"""

from __future__ import annotations

from xsessionctl.shim.door import REFUSED, WRITTEN, Door
from xsessionctl.shim.doors.knock import Knock
from xsessionctl.shim.identity import read_process, runs_words
from xsessionctl.sockets import peer_pid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket as Socket  # noqa: N812 - it is a class
    from collections.abc import Callable

    from xsessionctl.shim.identity import Identity

ANSWER_WITHIN_S = 15.0
"""Longer than a line may take to be typed, shown and taken."""


GENERATIONS = 8
"""How many processes may stand between a program and its terminal: starters, and those that start themselves again."""


class Typed(Knock):
    """The bell at a path. harness: the process of the program that is to be woken; None where it is not known."""

    delivery = "push"
    modes = ("auto", "followup")
    busy_too = False
    announces = True
    within_s = ANSWER_WITHIN_S

    def __init__(self, path: str, harness: int | None) -> None:
        super().__init__(path)
        self._harness = harness

    def is_ours(self, link: Socket) -> bool:
        """See `is_hosted`."""
        bell = peer_pid(link)
        return bell is None or self._harness is None or is_hosted(self._harness, bell, read_process)

    def make_frame(self, text: str) -> bytes:
        """The question; there is no text."""
        return b"wake\n"

    def judge(self, answer: bytes, *, whole: bool) -> str:
        """One word; without it nothing was typed."""
        return WRITTEN if answer == b"typed\n" else REFUSED


def open_door(identity: Identity) -> Door:
    """The way into the session, which may be none."""
    path = identity.variable("XSESSIOND_TERMINAL")
    return Door() if path is None else Typed(path, identity.pid)


def is_hosted(harness: int, bell: int, read: Callable[[int], tuple[int, list[str]] | None]) -> bool:
    """Whether the process `harness` is the program in the terminal whose bell the process `bell` is, and not one that
    this started by a command of its shell: that inherits the variable. read: as for `identity.find_harness`; a process
    of which nothing can be read is taken for it."""
    pid, found = harness, read(harness)
    for _ in range(GENERATIONS):
        if found is None:
            return pid == harness
        pid, argv = found
        if pid == bell:
            return not runs_words(argv)
        if runs_words(argv):
            return False
        found = read(pid)
    return False

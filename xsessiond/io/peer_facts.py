"""Who is at the other end of a connection: the kernel's word, as a value for the core.

Laws: nothing that the peer writes counts. What could not be seen is told as that, never taken for absent. Of an
environment only the marks are looked for; nothing else of it is kept. Refuses to know: sessions, and what follows.
"""

from __future__ import annotations

import socket

from xsessiond.core.effects import Peer, ProcessId
from xsessiond.io._process import ProcessStat
from xsessiond.io.processes import (
    Step,
    ancestry,
    environment_marks,
    is_ours,
    peer_process,
    read_place,
    terminal_name,
    trace,
)

SHELLS = frozenset((
    "sh", "bash", "dash", "zsh", "ash", "ksh", "mksh", "fish", "csh", "tcsh", "nu", "xonsh", "pwsh", "login",
))  # fmt: skip
"""Where people and scripts start things; no session's harness. Only a person's own is the leader of a terminal's
session, and then what is above it (the terminal's program) belongs to everything that they start."""
MANAGERS = frozenset((
    "systemd", "init", "launchd", "runit", "s6-svscan", "openrc-init", "dinit", "tini", "dumb-init", "docker-init",
))  # fmt: skip
"""What starts a user's services or a container's program, and takes in what others leave behind."""
KNOWN_MOST = 512
"""Environments that are remembered: those of the shells and harnesses that commands come from again and again."""
LOOKS = 3
"""How often an ancestry is read that broke off: an ancestor may have ended just then."""

_Image = tuple[ProcessId, bytes]
"""A process and the program it runs now: exec gives it another environment."""


class PeerFacts:
    """Finds out about peers. user: the account's name."""

    __slots__ = ("_marks", "_user")

    def __init__(self, user: str) -> None:
        self._user = user
        self._marks: dict[_Image, frozenset[str]] = {}

    def look(self, sock: socket.socket) -> Peer:
        """What a token is checked against: the process and its ancestors. Enough for a session's private socket."""
        process = _find_process(sock)
        if process is None:
            return self._nobody()
        above = ancestry(process.pid)
        if not above or above[0] != process:
            return self._nobody()
        return Peer(
            process,
            tuple(above),
            terminal=False,
            user=self._user,
            complete=above.complete,
            place=read_place(process.pid),
        )

    def look_closely(self, sock: socket.socket) -> Peer:
        """All there is to tell a person from an agent. Linux: about 60 µs where the ancestors are known."""
        process = _find_process(sock)
        if process is None:
            return self._nobody()
        return self.examine(process)

    def examine(self, process: ProcessId) -> Peer:
        """As `look_closely`, of a process."""
        steps, complete = trace(process.pid)
        for _ in range(1, LOOKS):
            if complete:
                break
            steps, complete = trace(process.pid)
        if not steps or steps[0].process != process:
            return self._nobody()
        marks, unseen = self._read_marks(steps)
        own = steps[0].stat
        shared, outermost = _divide(steps)
        terminal = _is_at_terminal(own, steps)
        return Peer(
            process,
            tuple(step.process for step in steps),
            terminal,
            self._user,
            marks=marks,
            complete=complete,
            tty=terminal_name(own.terminal) if terminal else None,
            unseen=unseen,
            shared=shared,
            tree=_find_tree(outermost),
        )

    def _nobody(self) -> Peer:
        return Peer(None, (), terminal=False, user=self._user, complete=False)

    def _read_marks(self, steps: list[Step]) -> tuple[frozenset[str], str | None]:
        """The marks in all these environments, and whose could not be read though it should be."""
        found: frozenset[str] = frozenset()
        unseen: str | None = None
        for number, step in enumerate(steps):
            marks = self._marks_of(step, keep=number > 0)
            if marks is not None:
                found |= marks
            elif unseen is None and _is_suspicious(number, step):
                unseen = f"{step.stat.name} (pid {step.process.pid})"
        return found, unseen

    def _marks_of(self, step: Step, *, keep: bool) -> frozenset[str] | None:
        image = step.process, step.stat.image
        known = self._marks.get(image)
        if known is not None:
            return known
        marks = None if step.stat.dead else environment_marks(step.process.pid)
        if keep and marks is not None and step.stat.image:
            if len(self._marks) >= KNOWN_MOST:
                del self._marks[next(iter(self._marks))]
            self._marks[image] = marks
        return marks


def _find_process(sock: socket.socket) -> ProcessId | None:
    try:
        return peer_process(sock)
    except OSError:
        return None


def _is_at_terminal(own: ProcessStat, steps: list[Step]) -> bool:
    """Whether it has a terminal and was started from there. Below a shell, a terminal emulator or sshd the leader of
    the terminal's session is always an ancestor; it is not for what a process left behind on somebody's terminal."""
    return own.terminal != 0 and any(step.process.pid == own.session for step in steps)


def _divide(steps: list[Step]) -> tuple[frozenset[ProcessId], Step]:
    """Those that no session can call its harness (see `Peer.shared`), and the outermost that is still the peer's own
    ground: a service, the shell of a terminal, what a manager took in."""
    shared: list[ProcessId] = []
    above = False
    outermost = steps[0]
    for step in steps:
        process, stat = step
        shell = stat.name in SHELLS
        above = above or stat.name in MANAGERS or not is_ours(process.pid)
        if above or shell:
            shared.append(process)
        if not above:
            outermost = step
        above = above or (shell and stat.terminal != 0 and stat.session == process.pid)
    return frozenset(shared), outermost


def _find_tree(outermost: Step) -> int:
    """See `Peer.tree`. The leader, who may be gone: what it left behind one by one still is one tree."""
    leader = outermost.stat.session
    return leader if leader > 1 else outermost.process.pid


def _is_suspicious(number: int, step: Step) -> bool:
    """Whether it tells something that an environment cannot be read. That of the peer itself always can, if our system
    lets us look at all. Above it, another user's cannot (sshd, login), nor a more privileged program's, nor the first
    process's of a container."""
    return number == 0 or (step.stat.parent != 0 and is_ours(step.process.pid))

"""A broker that is replaced in its own process: what it passes on, how its successor is found, and the moment itself.

    asked ─▶ FindSuccessor: the program is run with --check ─▶ it could go on ─▶ nothing new is taken, all is stored
          ─▶ exec: the same process, parent and pid; its locks and listening sockets stay open ─▶ it serves again

The kernel keeps who connects meanwhile in the backlog of sockets that never close, and nobody else can get the lock,
since it is never let go. A service manager sees the same process go on. Why not otherwise is in docs/decisions.

Laws: which program goes on is said by a file of the user's own or by the one that runs now, never by a client, who may
be confined where it could not start that program itself. What cannot go on is found out before anything ends. Refuses
to know: who asked, what a lock or a socket is for.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

import trio

from xsessiond.core.effects import SuccessorFound
from xsessiond.core.limits import SUCCESSOR_WITHIN_S
from xsessiond.io.listener import BadListener, ListeningSocket, take_over_listener
from xsessiond.paths import Paths

VARIABLE = "XSESSIOND_HANDOVER"
"""What tells a broker that it goes on in the process of another: descriptors by what they are."""
FORMAT = 1
"""Of that variable. A successor says which it understands."""
MOST_BYTES = 4096
"""A command is shorter."""


class BadInheritance(Exception):
    """What the broker before us left is not what it must be. The text says what is wrong."""


class NoSuccessor(Exception):
    """Why no program can take our place, as a sentence."""


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What goes from one to the next: descriptors. inherited: the service manager owns the rendezvous's file. guests:
    connections on which nobody has said anything yet."""

    runtime_lock: int
    store_lock: int
    rendezvous: int
    doors: tuple[int, ...]
    guests: tuple[int, ...] = ()
    inherited: bool = False

    def descriptors(self) -> tuple[int, ...]:
        """All of them."""
        return (self.runtime_lock, self.store_lock, self.rendezvous, *self.doors, *self.guests)

    def to_text(self) -> str:
        """As the variable has it."""
        return json.dumps(
            {
                "format": FORMAT,
                "locks": [self.runtime_lock, self.store_lock],
                "rendezvous": self.rendezvous,
                "doors": list(self.doors),
                "guests": list(self.guests),
                "inherited": self.inherited,
            }
        )


def take_inheritance(environ: MutableMapping[str, str] = os.environ) -> Inheritance | None:
    """What the program that ran here before us left, taken out of `environ`; None where we are the first.

    Its descriptors are not inherited further. Raises BadInheritance.
    """
    text = environ.pop(VARIABLE, None)
    if text is None:
        return None
    try:
        found = json.loads(text)
        runtime_lock, store_lock = map(int, found["locks"])
        left = Inheritance(
            runtime_lock,
            store_lock,
            int(found["rendezvous"]),
            tuple(map(int, found["doors"])),
            tuple(map(int, found["guests"])),
            bool(found["inherited"]),
        )
        for fd in left.descriptors():
            os.set_inheritable(fd, False)
    except (KeyError, TypeError, ValueError, OSError) as problem:
        raise BadInheritance(f"{VARIABLE} cannot be understood: {problem}.") from None
    return left


def open_inheritance(left: Inheritance) -> tuple[ListeningSocket, dict[str, ListeningSocket], list[socket.socket]]:
    """The rendezvous, the private sockets by path, and the guests. Raises BadInheritance."""
    try:
        doors = [take_over_listener(fd) for fd in left.doors]
        guests = [socket.socket(fileno=fd) for fd in left.guests]
        for guest in guests:
            guest.setblocking(False)
        return take_over_listener(left.rendezvous), {door.path: door for door in doors}, guests
    except (BadListener, OSError) as problem:
        raise BadInheritance(str(problem)) from None


# -- finding it --------------------------------------------------------------------------------------------------------


def name_successor(paths: Paths) -> list[str]:
    """The command, without our own arguments, that takes our place: what the user's own program left word of, else what
    runs now. The word is taken away. Raises NoSuccessor."""
    path = paths.successor_file
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return [sys.executable, "-P", "-m", "xsessiond"]
    except OSError as problem:
        raise NoSuccessor(f"{path} cannot be read: {problem.strerror}.") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise NoSuccessor(f"{path} is not a file that only you can write. Remove it.")
        data = os.read(descriptor, MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    try:
        os.unlink(path)
        command = json.loads(data)
    except (OSError, ValueError, RecursionError):
        command = None
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise NoSuccessor(f"{path} does not name a program.")
    if not os.path.isabs(command[0]):
        raise NoSuccessor(f"{path} names {command[0]!r}, which is not an absolute path.")
    return command


async def try_successor(command: Sequence[str], environ: Mapping[str, str], paths: Paths) -> str:
    """Has the program look whether it could go on; returns its version. Raises NoSuccessor."""
    try:
        with trio.fail_after(SUCCESSOR_WITHIN_S):
            done = await trio.run_process(
                [*command, "--check"],
                stdin=subprocess.DEVNULL,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                env=dict(environ),
                cwd="/",
            )
    except OSError as problem:
        raise NoSuccessor(f"{command[0]} cannot be started: {problem.strerror}.") from None
    except trio.TooSlowError:
        raise NoSuccessor(f"{command[0]} did not say within {SUCCESSOR_WITHIN_S:g} s that it can go on.") from None
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = told[-1].removeprefix("xsessiond: ") if told else f"It ended with status {done.returncode}."
        raise NoSuccessor(f"{command[0]} cannot go on from here: {reason}")
    try:
        found = json.loads(done.stdout)
        version, known, state_dir = str(found["version"]), int(found["handover"]), found["state_dir"]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise NoSuccessor(f"{command[0]} is no broker that can go on: it answered something else.") from None
    if known < FORMAT:
        raise NoSuccessor(f"Version {version} does not know how to take over from this one.")
    if state_dir != paths.state_dir:
        raise NoSuccessor(f"Version {version} would use another store, in {state_dir}.")
    return version


def tell_check(version: str, paths: Paths) -> str:
    """What a successor answers to --check when it can go on."""
    return json.dumps({"version": version, "handover": FORMAT, "state_dir": paths.state_dir})


class Succession:
    """How this broker is followed by another. arguments: of our command line; environ: as we were started with."""

    __slots__ = ("_arguments", "_environ", "command")

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        self._arguments = tuple(arguments)
        self._environ = {
            name: value for name, value in environ.items() if name != VARIABLE and not name.startswith("LISTEN_")
        }
        self.command: list[str] | None = None
        """The whole command of the successor that was found last."""

    async def find(self, paths: Paths) -> SuccessorFound:
        """Whether there is a program that can go on from here."""
        try:
            program = name_successor(paths)
            version = await try_successor([*program, *self._arguments], self._environ, paths)
        except NoSuccessor as problem:
            return SuccessorFound(None, str(problem))
        self.command = [*program, *self._arguments]
        return SuccessorFound(version)

    def enter(self, left: Inheritance) -> None:
        """Be that program, in this process. Does not return, unless it raises OSError."""
        assert self.command is not None, "a successor was found before anything ended"
        become_successor(self.command, left, self._environ)


@dataclass(frozen=True, slots=True)
class Heritage:
    """What a broker has of the one before it, and for the one after it. doors: private sockets by path. guests:
    connections that were accepted and not heard yet. children: pids of what was left alone, and still is of this
    process."""

    doors: Mapping[str, ListeningSocket] = field(default_factory=dict)
    guests: Sequence[socket.socket] = ()
    children: Sequence[int] = ()
    succession: Succession | None = None


# -- the moment --------------------------------------------------------------------------------------------------------


def become_successor(command: Sequence[str], left: Inheritance, environ: Mapping[str, str]) -> None:
    """Be the successor, in this process. environ: ours as it was when we started, so that it hears the same of the
    service manager. Does not return, unless it raises OSError."""
    for fd in left.descriptors():
        os.set_inheritable(fd, True)
    os.execve(command[0], list(command), {**environ, VARIABLE: left.to_text()})  # noqa: S606 - without a shell

"""The directory by which command hooks reach the running shim of their session.

    hooks/PID/        of the harness's process, 0700, locked for as long as the shim lives
        events        a pipe: `EVENT CONVERSATION`, one line for each event that wants no answer
        sock          for hooks that want one: the event as the harness wrote it in, the answer out
        mail, waiter  flags, so that a hook need not ask for nothing
        run           with which program a hook asks

Laws: who connects must be this user's and below the same harness; whatever is read is bounded, in bytes and in time;
what a dead shim left behind is removed by the next. Nothing that came through the pipe proves who wrote it. Refuses to
know: what events mean (`hooks`), what is delivered.
"""

from __future__ import annotations

import fcntl
import os
import sys
from time import monotonic

from xsessionctl.codec import decode
from xsessionctl.shim.hook_socket import Caller, Listener, Request
from xsessionctl.shim.identity import read_process
from xsessionctl.sockets import peer_pid, peer_uid
from xsessionctl.whole_file import write_whole
from xsessiond.paths import resolve_paths
from xsessiond.private_dirs import ensure_private_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from xsessionctl.shim.hooks import Hooks
    from xsessionctl.shim.loop import Source
    from xsessionctl.sockets import Socket

CLIENT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "hook_client.py")
LOCK_RETRY_S, LOCK_TRIES = 0.5, 20
"""A shim that is replaced by another of the same session lets go of the directory when it ends."""
CALLERS = 8
"""Hooks that are heard at once: those of one event, and one that waits."""
LINE_BYTES = 600
GENERATIONS = 12
"""How many processes may stand between a hook and its harness."""
PIPE_BYTES = 1 << 20
"""Lines of some ten thousand events find room while the shim is stopped."""


class HookDirectory:
    """That of one harness process. It is a source of the loop, and adds its connections to the sources.

    waits: whether the door wants a hook that waits; take_waiter: is given its connection.
    """

    wants_write = False

    def __init__(self, pid: int, hooks: Hooks, sources: list[Source]) -> None:
        self._pid, self._hooks, self._sources = pid, hooks, sources
        self._path = ""
        self._lock = self._pipe = -1
        self._listener: Listener | None = None
        self._rest = b""
        self._tries = 0
        self._flags: dict[str, bool] = {}
        self.take_waiter: Callable[[Caller], bool] = _refuse_waiter
        self.due: float | None = monotonic()

    def open(self) -> None:
        """Makes it, now or when whoever has it lets go. Where it cannot be made there are no command hooks."""
        self.due = None
        try:
            base = f"{resolve_paths().state_dir}/hooks"
            self._path = f"{base}/{self._pid}"
            try:
                ensure_private_dir(self._path)
                lock = _lock(self._path)
            except FileNotFoundError:
                lock = None  # another shim took it for one that was left behind
            if lock is None:
                self._tries += 1
                self.due = monotonic() + LOCK_RETRY_S if self._tries < LOCK_TRIES else None
                return
            self._lock = lock
            self._make()
        except Exception:
            # Also what our own rules for paths have to say: whoever starts the broker says it too.
            self.close()
            return
        _remove_dead(base, self._pid)

    def _make(self) -> None:
        for name in os.listdir(self._path):
            os.unlink(f"{self._path}/{name}")
        os.mkfifo(f"{self._path}/events", 0o600)
        # For reading and writing: without a writer it would be readable all the time.
        self._pipe = os.open(f"{self._path}/events", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        if sys.platform == "linux":
            try:
                fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            except (OSError, AttributeError):
                pass  # Python before 3.10 has no name for it, and a user may have a limit
        listener = self._listener = Listener(self.greet)
        _in_directory(self._path, lambda: listener.bind("sock", CALLERS))
        self._sources.append(listener)
        write_whole(f"{self._path}/run", f"{sys.executable}\n{CLIENT}\n".encode())
        for name, on in self._flags.items():
            self._show(name, on=on)

    def flag(self, name: str, *, on: bool) -> None:
        """`mail` or `waiter` is there or not."""
        if self._flags.get(name, False) != on:
            self._flags[name] = on
            if self._lock >= 0:
                self._show(name, on=on)

    def _show(self, name: str, *, on: bool) -> None:
        path = f"{self._path}/{name}"
        try:
            if on:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            else:
                os.unlink(path)
        except OSError:
            pass  # not there, or somebody removed the directory

    def close(self) -> None:
        """Removes it, if it is ours."""
        self.due = None
        for caller in [source for source in self._sources if isinstance(source, Caller)]:
            caller.close()
        if self._listener is not None:
            self._listener.close()
            if self._listener in self._sources:
                self._sources.remove(self._listener)
            self._listener = None
        if self._pipe >= 0:
            os.close(self._pipe)
        if self._lock >= 0:
            _remove(self._path)
            os.close(self._lock)
        self._pipe = self._lock = -1

    # -- as a source: the pipe -----------------------------------------------------------------------------------------

    def fileno(self) -> int | None:
        """The pipe."""
        return self._pipe if self._pipe >= 0 else None

    def read(self) -> None:
        """Events that want no answer."""
        try:
            data = self._rest + os.read(self._pipe, 1 << 16)
        except OSError:
            return
        *lines, rest = data.split(b"\n")
        self._rest = rest if len(rest) <= LINE_BYTES else b""
        for line in lines:
            event, _, conversation = line.decode("ascii", "replace").partition(" ")
            if len(line) <= LINE_BYTES and line.isascii() and event:
                self._hooks.hear_line(event, conversation)

    def write(self) -> None:
        """Never called."""

    def tick(self, now: float) -> None:
        """Tries again to have it."""
        if self.due is not None and self.due <= now:
            self.open()

    # -- those who ask -------------------------------------------------------------------------------------------------

    def greet(self, link: Socket) -> None:
        """Somebody connected."""
        count = sum(isinstance(source, Caller) for source in self._sources)
        if count >= CALLERS or peer_uid(link) not in (None, os.geteuid()) or not _is_below(peer_pid(link), self._pid):
            link.close()
            return
        self._sources.append(Caller(link, self._hear, self._part))

    def _part(self, caller: Caller) -> None:
        if caller in self._sources:
            self._sources.remove(caller)

    def _hear(self, caller: Caller, request: Request) -> None:
        if request.waits:
            if not self.take_waiter(caller):
                caller.close()
            return
        try:
            fields = decode(request.body.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            fields = None
        if isinstance(fields, dict):
            self._hooks.hear({**fields, "hook_event_name": request.event}, caller.reply, proven=False)
        else:
            caller.close()


def _is_below(pid: int | None, harness: int) -> bool:
    """Whether a process is the harness's; where that cannot be known, its user has to be enough."""
    if sys.platform != "linux":
        return True
    for _ in range(GENERATIONS):
        if pid is None or pid <= 1:
            return False
        if pid == harness:
            return True
        found = read_process(pid)
        pid = found[0] if found else None
    return False


def _lock(path: str) -> int | None:
    """The descriptor of a locked directory; None if somebody else has it, or has just removed it. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _remove_dead(base: str, own: int) -> None:
    """What shims left behind that ended without a word: nobody has it locked."""
    for name in os.listdir(base):
        if name.isdecimal() and int(name) != own:
            try:
                lock = _lock(f"{base}/{name}")
            except OSError:
                continue
            if lock is not None:
                _remove(f"{base}/{name}")
                os.close(lock)


def _remove(path: str) -> None:
    try:
        for name in os.listdir(path):
            os.unlink(f"{path}/{name}")
        os.rmdir(path)
    except OSError:
        pass  # somebody was first


def _in_directory(path: str, act: Callable[[], None]) -> None:
    """Does something there. The path of a socket must be short; that of a state directory need not be."""
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.chdir(path)
        act()
    finally:
        os.fchdir(here)
        os.close(here)


def _refuse_waiter(caller: Caller) -> bool:
    return False


def _nothing() -> None:
    pass

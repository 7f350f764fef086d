"""Running the user's commands that resume conversations, apart from everything of ours.

Laws: a program with arguments, never a shell. It has a process group of its own, no terminal and nothing to read, and
nothing in its environment says that it is somebody's session. What it writes is read, never faster than we can afford,
and only the end of it is kept. It is ours to end until the conversation is there; from then on it is left alone, also
when the broker ends. Refuses to know: which conversation it is for, and whether that has come.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

import trio

from xsessiond.core.effects import ConversationStarted
from xsessiond.io.processes import MARKS
from xsessiond.io.unconfined import CANNOT_START, ending_command, name_unit, through_manager
from xsessiond.paths import PLACE_VARIABLES

SAID_BYTES = 4096
"""How much of the end of what it wrote is kept."""
READ_BYTES, READ_PAUSE_S = 32 << 10, 0.005
"""One read, and the pause after it: a program that writes without end is held to some 6 MB/s, and costs little."""
LAST_WORDS_S = 0.2
"""After its end, how long what it wrote last is waited for: what it started may have its output, and go on."""
TERM_S = 1.0
"""Between asking it to end and ending it."""


class _Run:
    """One command. said: the end of what it wrote. read: set when that is all. ours: to be ended with the attempt."""

    __slots__ = ("ours", "read", "said", "scope")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.said, self.read = b"", trio.Event()
        self.ours = True

    async def gather(self, stream: trio.abc.ReceiveStream) -> None:
        """Reads to the end."""
        try:
            while data := await stream.receive_some(READ_BYTES):
                self.said = (self.said + data)[-SAID_BYTES:]
                await trio.sleep(READ_PAUSE_S)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.read.set()


class Resumer:
    """Runs commands while `run` runs. ended: told of the end of each that was not given up. confined: a unit of systemd
    confines us, and not what the user runs."""

    def __init__(self, ended: Callable[[ConversationStarted], None], *, confined: bool = False) -> None:
        self._ended, self._confined = ended, confined
        self._runs: dict[int, _Run] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs what `start` is given, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    def start(self, ticket: int, argv: Sequence[str], cwd: str) -> None:
        """Starts one. Returns at once."""
        assert self._nursery is not None
        self._runs[ticket] = run = _Run()
        self._nursery.start_soon(self._live, ticket, run, argv, cwd)

    def end(self, ticket: int, *, arrived: bool) -> None:
        """What it was to start is there, or it is given up. One that has ended before is nobody's any more."""
        run = self._runs.pop(ticket, None)
        if run is None:
            return
        run.ours = not arrived
        if not arrived:
            run.scope.cancel()

    async def _live(self, ticket: int, run: _Run, argv: Sequence[str], cwd: str) -> None:
        """From its start to its end, or to ours."""
        unit, environ = None, clean_environment(os.environ)
        if self._confined:
            unit = name_unit()
            argv = through_manager(argv, unit, environ, cwd=cwd, options=("--wait", "--pipe"))
            cwd = "/"  # the folder may be hidden from us
        with run.scope:
            try:
                process = await trio.lowlevel.open_process(
                    list(argv),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    cwd=cwd,
                    env=environ,
                    start_new_session=True,
                )
            except (OSError, ValueError) as problem:
                self._tell(ticket, run, f"it cannot be started ({_words(problem)})")
                return
            try:
                await self._watch(ticket, run, process, None if unit is None else CANNOT_START)
            finally:
                if process.returncode is None and run.ours:
                    with trio.CancelScope(shield=True):
                        await _end_group(process, unit)

    async def _watch(self, ticket: int, run: _Run, process: trio.Process, meanings: Mapping[int, str] | None) -> None:
        assert process.stdout is not None
        async with process.stdout, trio.open_nursery() as nursery:
            nursery.start_soon(run.gather, process.stdout)
            status = await process.wait()
            with trio.move_on_after(LAST_WORDS_S):
                await run.read.wait()
            self._tell(ticket, run, None if status == 0 else (meanings or {}).get(status) or _describe(status))

    def _tell(self, ticket: int, run: _Run, problem: str | None) -> None:
        if self._runs.get(ticket) is run:  # else nobody asks any more
            self._ended(ConversationStarted(ticket, problem, run.said.decode("utf-8", "replace")))


async def reap_inherited(children: Sequence[int]) -> None:
    """Until they have all ended: what a broker before us in this process started and left alone is a child of ours, and
    would stay in the system's table when it ends."""
    left = set(children)
    with trio.open_signal_receiver(signal.SIGCHLD) as signals:
        while left := {pid for pid in left if not _is_reaped(pid)}:
            await anext(signals)


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what says which session, or whose child, its owner is. Where the broker is stays."""
    return {
        name: value
        for name, value in environ.items()
        if name not in MARKS and (not name.startswith("XSESSIOND_") or name in PLACE_VARIABLES)
    }


def _describe(status: int) -> str:
    if status > 0:
        return f"it ended with status {status}"
    try:
        return f"it was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"it was ended by signal {-status}"


def _words(problem: OSError | ValueError) -> str:
    if not isinstance(problem, OSError):
        return str(problem)
    what = problem.strerror or str(problem)
    return f"{problem.filename}: {what}" if problem.filename else what


async def _end_group(process: trio.Process, unit: str | None) -> None:
    """Ends it with all that it started and kept in its group, or in its unit."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if unit is not None:
            await trio.run_process(
                ending_command(unit, number.name), check=False, capture_stdout=True, capture_stderr=True
            )
        else:
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                pass
        with trio.move_on_after(TERM_S):
            await process.wait()
            return
    process.kill()  # it has no unit any more and does not know
    await process.wait()

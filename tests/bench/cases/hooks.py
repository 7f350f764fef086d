"""What a command hook costs each tool call, as installed: with nothing waiting, with mail, and where no session is.

In pairs with a shell that does nothing and with the hook of hcom, both for a session of Gemini CLI. A stand-in for the
harness has the real shim below it and runs all of ours, so that the hook finds the shim's directory the long way, past
a process in between. Where a harness calls a tool of the running shim instead, no process starts, and there is nothing
to time here (tests/shim/test_hook_calls.py).
"""

import pathlib
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial

import xsessionctl
from tests.bench import commands, hcom, machine, ours
from tests.bench.commands import Command
from tests.bench.hcom import GeminiSession, Hcom, gemini_event
from tests.bench.machine import Bench, BenchError
from tests.bench.ours import Broker, OurRunning
from tests.bench.peers import BODY
from tests.bench.stats import Fact, Line, Row, at_most, percentile
from tests.support.agent_harness import AgentHarness
from xsessionctl.harness.base import Site

CASE = "hooks"
EVENT = "AfterTool"
TURNS = 10
EACH = 20
MAILS = 20
SHELL, PYTHON = "dash -c :", "python -c pass"
AROUND = f"{SHELL}, outside"
"""The same shell, started by the bench and not by the harness: the kernel may share out time between such groups."""
QUIET, NOWHERE, MAIL = "nothing waits", "outside of a session", "with mail"
WITHIN_S = 10.0

_DATA = pathlib.Path(xsessionctl.__file__).parent / "harness"
OURS = shlex.split(Site(home="", environ={}, command="", data=str(_DATA)).hook("gemini", EVENT))


class Played:
    """A session of ours: a harness with command hooks, the real shim below it, and somebody who writes to it."""

    def __init__(self, bench: Bench, running: OurRunning) -> None:
        self._bench = bench
        marks = {"XSESSIOND_HARNESS": "gemini", "XSESSIOND_HOOKS": "1", "XSESSIOND_CLASS": "prompting"}
        self.harness = AgentHarness(running.place, "hooked", **marks)
        self._folder = running.place.state_dir / "hooks" / str(self.harness.process.pid)
        self._event = bench.fresh("event")
        self._event.write_bytes(gemini_event(EVENT, str(running.place.home)))
        self._writer = ours.join(running.path, "writer", push=False)
        if not (self._folder / "events").is_fifo():
            raise BenchError("the shim keeps no directory for its harness's hooks")

    def start(self, argv: Sequence[str], times: int) -> list[float]:
        """Has the harness run `argv`, its event on standard input; milliseconds of each."""
        words = commands.spawning(self._bench, "fed", argv, times)
        _, said = self.harness.run("sh", "-c", f'exec "$@" <{shlex.quote(str(self._event))}', "sh", *words)
        return commands.read_times(said, argv, times)

    def quiet(self, times: int) -> list[float]:
        """The hook with nothing waiting."""
        self._await_flag(there=False)
        return self.start(OURS, times)

    def mail(self, number: int) -> float:
        """The hook that brings a message to the session's model."""
        body = f"{number:08}" + machine.text(BODY - 8)
        self._writer.link.ask("send", {"to": self.harness.session["id"], "message": body})
        self._await_flag(there=True)
        [took] = self.start(OURS, 1)
        self._await_flag(there=False)  # it was given what waited
        return took

    def _await_flag(self, *, there: bool) -> None:
        end = time.monotonic() + WITHIN_S
        while (self._folder / "mail").exists() is not there:
            if time.monotonic() > end:
                raise BenchError("the hook brought no mail" if not there else "the shim did not tell of mail")
            time.sleep(0.002)


class Theirs:
    """The same of hcom."""

    def __init__(self, bench: Bench, peer: Hcom) -> None:
        self._bench, self._peer = bench, peer
        self._writer = peer.start()
        self.session: GeminiSession = peer.begin_gemini()

    def quiet(self, times: int) -> list[float]:
        """The hook with nothing waiting."""
        if self.session.hook(EVENT):
            raise BenchError("hcom's hook has something to say")
        return self._start(times)

    def mail(self, number: int) -> float:
        """The hook that brings a message."""
        body = f"{number:08}" + machine.text(BODY - 8)
        argv = self._peer.send_argv(self._writer, self.session.name, body)
        subprocess.run(argv, env=self._peer.env, cwd=self._peer.home, check=True, capture_output=True, timeout=30)
        [took] = self._start(1)
        if self.session.hook(EVENT):
            raise BenchError("hcom's hook brought no mail")
        return took

    def _start(self, times: int) -> list[float]:
        argv = self.session.argv[EVENT]
        done = subprocess.run(
            commands.spawning(self._bench, "fed", argv, times),
            input=self.session.event(EVENT),
            capture_output=True,
            env=dict(self.session.env),
            cwd=self.session.home,
            timeout=commands.TIMEOUT_S,
        )
        return commands.read_times(done.stdout.decode(), argv, times)


def run(bench: Bench) -> list[Line]:
    """Measures all of them in turn, a few starts of each at a time."""
    lines: list[Line] = []
    theirs: Theirs | None = None
    try:
        theirs = Theirs(bench, hcom.prepare(bench))
    except BenchError as absent:
        lines.append(Fact(CASE, "beside hcom", None, note=f"skipped: {absent}"))
    with Broker("full").start(bench) as running:
        played = Played(bench, running)
        try:
            got = _measure(bench, running, played, theirs)
        finally:
            played.harness.end()
    lines.append(Row(CASE, QUIET, "ms", got[QUIET], got[SHELL], SHELL, at_most(1.5)))
    lines.append(Row(CASE, NOWHERE, "ms", got[NOWHERE], got[AROUND], SHELL, at_most(1.5)))
    lines.append(Row(CASE, MAIL, "ms", got[MAIL], got[PYTHON], PYTHON))
    if theirs is not None:
        lines.append(Row(CASE, QUIET, "ms", got[QUIET], got[f"hcom {QUIET}"], "hcom's hook"))
        lines.append(Row(CASE, MAIL, "ms", got[MAIL], got[f"hcom {MAIL}"], "hcom's hook"))
    return lines


def _start_in(bench: Bench, cwd: pathlib.Path, command: Command, times: int) -> list[float]:
    return commands.start(bench, command, times, cwd)


def _measure(bench: Bench, running: OurRunning, played: Played, theirs: Theirs | None) -> dict[str, list[float]]:
    """The middle of each side's starts, for each round."""
    bare, dash = commands.bare_python(), shlex.split(SHELL)
    alone = {AROUND: Command(dash, running.place.environ()), NOWHERE: Command(OURS, running.place.environ())}
    home = running.place.home
    many: dict[str, Callable[[int], list[float]]] = {
        SHELL: lambda times: played.start(dash, times),
        QUIET: played.quiet,
        **{name: partial(_start_in, bench, home, command) for name, command in alone.items()},
        PYTHON: partial(_start_in, bench, home, bare),
    }
    single: dict[str, Callable[[int], float]] = {MAIL: played.mail}
    if theirs is not None:
        many[f"hcom {QUIET}"] = theirs.quiet
        single[f"hcom {MAIL}"] = theirs.mail
    for start in many.values():
        start(1)
    got: dict[str, list[float]] = {name: [] for name in (*many, *single)}
    for number in bench.rounds(CASE):
        took: dict[str, list[float]] = {name: [] for name in got}
        for _ in range(bench.effort.count(TURNS, least=1)):
            for name, start in many.items():
                took[name] += start(EACH)
        for mail in range(bench.effort.count(MAILS, least=2)):
            for name, bring in single.items():
                took[name].append(bring(number * MAILS + mail))
        for name, runs in took.items():
            got[name].append(percentile(runs, 0.5))
    return got

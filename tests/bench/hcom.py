"""hcom (PyPI `hcom`), the product nearest to ours: commands over one shared SQLite file, no daemon.

It runs in a HOME of its own, so that nothing of a real one is read or changed.
"""

import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from tests.bench import machine
from tests.bench.machine import Bench, BenchError
from tests.bench.peers import BODY

SETTLE_S = 0.15
"""From the moment that a listener has announced itself until it certainly waits."""


@dataclasses.dataclass(frozen=True, slots=True)
class Hcom:
    """An installed hcom with a home of its own."""

    program: str
    home: pathlib.Path
    extra: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of its commands."""
        return {
            "HOME": str(self.home),
            "HCOM_DIR": str(self.home / ".hcom"),
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            **self.extra,
        }

    def start(self) -> str:
        """Makes an agent; returns its name."""
        said, _ = self._popen([self.program, "start"], subprocess.PIPE).communicate(timeout=30)
        found = re.search(rb"\[hcom:([^\]]+)\]", said)
        if found is None:
            raise BenchError(f"hcom start said no name: {said[:200]!r}")
        return found[1].decode()

    def send_argv(self, sender: str, to: str, body: str) -> list[str]:
        """The command that sends."""
        return [self.program, "send", f"@{to}", "--name", sender, "--intent", "inform", "--", body]

    def deliver(self, sender: str, to: str, number: int) -> float:
        """Milliseconds from starting `hcom send` until a waiting `hcom listen` has printed the message."""
        ear = self._popen([self.program, "listen", "--name", to, "--timeout", "20", "--json"], subprocess.PIPE)
        try:
            self._await_listener(to)
            body = f"{number:08}" + machine.text(BODY - 8)
            began = time.perf_counter()
            mouth = self._popen(self.send_argv(sender, to, body), subprocess.DEVNULL)
            assert ear.stdout is not None
            printed = ear.stdout.readline()
            took = (time.perf_counter() - began) * 1e3
            mouth.wait(20)
            ear.wait(20)  # it marks the message as read after printing it
            if f"{number:08}" not in json.loads(printed)["text"]:
                raise BenchError(f"hcom listen printed another message: {printed[:200]!r}")
            return took
        finally:
            ear.kill()
            ear.communicate()

    def begin_gemini(self) -> "GeminiSession":
        """Makes an agent that is a session of Gemini CLI, started by hcom, with its hooks as hcom installs them."""
        subprocess.run(
            [self.program, "hooks", "add", "gemini"], env=self.env, check=True, capture_output=True, timeout=30
        )
        settings = json.loads((self.home / ".gemini" / "settings.json").read_text())
        argv = {
            event: shlex.split(settings["hooks"][event][0]["hooks"][0]["command"])
            for event in ("SessionStart", "BeforeAgent", "AfterTool")
        }
        path = f"{pathlib.Path(self.program).parent}:{os.environ.get('PATH', os.defpath)}"
        env = {**self.env, "PATH": path, "HCOM_LAUNCHED": "1", "HCOM_PROCESS_ID": "bench", "HCOM_TOOL": "gemini"}
        # Its agent runs this; the variable tells hcom in what. The hooks are the harness's own and have it not.
        asked = dataclasses.replace(self, extra={**env, "GEMINI_CLI": "1"})
        session = GeminiSession(asked.start(), argv, env, self.home)
        for event in ("SessionStart", "BeforeAgent"):
            session.hook(event)
        return session

    def _popen(self, argv: list[str], stdout: int) -> subprocess.Popen[bytes]:
        null = subprocess.DEVNULL
        return subprocess.Popen(argv, env=self.env, cwd=self.home, stdin=null, stdout=stdout, stderr=null)

    def _await_listener(self, name: str) -> None:
        query = "SELECT count(*) FROM notify_endpoints WHERE instance = ? AND kind = 'listen'"
        end = time.monotonic() + 5
        db = sqlite3.connect(self.home / ".hcom" / "hcom.db")
        try:
            while time.monotonic() < end and not db.execute(query, (name,)).fetchone()[0]:
                time.sleep(0.005)
        finally:
            db.close()
        time.sleep(SETTLE_S)


@dataclasses.dataclass(frozen=True, slots=True)
class GeminiSession:
    """A session that hcom takes for Gemini CLI's. argv: the hook command of each event; env: of its hooks."""

    name: str
    argv: Mapping[str, Sequence[str]]
    env: Mapping[str, str]
    home: pathlib.Path

    def event(self, event: str) -> bytes:
        """What Gemini CLI gives a hook on standard input."""
        return gemini_event(event, str(self.home))

    def hook(self, event: str) -> bytes:
        """Runs a hook; gives what it printed."""
        done = subprocess.run(
            self.argv[event],
            input=self.event(event),
            env=dict(self.env),
            cwd=self.home,
            capture_output=True,
            timeout=30,
        )
        if done.returncode:
            raise BenchError(f"hcom's {event} hook failed: {done.stderr[-200:]!r}")
        return done.stdout


def gemini_event(event: str, cwd: str) -> bytes:
    """An event of Gemini CLI, with the result of a tool."""
    result = {"llmContent": machine.text(BODY), "returnDisplay": machine.text(BODY)}
    said = {
        "session_id": "bench",
        "transcript_path": f"{cwd}/chat.json",
        "cwd": cwd,
        "hook_event_name": event,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "tool_name": "run_shell_command",
        "tool_input": {"command": "make test"},
        "tool_response": result,
    }
    return json.dumps(said).encode()


def prepare(bench: Bench) -> Hcom:
    """Finds hcom beside this Python or on PATH. Raises BenchError when it is not installed."""
    beside = pathlib.Path(sys.executable).parent / "hcom"
    program = str(beside) if beside.exists() else shutil.which("hcom")
    if program is None:
        raise BenchError("hcom is not installed (pip install hcom)")
    home = bench.fresh("hcom")
    home.mkdir()
    return Hcom(program, home)

"""hcom (PyPI `hcom`), the product nearest to ours: commands over one shared SQLite file, no daemon.

It runs in a HOME of its own, so that nothing of a real one is read or changed.
"""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import time

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

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of its commands."""
        return {
            "HOME": str(self.home),
            "HCOM_DIR": str(self.home / ".hcom"),
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
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


def prepare(bench: Bench) -> Hcom:
    """Finds hcom beside this Python or on PATH. Raises BenchError when it is not installed."""
    beside = pathlib.Path(sys.executable).parent / "hcom"
    program = str(beside) if beside.exists() else shutil.which("hcom")
    if program is None:
        raise BenchError("hcom is not installed (pip install hcom)")
    home = bench.fresh("hcom")
    home.mkdir()
    return Hcom(program, home)

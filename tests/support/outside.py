"""Running the tests themselves outside an agent, when an agent runs them.

Much of what the tests do is refused to agents: stopping a broker, for one. So a test run that is below an agent hands
over to another that is not: started by a process that its parent has left, with the same words, terminal and
environment but for the marks. It ends with the one that was asked for, and its exit code is that one's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from xsessiond.io.processes import MARKS

VARIABLE = "XSESSIOND_TEST_OUTSIDE"
"""Set for the run that was handed over to. Who sets it has the tests run where they are."""

HAND_OVER = """
import os, signal, sys, threading, time
status, lifeline, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
starter = os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == starter:
    time.sleep(0.001)
os.setsid()
child = os.fork()
if not child:
    os.close(status)
    os.close(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execv(argv[0], argv)
signal.signal(signal.SIGINT, signal.SIG_IGN)

def end_with_its_starter():
    os.read(lifeline, 1)
    os.kill(child, signal.SIGINT)

threading.Thread(target=end_with_its_starter, daemon=True).start()
os.write(status, b"%d\\n" % child)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
try:
    os.write(status, b"%d\\n" % code)
except BrokenPipeError:
    pass
"""


def run_outside(words: Sequence[str], cwd: str) -> int:
    """Run pytest with these words outside every agent; returns its exit code. Ctrl-C goes to it."""
    reading, writing = os.pipe()
    lifeline, held = os.pipe()
    environ = {name: value for name, value in os.environ.items() if name not in MARKS}
    command = [sys.executable, "-I", "-S", "-c", HAND_OVER, str(writing), str(lifeline)]
    try:
        subprocess.run(
            [*command, sys.executable, "-m", "pytest", *words],
            cwd=cwd,
            env={**environ, VARIABLE: "1"},
            pass_fds=(writing, lifeline),
            check=True,
        )
        os.close(writing)
        with open(reading, encoding="ascii") as status:
            pid = int(status.readline())
            while True:
                try:
                    return int(status.readline() or 1)
                except KeyboardInterrupt:
                    os.kill(pid, signal.SIGINT)
    finally:
        os.close(lifeline)
        os.close(held)

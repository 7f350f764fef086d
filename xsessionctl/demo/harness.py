"""A stand-in for a coding agent's harness: starts `xsessionctl mcp`, as a harness does, lives as long as it, and runs
what its agent types into a shell.

The demonstration speaks to the MCP server through this process's own standard streams, which the server inherits. What
matters is that each session is a process tree of its own, since that is how the broker tells sessions apart. Command
lines come as JSON lists, one a line, on the descriptor that the only argument names; what became of each goes back the
same way.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from socket import socket

from xsessionctl.codec import decode, encode

COMMAND_S = 30.0


def main(words: list[str]) -> int:
    """Runs the MCP server to its end."""
    shell = socket(fileno=int(words[0]))
    threading.Thread(target=_run_commands, args=(shell,), daemon=True).start()
    return subprocess.run([sys.executable, "-P", "-m", "xsessionctl", "mcp"], check=False).returncode


def _run_commands(shell: socket) -> None:
    with shell.makefile("r", encoding="utf-8") as lines:
        for line in lines:
            argv = decode(line)
            assert isinstance(argv, list)
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=COMMAND_S,
                check=False,
            )
            answer = {"exit": done.returncode, "output": done.stdout.decode("utf-8", "replace")}
            shell.sendall(encode(answer).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

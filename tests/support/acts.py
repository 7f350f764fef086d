"""What an agent may try that only its human may do: run as `python acts.py COMMAND…`, each one JSON list of words.

Runs `xsessionctl` with the words of each, one after the other, and prints one JSON line: for each its exit code and
the document or the text that it wrote.
"""

from __future__ import annotations

import json
import subprocess
import sys


def main(commands: list[str]) -> None:
    """Try them all."""
    results = []
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "xsessionctl", *json.loads(command)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=30,
            check=False,
        )
        text = done.stdout.decode(errors="replace")
        try:
            results.append([done.returncode, json.loads(text)])
        except ValueError:
            results.append([done.returncode, text])
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Asking a harness's own program: one that is started for it, within a deadline, and ended afterwards.

Laws: what does not answer in time, or not in the expected form, has said nothing; no process is left. Refuses to know:
what is asked.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic

END_S = 2.0
"""How long a program that has answered may take to end by itself."""
MOST = 8 << 20
READ_SIZE = 1 << 16


def run_program(argv: Sequence[str], environ: Mapping[str, str], timeout: float) -> str | None:
    """What a program writes on its standard output; None if it fails to in time."""
    process = _start(argv, environ, stdin=subprocess.DEVNULL)
    if process is None:
        return None
    try:
        data, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        assert process.stdout is not None
        process.stdout.close()
        _end(process)
    return data.decode("utf-8", "replace")


def exchange(
    argv: Sequence[str], environ: Mapping[str, str], requests: Sequence[object], answer: int, timeout: float
) -> object:
    """Gives a program objects, one a line, and returns the `result` of its answer with the id `answer`, or None. Its
    input stays open until then, since some take its end for theirs."""
    process = _start(argv, environ, stdin=subprocess.PIPE)
    if process is None:
        return None
    assert process.stdin is not None
    assert process.stdout is not None
    deadline = monotonic() + timeout
    received = b""
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(b"".join(json.dumps(request).encode() + b"\n" for request in requests))
            process.stdin.flush()
        while len(received) < MOST:
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - monotonic()))
            data = os.read(process.stdout.fileno(), READ_SIZE) if ready else b""
            if not data:
                return None
            received += data
            *lines, received = received.split(b"\n")
            for line in lines:
                message = _decode(line)
                if isinstance(message, dict) and message.get("id") == answer:
                    return message.get("result")
        return None
    finally:
        with suppress(OSError):
            process.stdin.close()
        process.stdout.close()
        _end(process)


def _start(argv: Sequence[str], environ: Mapping[str, str], *, stdin: int) -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            argv,
            env=dict(environ),
            cwd="/",
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError):
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        # What we started leads its own group, and has not been waited for: the number is still its own.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _decode(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None

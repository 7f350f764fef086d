"""Looking at the store without being able to read it: the store's own small program does it, and tells.

Laws: what is done is done by a process of ours, with our rights, and not by the broker, which an agent could otherwise
have write where it may not write itself. Refuses to know: tables, printing.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from time import monotonic

from xsessionctl.client import ClientError
from xsessionctl.codec import decode


def run_store_program(words: list[str], deadline: float) -> dict[str, object]:
    """What `python -m xsessiond.store` answers to these words. deadline: on the monotonic clock. Raises ClientError."""
    command = [sys.executable, "-P", "-m", "xsessiond.store", *words]
    program = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        told, wrong = program.communicate(timeout=max(0.0, deadline - monotonic()))
    except subprocess.TimeoutExpired:
        text = "The store was not read through in time."
        raise ClientError("timeout", text, "It may be large or its disk slow; `--timeout S` waits longer.") from None
    finally:
        if program.poll() is None:
            program.send_signal(signal.SIGINT)  # it removes what it made of a copy as soon as its disk lets it
    try:
        document = decode(told.decode())
    except ValueError:
        document = None
    if not isinstance(document, dict):
        detail = wrong.decode("utf-8", "replace").strip()[-2000:]
        raise ClientError("internal", "The store could not be looked at: its program failed.", detail=detail)
    error = document.get("error")
    if isinstance(error, dict):
        code, lasting = str(error.get("code")), error.get("transient") is False
        hint = set_aside(words[1]) if code == "internal" and lasting else None
        raise ClientError(code, str(error.get("text")), hint)
    return document


def set_aside(path: str) -> str:
    """The command that puts a store that cannot be used where it can be looked at, and has a new one made."""
    directory, number = f"{os.path.dirname(path)}/damaged", 1
    while os.path.lexists(aside := directory + (f"-{number}" if number > 1 else "")):
        number += 1
    place, files = shlex.quote(aside), shlex.quote(path)
    return f"xsessionctl stop && mkdir {place} && mv {files}* {place} && xsessionctl start"

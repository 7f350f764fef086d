"""Looking at the store without being able to read it: the store's own small program does it, and tells.

Laws: what is done is done by a process of ours, with our rights, and not by the broker, which an agent could otherwise
have write where it may not write itself. Refuses to know: tables, printing.
"""

from __future__ import annotations

import subprocess
import sys
from time import monotonic

from xsessionctl.client import ClientError
from xsessionctl.codec import decode


def run_store_program(words: list[str], deadline: float) -> dict[str, object]:
    """What `python -m xsessiond.store` answers to these words. deadline: on the monotonic clock. Raises ClientError."""
    command = [sys.executable, "-P", "-m", "xsessiond.store", *words]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=max(0.0, deadline - monotonic()),
            check=False,
        )
    except subprocess.TimeoutExpired:
        text = "The store was not read through in time."
        raise ClientError("timeout", text, "It may be large or its disk slow; `--timeout S` waits longer.") from None
    try:
        document = decode(done.stdout.decode())
    except ValueError:
        document = None
    if not isinstance(document, dict):
        detail = done.stderr.decode("utf-8", "replace").strip()[-2000:]
        raise ClientError("internal", "The store could not be looked at: its program failed.", detail=detail)
    error = document.get("error")
    if isinstance(error, dict):
        raise ClientError(str(error.get("code")), str(error.get("text")))
    return document

"""Starting a missing broker from a loop that must not wait.

Laws: who starts it, and how, is `lifecycle`'s business; this only takes its steps one at a time. Imported only when a
start is needed.
"""

from __future__ import annotations

from xsessionctl.client import ClientError
from xsessionctl.lifecycle import Starting, find_paths

_starting: list[Starting] = []
"""The start that is under way, if there is one."""


def start_broker() -> str | None:
    """Takes the next step of a start: begins it, leaves it to a client that was first, or looks what became of it.

    Returns at once; a sentence if the broker cannot be started.
    """
    try:
        if not _starting:
            starting = Starting(find_paths())
            starting.__enter__()
            _starting.append(starting)
        _starting[0].step()
        _starting[0].check()
    except ClientError as problem:
        forget_start()
        return " ".join(part for part in (problem.text, problem.hint) if part)
    return None


def forget_start() -> None:
    """The broker answers, or will not."""
    for starting in _starting:
        starting.__exit__()
    _starting.clear()

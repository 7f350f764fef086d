"""What surrounds a shim as a process: its standard streams, signals, environment.

Refuses to know: what the shim does.
"""

from __future__ import annotations

import os

_OURS_ALONE = ("NAME", "LABEL", "CLASS", "INBOUND", "HARNESS", "HOOKS", "SOCKET", "TOKEN_FILE")
"""XSESSIOND_ variables that say who this session is: nothing that the shim starts inherits them."""


def take_environ() -> dict[str, str]:
    """The environment as the harness gave it; afterwards this process has it without what is for this session alone."""
    environ = dict(os.environ)
    for name in _OURS_ALONE:
        os.environ.pop(f"XSESSIOND_{name}", None)
    return environ


def catch_signals() -> int:
    """A descriptor that becomes readable when a signal asks for the end."""
    import _signal  # type: ignore[import-not-found] # the C module below `signal`, which would import enum

    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    _signal.set_wakeup_fd(writable)
    # Inherited as ignored it would take away how what is started here has ended.
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    wanted = [_signal.SIGTERM, _signal.SIGHUP]
    # Ctrl-C in the harness's terminal reaches every process there; what it means is the harness's to say.
    if os.isatty(0):
        wanted.append(_signal.SIGINT)
    else:
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    for number in wanted:
        _signal.signal(number, _note_signal)
    return readable


def _note_signal(number: int, frame: object) -> None:
    """The wake-up descriptor has it already."""


def has_streams() -> bool:
    """Whether there is a client at all. A missing stderr is made up for, lest a socket take its number."""
    for fd in (0, 1):
        try:
            os.fstat(fd)
        except OSError:
            return False
    try:
        os.fstat(2)
    except OSError:
        os.open(os.devnull, os.O_WRONLY)
    return True

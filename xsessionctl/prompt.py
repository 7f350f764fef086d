"""Questions to the person at the terminal whose answers must not be seen.

Laws: the terminal itself is asked, whatever standard input and output are connected to; without one nothing is asked,
and nothing is read from elsewhere instead. Refuses to know: what the answer is for.
"""

from __future__ import annotations

import os

from xsessiond.core.inert import inert


def read_secret(why: str, ask: str = "Passphrase: ") -> str | None:
    """What was typed, unseen; None without a terminal, and when nothing was typed. why: a sentence shown above it."""
    import warnings
    from getpass import GetPassWarning, getpass

    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error", GetPassWarning)
        try:
            return getpass(f"{inert(why, multiline=False)}\n{ask}") or None
        except (GetPassWarning, EOFError):
            return None

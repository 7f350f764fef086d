"""The broker with a disk that hangs while a file says so: what the watchdog is there for.

`$HOME/hang-all`: every transaction hangs, so also one that the loop itself makes. `$HOME/hang-thread`: only those of
other threads do, so that the loop goes on and answers.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time

from xsessiond.app import main
from xsessiond.store.sqlite_errors import Transaction

_begin = Transaction.__enter__


def _hang_or_begin(self: Transaction) -> sqlite3.Connection:
    home = os.environ["HOME"]
    here = threading.current_thread() is threading.main_thread()
    while os.path.exists(f"{home}/hang-all") or (not here and os.path.exists(f"{home}/hang-thread")):
        time.sleep(0.05)
    return _begin(self)


Transaction.__enter__ = _hang_or_begin  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main())

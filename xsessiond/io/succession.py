"""How a broker that the service manager starts comes to its lock: it asks the one that a client started to end.

Clients start a broker where they find none: before the service was installed, or from cron while nobody was logged in
and the manager's socket was not there. Were that one left alone, the manager's broker could not start, and whoever
connects to the manager's socket would wait for ever.

Laws: a signal goes only to a process of this user that runs this program and, by the lock's own note, holds the lock;
it ends as it does for anybody who stops it: what was accepted is kept, and its sessions come back by themselves.
Refuses to know: who started the one that goes.
"""

from __future__ import annotations

import os
import socket

import psutil

from xsessiond.core.limits import LOCK_WAIT_S, STOP_WITHIN_S
from xsessiond.io.lock import AlreadyRunning, BrokerLock, acquire_broker_lock
from xsessiond.paths import PRODUCT, Paths


def succeed_broker(paths: Paths, version: str) -> BrokerLock:
    """As `acquire_broker_lock`, after having ended whoever holds the lock. Blocks for as long as a broker may take to
    end. Raises AlreadyRunning if it does not, or cannot be told from another program; OSError."""
    try:
        return acquire_broker_lock(paths, version)
    except AlreadyRunning as found:
        if not _end(found):
            raise
    return acquire_broker_lock(paths, version, wait_s=STOP_WITHIN_S + LOCK_WAIT_S)


def _end(found: AlreadyRunning) -> bool:
    if found.pid is None or found.host != socket.gethostname():
        return False  # of another machine that shares the directory, its pid means nothing here
    try:
        process = psutil.Process(found.pid)
        if process.uids().real != os.getuid() or not _is_broker(process.cmdline()):
            return False
        process.terminate()
    except psutil.NoSuchProcess:
        return True  # it ended just now
    except psutil.Error:
        return False
    return True


def _is_broker(argv: list[str]) -> bool:
    """Whether a command line is that of a broker: `python -m xsessiond …`, or the command `xsessiond`."""
    return any(os.path.basename(word) == PRODUCT for word in argv[:5])

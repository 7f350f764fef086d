"""Telling the service manager again and again that all is well, for as long as it is.

Laws: the word is given only after the store's writer came back from a transaction, so that neither a loop that is stuck
nor a disk that hangs can be taken for health. Where nobody asked to be told, nothing runs. Refuses to know: what the
manager does when the word stays away.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from xsessiond.io.sdnotify import ServiceManager


async def feed_watchdog(manager: ServiceManager, prove_writer: Callable[[], Awaitable[None]]) -> None:
    """Give the manager its word, twice in each of its intervals, until cancelled. Returns at once where none is wanted.

    prove_writer: comes back when the store could take something, and not before.
    """
    if manager.watchdog_s is None:
        return
    while True:
        await prove_writer()
        manager.watchdog()
        await trio.sleep(manager.watchdog_s / 2)

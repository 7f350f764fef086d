"""What keeps the store small and quick, beside what is served: pruning, moving its log, and seeing that it lives.

Laws: in a thread, one checkpoint at a time; what goes wrong is told and tried again the next time. Refuses to know:
what is in the store.
"""

from __future__ import annotations

import trio

from xsessiond.core.limits import CHECKPOINT_BYTES
from xsessiond.io.surroundings import Surroundings
from xsessiond.private_dirs import remove_older
from xsessiond.store.contract import Store, StoreError


class Upkeep:
    """Looks after one store."""

    __slots__ = ("_around", "_checkpointing", "_store")

    def __init__(self, store: Store, around: Surroundings) -> None:
        self._store, self._around = store, around
        self._checkpointing = False

    def is_due(self) -> bool:
        """Whether the log has grown enough to be moved, and is not being moved."""
        return not self._checkpointing and self._store.log_bytes() > CHECKPOINT_BYTES

    async def checkpoint(self) -> None:
        """Moves the log into the main file, unless that is being done."""
        if self._checkpointing:
            return
        self._checkpointing = True
        try:
            await trio.to_thread.run_sync(self._store.checkpoint)
        except StoreError as error:
            self._around.write_log("warning", "checkpoint failed", {"problem": str(error)})
        finally:
            self._checkpointing = False

    async def prove_writer(self) -> None:
        """Returns when the writer has been through a transaction, well or not; never, if it hangs."""
        try:
            await trio.to_thread.run_sync(self._store.prove_writer)
        except StoreError:
            pass  # it is alive; what it could not store was told by those who asked for it

    async def prune(self, older_than_ms: int) -> None:
        """Deletes what is final and older than that, and the files that clients made of texts as old."""
        try:
            count = await trio.to_thread.run_sync(lambda: self._store.prune(older_than_ms=older_than_ms))
        except StoreError as error:
            self._around.write_log("warning", "pruning failed", {"problem": str(error)})
            return
        if count:
            self._around.write_log("info", "pruned", {"messages": count})
        await trio.to_thread.run_sync(remove_older, self._around.texts_dir, older_than_ms / 1000)

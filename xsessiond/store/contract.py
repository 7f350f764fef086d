"""What the broker asks of a store: to keep operations, and the reads that it cannot answer from memory.

Laws: the broker never reads the store to decide about what is live; it loads that once, at the start. Operations of
one `commit` are one transaction. Times are wall-clock milliseconds since the epoch. Refuses to know: SQL, threads,
when a commit is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from xsessiond.core.records import (
    DropGrant,
    DropPins,
    DropReceipts,
    DropTrust,
    DropWatch,
    EventRow,
    GrantRow,
    HoldRow,
    MarkMessage,
    MessageRow,
    Op,
    PutGrant,
    PutHold,
    PutMessage,
    PutPin,
    PutReceipt,
    PutSession,
    PutTrust,
    PutWatch,
    SessionRow,
    Snapshot,
    TrustRow,
    WatchRow,
)

__all__ = [
    "CLOCKED_STATES",
    "WAITING_STATES",
    "DropGrant",
    "DropPins",
    "DropReceipts",
    "DropTrust",
    "DropWatch",
    "EventRow",
    "GrantRow",
    "HoldRow",
    "Integrity",
    "MarkMessage",
    "MessageRow",
    "Op",
    "PutGrant",
    "PutHold",
    "PutMessage",
    "PutPin",
    "PutReceipt",
    "PutSession",
    "PutTrust",
    "PutWatch",
    "SessionRow",
    "Snapshot",
    "Store",
    "StoreError",
    "StoreNewer",
    "TrustRow",
    "WatchRow",
]


WAITING_STATES: Final = ("queued", "held", "handed")
"""A message in one of these still waits: it is loaded at the start and never pruned. In every other state it has
ended."""

CLOCKED_STATES: Final = ("handed", "delivered", "replied")
"""States with a time column of their own, `<state>_at`."""


class Integrity(msgspec.Struct, frozen=True):
    """Outcome of a check. detail: one sentence for `status`."""

    ok: bool
    detail: str


class StoreError(Exception):
    """The store could not do it. transient: trying again later may help (locked, I/O, full). The sentence is for
    people."""

    def __init__(self, text: str, *, transient: bool) -> None:
        super().__init__(text)
        self.transient = transient


class StoreNewer(StoreError):
    """The store was written by a newer version of the product."""


class Store(Protocol):
    """One writer. `commit` is called from one thread at a time; `read_*` and `checkpoint` may run in other threads
    beside it."""

    def load(self) -> Snapshot:
        """What is live. Raises StoreError."""

    def commit(self, ops: Sequence[Op]) -> None:
        """All of them or none, durable when it returns. Raises StoreError: nothing was stored, the same ops may be
        tried again.

        A message is put before it is marked; a mark of one that is not stored does nothing. Two messages of one seq,
        or of one sender under one key, are an error that no retry mends.
        """

    def prove_writer(self) -> None:
        """Takes the writer through a transaction that stores nothing, beside commits and from any thread: it returns
        when a commit could be made. Raises StoreError, which is an answer too; a writer that hangs gives none."""

    def checkpoint(self) -> None:
        """Moves the log into the main file, nearly always beside the writer. From a thread of its own: it takes as
        long as the disk does. Raises StoreError; commits go on without it."""

    def log_bytes(self) -> int:
        """About how much log a checkpoint would move, cheaply enough to ask after every commit."""

    def find_message(self, message_id: str) -> tuple[MessageRow, Sequence[EventRow]] | None:
        """One message with its events."""

    def find_key(self, sender_id: str, key: str) -> MessageRow | None:
        """The message that this sender sent under this key, until it is pruned."""

    def sent_by(self, sender_id: str, limit: int) -> Sequence[MessageRow]:
        """The sender's last messages, newest first, without their texts (an empty body), which nobody asks for."""

    def read_log(self, *, limit: int, since_ms: int | None, thread: str | None) -> Sequence[MessageRow]:
        """Messages, oldest first: the last `limit` of those that match, and of these no more than `limits.LOG_BYTES` of
        text and one message."""

    def events_of(self, seqs: Sequence[int]) -> Sequence[EventRow]:
        """The events of these messages: by message, then in the order in which they were stored."""

    def prune(self, *, older_than_ms: int) -> int:
        """Deletes messages that ended before that time, and sessions that did, have no waiting mail and no grant, with
        their pins, receipts and watches. Never what waits. Returns how many messages. In steps, beside commits, from
        any thread."""

    def check(self) -> Integrity:
        """A full integrity check: reads the whole file, never raises, and changes nothing whatever it finds."""

    def close(self) -> None:
        """Ends; idempotent."""

"""A store that keeps nothing over its own end: the same contract in dictionaries, for tests and for measuring.

Laws: the tests of the store hold it to the answers of the real one. A commit costs next to nothing; reads pay for it.
Refuses to know: files.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from msgspec.structs import replace

from xsessiond.core.limits import CAUSE_KEPT_MS, LOG_BYTES
from xsessiond.store.contract import (
    CLOCKED_STATES,
    WAITING_STATES,
    DropGrant,
    DropPins,
    DropReceipts,
    DropTrust,
    DropWatch,
    EventRow,
    GrantRow,
    HoldRow,
    Integrity,
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
    StoreError,
    TrustRow,
    WatchRow,
)


class MemoryStore:
    """A `Store` in memory. It can be read after `close`, as a file could be opened again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[str, SessionRow] = {}
        self._messages: dict[int, MessageRow] = {}
        self._marks: dict[int, list[MarkMessage]] = {}
        self._keys: dict[tuple[str, str], int] = {}
        self._pins: dict[tuple[str, str], PutPin] = {}
        self._receipts: list[PutReceipt] = []
        self._pairs: dict[tuple[str, str], int] = {}
        self._holds: dict[int, HoldRow] = {}
        self._trusts: dict[str, TrustRow] = {}
        self._watches: dict[tuple[str, str], WatchRow] = {}
        self._grants: dict[str, GrantRow] = {}
        self._next_seq = 1

    # -- writing ------------------------------------------------------------------------------------------------------

    def commit(self, ops: Sequence[Op]) -> None:
        """See `Store.commit`."""
        with self._lock:
            self._refuse_contradictions(ops)
            for op in ops:
                self._apply(op)

    def prove_writer(self) -> None:
        """See `Store.prove_writer`."""
        with self._lock:
            pass

    def _refuse_contradictions(self, ops: Sequence[Op]) -> None:
        seqs: set[int] = set()
        keys: set[tuple[str, str]] = set()
        for op in ops:
            if type(op) is not PutMessage:
                continue
            row = op.row
            if row.seq in self._messages or row.seq in seqs:
                raise StoreError(
                    f"Message {row.seq} is stored already. Nothing was stored; this is a bug.", transient=False
                )
            seqs.add(row.seq)
            if row.key is not None and row.sender_id is not None:
                key = (row.sender_id, row.key)
                if key in self._keys or key in keys:
                    raise StoreError(
                        "The sender used this key already. Nothing was stored; this is a bug.", transient=False
                    )
                keys.add(key)

    def _apply(self, op: Op) -> None:
        match op:
            case PutMessage(row):
                self._messages[row.seq] = row
                if row.key is not None and row.sender_id is not None:
                    self._keys[row.sender_id, row.key] = row.seq
            case MarkMessage():
                if op.seq in self._messages:
                    self._marks.setdefault(op.seq, []).append(op)
            case PutSession(session):
                self._sessions[session.id] = session
            case PutPin():
                self._pins[op.sender_id, op.name] = op
            case DropPins():
                self._pins = {key: pin for key, pin in self._pins.items() if pin.sender_id != op.sender_id}
            case PutReceipt():
                self._receipts.append(op)
            case PutHold(hold):
                self._holds[hold.seq] = hold
            case PutTrust(trust):
                self._trusts[trust.id] = trust
            case DropTrust():
                self._trusts.pop(op.trust_id, None)
            case PutWatch(watch):
                self._watches[watch.asker_id, watch.target_id] = watch
            case PutGrant(grant):
                self._grants[grant.session_id] = grant
            case DropGrant():
                self._grants.pop(op.session_id, None)
            case DropWatch():
                self._watches.pop((op.asker_id, op.target_id), None)
            case DropReceipts():
                self._receipts = [it for it in self._receipts if it.session_id != op.session_id or it.at > op.upto]

    def prune(self, *, older_than_ms: int) -> int:
        """See `Store.prune`."""
        with self._lock:
            rows = [self._current(seq) for seq in self._messages]
            gone = [row for row in rows if row.state not in WAITING_STATES and _end_of(row) < older_than_ms]
            if gone:
                self._pairs, self._next_seq = self._count_pairs(), self._find_next_seq()
            for row in gone:
                del self._messages[row.seq]
                self._marks.pop(row.seq, None)
                self._holds.pop(row.seq, None)
            self._keys = {key: seq for key, seq in self._keys.items() if seq in self._messages}
            self._prune_sessions(older_than_ms)
            return len(gone)

    def _prune_sessions(self, older_than_ms: int) -> None:
        mail = {row.target_id for row in map(self._current, self._messages) if row.state in WAITING_STATES}
        for row in list(self._sessions.values()):
            ended = row.last_seen_at if row.ended_at is None else row.ended_at
            if not row.live and ended < older_than_ms and row.id not in mail and row.id not in self._grants:
                del self._sessions[row.id]
        self._pins = {key: pin for key, pin in self._pins.items() if pin.sender_id in self._sessions}
        self._receipts = [receipt for receipt in self._receipts if receipt.session_id in {"human", *self._sessions}]
        known = self._sessions
        self._trusts = {key: it for key, it in self._trusts.items() if it.sender_id in known and it.target_id in known}
        askers = {"human", *known}
        self._watches = {key: it for key, it in self._watches.items() if key[0] in askers and key[1] in known}
        self._pairs = {pair: count for pair, count in self._pairs.items() if self._is_pair_known(*pair)}

    def checkpoint(self) -> None:
        """There is no log."""

    def log_bytes(self) -> int:
        """There is no log."""
        return 0

    # -- reading ------------------------------------------------------------------------------------------------------

    def load(self) -> Snapshot:
        """See `Store.load`."""
        with self._lock:
            rows = self._rows()
            pairs = self._count_pairs()
            return Snapshot(
                sessions=sorted(self._sessions.values(), key=lambda row: (row.started_at, row.id)),
                messages=[row for row in rows if row.state in WAITING_STATES],
                pins=[self._pins[key] for key in sorted(self._pins)],
                receipts=list(self._receipts),
                entered=_find_entered(rows),
                next_seq=self._find_next_seq(),
                pair_seqs=sorted((*pair, count) for pair, count in pairs.items() if self._is_pair_known(*pair)),
                holds=[self._holds[row.seq] for row in rows if row.state in WAITING_STATES and row.seq in self._holds],
                trusts=[self._trusts[key] for key in sorted(self._trusts)],
                watches=[self._watches[key] for key in sorted(self._watches)],
                grants=[self._grants[key] for key in sorted(self._grants)],
            )

    def find_message(self, message_id: str) -> tuple[MessageRow, Sequence[EventRow]] | None:
        """See `Store.find_message`."""
        with self._lock:
            for row in self._rows():
                if row.id == message_id:
                    return row, self._events(row.seq)
        return None

    def find_key(self, sender_id: str, key: str) -> MessageRow | None:
        """See `Store.find_key`."""
        with self._lock:
            seq = self._keys.get((sender_id, key))
            return None if seq is None else self._current(seq)

    def sent_by(self, sender_id: str, limit: int) -> Sequence[MessageRow]:
        """See `Store.sent_by`."""
        with self._lock:
            return [replace(row, body="") for row in reversed(self._rows()) if row.sender_id == sender_id][:limit]

    def read_log(self, *, limit: int, since_ms: int | None, thread: str | None) -> Sequence[MessageRow]:
        """See `Store.read_log`."""
        with self._lock:
            found = [
                row
                for row in self._rows()
                if (since_ms is None or row.sent_at >= since_ms) and (thread is None or row.thread == thread)
            ]
        found = found[-limit:] if limit else []
        size, fitting = 0, 0
        for row in reversed(found):
            fitting += 1
            size += row.bytes
            if size > LOG_BYTES:
                break
        return found[len(found) - fitting :]

    def events_of(self, seqs: Sequence[int]) -> Sequence[EventRow]:
        """See `Store.events_of`."""
        with self._lock:
            return [event for seq in sorted(set(seqs)) for event in self._events(seq)]

    def check(self) -> Integrity:
        """See `Store.check`."""
        return Integrity(ok=True, detail="The store is in memory and keeps nothing when the broker ends.")

    def close(self) -> None:
        """See `Store.close`."""

    # -- the rest -----------------------------------------------------------------------------------------------------

    def _rows(self) -> list[MessageRow]:
        return [self._current(seq) for seq in sorted(self._messages)]

    def _events(self, seq: int) -> list[EventRow]:
        return [
            EventRow(self._messages[seq].id, mark.at, mark.state, mark.by, mark.rule)
            for mark in self._marks.get(seq, ())
            if mark.by is not None or mark.rule is not None or mark.state not in CLOCKED_STATES
        ]

    def _current(self, seq: int) -> MessageRow:
        """The message with its marks applied: that this is done here is what keeps `commit` cheap."""
        row = self._messages[seq]
        marks = self._marks.get(seq)
        if not marks:
            return row
        times: dict[str, int] = {}
        for mark in marks:
            column = f"{mark.state}_at"
            if mark.state in CLOCKED_STATES and getattr(row, column) is None:
                times.setdefault(column, mark.at)
            if mark.state not in WAITING_STATES and row.ended_at is None:
                times.setdefault("ended_at", mark.at)
        return replace(row, state=marks[-1].state, **times)

    def _find_next_seq(self) -> int:
        return max(self._next_seq, max(self._messages, default=0) + 1)

    def _count_pairs(self) -> dict[tuple[str, str], int]:
        pairs = dict(self._pairs)
        for seq, row in self._messages.items():
            if seq >= self._next_seq:  # those below were counted when something was pruned
                pair = (row.sender_kind if row.sender_id is None else row.sender_id, row.target_id)
                pairs[pair] = max(pairs.get(pair, 0), row.pair_seq)
        return pairs

    def _is_pair_known(self, sender: str, target: str) -> bool:
        senders, targets = {"human", "script", *self._sessions}, {"human", *self._sessions}
        return sender in senders and target in targets


def _end_of(row: MessageRow) -> int:
    return row.sent_at if row.ended_at is None else row.ended_at


def _find_entered(rows: Sequence[MessageRow]) -> list[tuple[str, str, int, int]]:
    since = max((row.delivered_at for row in rows if row.delivered_at is not None), default=0) - CAUSE_KEPT_MS
    newest = {
        (row.target_id, row.hop): row for row in rows if row.delivered_at is not None and row.delivered_at > since
    }
    found = [(row.target_id, row.delivered_at or 0, row.seq, row.id, row.hop) for row in newest.values()]
    return [(target_id, message_id, hop, at) for target_id, at, _, message_id, hop in sorted(found)]

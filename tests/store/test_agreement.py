"""Both stores give the same answers after the same operations, whatever these are."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.store.rows import grant, hold, mark, message, message_id, session, trust, watch
from xsessiond.store.contract import (
    DropGrant,
    DropPins,
    DropReceipts,
    DropTrust,
    DropWatch,
    Op,
    PutGrant,
    PutHold,
    PutMessage,
    PutPin,
    PutReceipt,
    PutSession,
    PutTrust,
    PutWatch,
    Store,
    StoreError,
)
from xsessiond.store.memory import MemoryStore
from xsessiond.store.sqlite import SqliteStore

SESSIONS = ("s-a", "s-b", "s-c", "human")
STATES = ("queued", "held", "handed", "delivered", "replied", "denied", "expired", "refused", "discarded")
TIMES = st.integers(0, 60)
"""Few enough to meet: what is stored at a time and what is asked about it."""
TEXTS = st.text(max_size=6)
MAYBE_TEXTS = st.none() | TEXTS
SEQS = st.sampled_from([1, 2, 3, 1023, 1024, 1025, 1026, 5000])
"""Few enough to meet too, on both sides of the edge between two shelves of the index over ids."""

messages = st.builds(
    lambda seq, root, **values: message(seq, thread=message_id(root or seq), **values),
    SEQS,
    st.none() | SEQS,
    body=TEXTS,
    state=st.sampled_from(STATES),
    sender_id=st.sampled_from(SESSIONS[:3]),
    target_id=st.sampled_from(SESSIONS[:3]),
    sender_harness=MAYBE_TEXTS,
    sender_cwd=MAYBE_TEXTS,
    summary=MAYBE_TEXTS,
    reply_to=MAYBE_TEXTS,
    key=st.none() | st.sampled_from(["", "k", "l"]),
    pair_seq=st.integers(0, 9),
    sent_at=TIMES,
    expires_at=st.none() | TIMES,
    handed_at=st.none() | TIMES,
    cause=MAYBE_TEXTS,
    subagent=st.booleans(),
)
people = st.builds(
    lambda row, kind: message(
        row.seq, body=row.body, sender_kind=kind, sender_id=None, key=row.key, sent_at=row.sent_at
    ),
    messages,
    st.sampled_from(["human", "script"]),
)
sessions = st.builds(
    session,
    st.sampled_from(SESSIONS),
    label=MAYBE_TEXTS,
    live=st.booleans(),
    noted=st.booleans(),
    can_reply=st.booleans(),
    started_at=TIMES,
    last_seen_at=TIMES,
    ended_at=st.none() | TIMES,
    inbound=MAYBE_TEXTS,
)
marks = st.builds(mark, SEQS, st.sampled_from(STATES), TIMES, by=MAYBE_TEXTS, rule=MAYBE_TEXTS)
pins = st.builds(PutPin, st.sampled_from(SESSIONS), TEXTS, st.sampled_from(SESSIONS))
holds = st.builds(
    hold,
    SEQS,
    cause=TEXTS,
    expires_at=st.none() | TIMES,
    answers=st.none() | SEQS,
    released_at=st.none() | TIMES,
    released_rule=MAYBE_TEXTS,
    released_by=MAYBE_TEXTS,
)
trusts = st.builds(
    trust,
    st.sampled_from(["t-1", "t-2"]),
    st.sampled_from(SESSIONS),
    st.sampled_from(SESSIONS),
    scope=st.sampled_from(["session", "pair"]),
    until=st.none() | TIMES,
)
watches = st.builds(
    watch, st.sampled_from(SESSIONS), st.sampled_from(SESSIONS[:3]), until=TIMES, hop=st.integers(0, 17)
)
receipts = st.builds(
    PutReceipt,
    st.sampled_from(SESSIONS),
    TEXTS,
    st.sampled_from(STATES),
    TIMES,
    TEXTS,
    st.booleans(),
    st.integers(0, 17),
)
other_ops = st.one_of(
    st.builds(PutSession, sessions),
    pins,
    st.builds(DropPins, st.sampled_from(SESSIONS)),
    st.builds(PutHold, holds),
    st.builds(PutTrust, trusts),
    st.builds(DropTrust, st.sampled_from(["t-1", "t-2"])),
    st.builds(PutWatch, watches),
    st.builds(PutGrant, st.builds(grant, st.sampled_from(SESSIONS), until=st.none() | TIMES)),
    st.builds(DropGrant, st.sampled_from(SESSIONS)),
    st.builds(DropWatch, st.sampled_from(SESSIONS), st.sampled_from(SESSIONS[:3])),
    receipts,
    st.builds(DropReceipts, st.sampled_from(SESSIONS), TIMES),
)


def put_before_marked(ops: list[Op]) -> list[Op]:
    """Order them as the contract asks: a message is put before it is marked."""
    return sorted(ops, key=lambda op: isinstance(op, type(mark(1, "queued"))))


batches = st.lists(st.one_of(st.builds(PutMessage, messages | people), marks, other_ops), max_size=12).map(
    put_before_marked
)
Prune = int
steps = st.lists(batches | TIMES, max_size=6)


def answers(store: Store) -> list[object]:
    """Ask all that can be asked about the few things there are."""
    questions: list[Callable[[], object]] = [store.load]
    for seq in (1, 2, 3, 1023, 1024, 1025, 1026, 5000):
        questions.append(lambda seq=seq: store.find_message(message_id(seq)))
        questions.append(lambda seq=seq: store.read_log(limit=2, since_ms=None, thread=message_id(seq)))
    questions.append(lambda: store.events_of([1, 1024, 3, 5000]))
    for name in SESSIONS:
        questions.append(lambda name=name: store.sent_by(name, 3))
        questions += [lambda name=name, key=key: store.find_key(name, key) for key in ("", "k", "l")]
    questions += [lambda at=at: store.read_log(limit=4, since_ms=at, thread=None) for at in (None, 0, 30, 61)]
    return [question() for question in questions]


def take(store: Store, step: Sequence[Op] | Prune) -> object:
    if isinstance(step, int):
        return store.prune(older_than_ms=step)
    try:
        store.commit(step)
    except StoreError as refusal:
        return refusal.transient
    return None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(taken=steps, reopened=st.booleans())
@example(
    taken=[[PutMessage(message(1)), mark(1, "held", 3, by="")], 61, [PutMessage(message(1024, key=""))]], reopened=True
)
def test_both_stores_answer_alike(taken: list[Sequence[Op] | Prune], *, reopened: bool) -> None:
    memory = MemoryStore()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "store.db"
        disk = SqliteStore(path, "normal")
        try:
            for step in taken:
                assert take(disk, step) == take(memory, step)
                assert disk.load() == memory.load()
                disk.checkpoint()
            if reopened:
                disk.close()
                disk = SqliteStore(path, "normal")
            assert answers(disk) == answers(memory)
            assert disk.check().ok
        finally:
            disk.close()

"""What `xsessiond.store.contract` promises, asked of both stores."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.store.rows import (
    HOUR,
    NOW,
    grant,
    hold,
    mark,
    message,
    message_id,
    put,
    put_grant,
    put_hold,
    put_session,
    put_trust,
    put_watch,
    session,
    trust,
    watch,
)
from xsessiond.core.limits import LOG_BYTES
from xsessiond.store.contract import (
    DropGrant,
    DropPins,
    DropReceipts,
    DropTrust,
    DropWatch,
    EventRow,
    PutHold,
    PutMessage,
    PutPin,
    PutReceipt,
    Store,
    StoreError,
)


def test_a_new_store_is_empty(store: Store) -> None:
    found = store.load()
    assert (found.sessions, found.messages, found.pins, found.receipts, found.pair_seqs) == ([], [], [], [], [])
    assert found.next_seq == 1
    assert store.find_message("m-none") is None
    assert store.find_key("s-a", "none") is None
    assert store.sent_by("s-a", 10) == []
    assert store.read_log(limit=10, since_ms=None, thread=None) == []
    assert store.prune(older_than_ms=NOW) == 0
    assert store.check().ok


def test_committing_nothing_is_nothing(store: Store) -> None:
    store.commit([])
    assert store.load().next_seq == 1


def test_a_message_comes_back_as_it_was(store: Store) -> None:
    rows = [
        message(
            1, body="é\u0000\n\U0001f9ea", summary="s", reply_to="m-0", thread="m-0", key="k", expires_at=NOW, hop=3
        ),
        message(2, sender_kind="human", sender_id=None, sender_harness=None, sender_cwd=None, sender_name="ann"),
        message(3, body="", summary="", key="", mode="steer", rule=""),
        message(4, state="delivered", handed_at=NOW, delivered_at=NOW + 1, replied_at=0, ended_at=NOW + 1),
        message(5, body="x" * 1_000_000),
    ]
    store.commit([PutMessage(row) for row in rows])
    assert [store.find_message(row.id) for row in rows] == [(row, []) for row in rows]
    assert store.read_log(limit=9, since_ms=None, thread=None) == rows


def test_the_log_reads_a_bounded_amount_of_text(store: Store) -> None:
    """13.3: texts of many megabytes are not all loaded to answer one question; the newest are."""
    store.commit([put(seq, body="x" * (1 << 20), bytes=1 << 20) for seq in range(1, 9)])
    found = store.read_log(limit=100, since_ms=None, thread=None)
    assert [row.seq for row in found] == [4, 5, 6, 7, 8]
    assert sum(row.bytes for row in found) <= LOG_BYTES + (1 << 20)


def test_what_a_sender_sent_comes_without_the_texts(store: Store) -> None:
    row = message(1, body="x" * 1000, bytes=1000, sender_id="s-a")
    store.commit([PutMessage(row)])
    assert store.sent_by("s-a", 10) == [replace(row, body="")]


def test_sessions_come_back_as_they_were_and_replaced(store: Store) -> None:
    first = session("s-a", label="l", harness_session_id="h", can_reply=False, noted=True)
    second = session("s-b", pid=None, pid_start=None, boot_id=None, live=False, ended_at=NOW, started_at=NOW - 1)
    store.commit([put_session("s-a"), put_session("s-b")])
    store.commit([put_session("s-a", label="l", harness_session_id="h", can_reply=False, noted=True)])
    store.commit(
        [put_session("s-b", pid=None, pid_start=None, boot_id=None, live=False, ended_at=NOW, started_at=NOW - 1)]
    )
    found = store.load().sessions
    assert found == [second, first]
    assert all(type(row.live) is bool and type(row.can_reply) is bool and type(row.noted) is bool for row in found)


def test_only_what_waits_is_loaded_in_the_order_of_acceptance(store: Store) -> None:
    states = ("queued", "held", "handed", "delivered", "replied", "denied", "expired", "refused", "discarded")
    store.commit([put(seq, state=state) for seq, state in reversed(list(enumerate(states, 1)))])
    assert [row.seq for row in store.load().messages] == [1, 2, 3]


def test_marks_set_the_state_and_each_time_once(store: Store) -> None:
    store.commit([put(1), mark(1, "handed", 10), mark(1, "queued", 11), mark(1, "handed", 12)])
    store.commit([mark(1, "delivered", 13)])
    store.commit([mark(1, "replied", 14), mark(1, "replied", 15)])
    found = store.find_message(message_id(1))
    assert found is not None
    assert found[0] == message(1, state="replied", handed_at=10, delivered_at=13, replied_at=14, ended_at=13)


@pytest.mark.parametrize("state", ["denied", "expired", "refused", "discarded", "delivered", "replied"])
def test_every_state_that_does_not_wait_ends_the_message(store: Store, state: str) -> None:
    store.commit([put(1), mark(1, state, 10)])
    found = store.find_message(message_id(1))
    assert found is not None
    assert found[0].ended_at == 10
    assert store.load().messages == []


def test_steps_that_have_no_column_become_events(store: Store) -> None:
    store.commit([put(1, state="held"), put(2), mark(1, "queued", 10, by="ann", rule="once"), mark(1, "handed", 11)])
    store.commit([mark(1, "queued", 12), mark(1, "handed", 13, rule="again"), mark(1, "expired", 14)])
    found = store.find_message(message_id(1))
    assert found is not None
    assert found[1] == [
        EventRow(message_id(1), 10, "queued", "ann", "once"),
        EventRow(message_id(1), 12, "queued", None, None),
        EventRow(message_id(1), 13, "handed", None, "again"),
        EventRow(message_id(1), 14, "expired", None, None),
    ]
    assert store.find_message(message_id(2)) == (message(2), [])


def test_a_mark_of_a_message_that_is_not_there_does_nothing(store: Store) -> None:
    store.commit([mark(7, "delivered"), mark(7, "expired")])
    assert store.load().next_seq == 1
    store.commit([put(7)])
    assert store.find_message(message_id(7)) == (message(7), [])


def test_a_commit_is_all_or_nothing(store: Store) -> None:
    store.commit([put_session("s-a"), put(1)])
    before = store.load()
    for bad in ([put(2), put(1)], [put(2), put(3), put(2)]):
        with pytest.raises(StoreError, match="Nothing was stored") as refusal:
            store.commit([put_session("s-b"), *bad, mark(1, "delivered"), PutPin("s-a", "web", "s-b")])
        assert not refusal.value.transient
        assert store.load() == before
    store.commit([put(2), mark(1, "delivered")])
    assert [row.seq for row in store.load().messages] == [2]


def test_one_key_of_one_sender_names_one_message(store: Store) -> None:
    """L3: what a retry under the same key would store twice cannot be stored twice."""
    store.commit([put(1, key="k"), put(2, key="k", sender_id="s-c"), put(3), put(4)])
    for bad in ([put(5, key="k")], [put(5, key="new"), put(6, key="new")]):
        with pytest.raises(StoreError, match="Nothing was stored"):
            store.commit(bad)
    assert store.find_key("s-a", "k") == message(1, key="k")
    assert store.find_key("s-c", "k") == message(2, key="k", sender_id="s-c")
    assert store.find_key("s-a", "new") is None
    assert store.load().next_seq == 5


def test_a_key_is_free_again_once_its_message_is_pruned(store: Store) -> None:
    store.commit([put(1, key="k"), mark(1, "delivered", NOW)])
    store.prune(older_than_ms=NOW + 1)
    assert store.find_key("s-a", "k") is None
    store.commit([put(2, key="k")])
    assert store.find_key("s-a", "k") == message(2, key="k")


def test_pins_are_replaced_and_dropped_by_sender(store: Store) -> None:
    store.commit([PutPin("s-a", "web", "s-b"), PutPin("s-a", "api", "s-c"), PutPin("s-b", "web", "s-d")])
    store.commit([PutPin("s-a", "web", "s-e")])
    assert store.load().pins == [PutPin("s-a", "api", "s-c"), PutPin("s-a", "web", "s-e"), PutPin("s-b", "web", "s-d")]
    store.commit([DropPins("s-a"), PutPin("s-a", "new", "s-b")])
    assert store.load().pins == [PutPin("s-a", "new", "s-b"), PutPin("s-b", "web", "s-d")]
    store.commit([PutPin("s-c", "x", "s-b"), DropPins("s-c"), DropPins("s-none")])
    assert len(store.load().pins) == 2


def test_receipts_wait_in_order_until_they_are_taken(store: Store) -> None:
    receipts = [PutReceipt("s-a", f"m-{n}", "expired", at, "t") for n, at in enumerate((5, 3, 5, 9))]
    other = PutReceipt("s-b", "m-9", "held", 1, "")
    store.commit([*receipts, other, receipts[0]])
    assert store.load().receipts == [*receipts, other, receipts[0]]
    store.commit([DropReceipts("s-a", 5)])
    assert store.load().receipts == [receipts[3], other]


def test_sends_come_newest_first(store: Store) -> None:
    store.commit([put(seq, sender_id="s-a" if seq % 2 else "s-b") for seq in range(1, 8)])
    assert [row.seq for row in store.sent_by("s-a", 3)] == [7, 5, 3]
    assert [row.seq for row in store.sent_by("s-a", 9)] == [7, 5, 3, 1]
    assert store.sent_by("s-a", 0) == []


def test_the_log_shows_the_last_that_match_oldest_first(store: Store) -> None:
    first, other = message_id(1), message_id(2)
    store.commit([put(1), put(2), put(3, thread=first), put(4, thread=other), put(5, thread=first), put(6)])

    def seqs(limit: int, since_ms: int | None = None, thread: str | None = None) -> list[int]:
        return [row.seq for row in store.read_log(limit=limit, since_ms=since_ms, thread=thread)]

    assert seqs(3) == [4, 5, 6]
    assert seqs(9, since_ms=NOW + 5) == [5, 6]
    assert seqs(9, thread=first) == [1, 3, 5]
    assert seqs(2, thread=first) == [3, 5]
    assert seqs(9, since_ms=NOW + 2, thread=first) == [3, 5]
    assert seqs(9, thread=message_id(5)) == []
    assert seqs(9, thread="m-none") == []
    assert seqs(0) == []


def test_the_log_follows_a_thread_whose_beginning_was_pruned(store: Store) -> None:
    store.commit([put(1), put(2, thread=message_id(1)), mark(1, "delivered", NOW)])
    store.prune(older_than_ms=NOW + 1)
    assert [row.seq for row in store.read_log(limit=9, since_ms=None, thread=message_id(1))] == [2]


def test_a_clock_that_jumped_back_hides_nothing_from_the_log(store: Store) -> None:
    store.commit([put(1, sent_at=NOW), put(2, sent_at=NOW - HOUR), put(3, sent_at=NOW)])
    assert [row.seq for row in store.read_log(limit=9, since_ms=NOW, thread=None)] == [1, 3]


def test_pruning_never_takes_what_waits(store: Store) -> None:
    """L1: mail of a session that ended is kept until it has ended itself."""
    store.commit([put_session("s-b", live=False, ended_at=NOW - HOUR)])
    store.commit(
        [put(1, state="queued"), put(2, state="held"), put(3, state="handed"), put(4), mark(4, "expired", NOW)]
    )
    assert store.prune(older_than_ms=NOW) == 0
    assert store.prune(older_than_ms=NOW + HOUR) == 1
    assert [row.seq for row in store.load().messages] == [1, 2, 3]
    assert [row.id for row in store.load().sessions] == ["s-b"]
    store.commit([mark(seq, "expired", NOW) for seq in (1, 2, 3)])
    assert store.prune(older_than_ms=NOW + HOUR) == 3
    assert store.load().sessions == []
    assert store.check().ok


def test_pruning_takes_a_message_with_all_that_belongs_to_it(store: Store) -> None:
    store.commit([put(1, key="k"), put(2), mark(1, "denied", NOW, by="ann"), mark(2, "delivered", NOW + 1)])
    assert store.prune(older_than_ms=NOW + 1) == 1
    assert store.find_message(message_id(1)) is None
    store.commit([put(3, id=message_id(1), thread=message_id(1))])
    assert store.find_message(message_id(1)) == (message(3, id=message_id(1), thread=message_id(1)), [])
    assert [row.seq for row in store.read_log(limit=9, since_ms=None, thread=None)] == [2, 3]


def test_pruning_takes_ended_sessions_with_their_pins_and_receipts(store: Store) -> None:
    old = NOW - HOUR
    store.commit(
        [
            put_session("s-live", last_seen_at=old),
            put_session("s-old", live=False, ended_at=old),
            put_session("s-lost", live=False, last_seen_at=old),
            put_session("s-new", live=False, ended_at=NOW, last_seen_at=old),
            *(PutPin(name, "web", "s-live") for name in ("s-live", "s-old", "s-new")),
            *(PutReceipt(name, "m-1", "expired", NOW, "t") for name in ("s-old", "s-new", "s-live")),
        ]
    )
    assert store.prune(older_than_ms=NOW) == 0
    found = store.load()
    assert [row.id for row in found.sessions] == ["s-live", "s-new"]
    assert [pin.sender_id for pin in found.pins] == ["s-live", "s-new"]
    assert [receipt.session_id for receipt in found.receipts] == ["s-new", "s-live"]


def test_numbers_are_never_used_again(store: Store) -> None:
    """L7: pruning all messages resets neither the order of acceptance nor that of a pair."""
    store.commit([put_session("s-a"), put_session("s-b")])
    store.commit([put(1, pair_seq=1), put(2, pair_seq=2), put(9, sender_id="s-b", target_id="s-a", pair_seq=1)])
    store.commit([mark(seq, "delivered", NOW) for seq in (1, 2, 9)])
    for _ in range(2):
        store.prune(older_than_ms=NOW + 1)
        assert store.load().next_seq == 10
        assert store.load().pair_seqs == [("s-a", "s-b", 2), ("s-b", "s-a", 1)]
    store.commit([put(10, pair_seq=3)])
    assert store.load().pair_seqs == [("s-a", "s-b", 3), ("s-b", "s-a", 1)]


def test_pairs_are_counted_for_stored_sessions_and_for_people(store: Store) -> None:
    store.commit([put_session("s-a"), put_session("s-b", live=False, ended_at=NOW)])
    person = {"sender_kind": "human", "sender_id": None}
    store.commit(
        [
            put(1, pair_seq=4),
            put(2, pair_seq=3),
            put(3, sender_id="s-gone"),
            put(4, target_id="s-gone"),
            put(5, pair_seq=2, **person),
            put(6, pair_seq=1, target_id="s-gone", **person),
            put(7, pair_seq=5, target_id="human"),
            put(8, pair_seq=6, target_id="human", sender_id="s-gone"),
        ]
    )
    counted = [("human", "s-b", 2), ("s-a", "human", 5), ("s-a", "s-b", 4)]
    assert store.load().pair_seqs == counted
    store.commit([mark(seq, "delivered", NOW) for seq in range(1, 9)])
    store.prune(older_than_ms=NOW + 1)
    assert store.load().pair_seqs == [("s-a", "human", 5)]


def test_what_a_person_is_told_is_pruned_with_no_session(store: Store) -> None:
    receipt = PutReceipt("human", "m-1", "expired", NOW, "t")
    store.commit([receipt, PutReceipt("s-gone", "m-2", "expired", NOW, "t")])
    store.prune(older_than_ms=NOW)
    assert store.load().receipts == [receipt]


def test_more_is_pruned_than_fits_in_one_step(store: Store) -> None:
    store.commit([put(seq) for seq in range(1, 801)])
    store.commit([mark(seq, "delivered", NOW) for seq in range(1, 801) if seq % 100])
    assert store.prune(older_than_ms=NOW + 1) == 792
    assert [row.seq for row in store.load().messages] == list(range(100, 801, 100))
    assert store.check().ok


def test_an_id_is_found_wherever_it_stands(store: Store) -> None:
    """The index over ids is cut into shelves; none is missed, at its edges, after a gap, or before one."""
    seqs = [1, 2, 1023, 1024, 1025, 2047, 2048, 9000, 70_000, 70_001]
    store.commit([put(seq) for seq in seqs])
    for seq in seqs:
        assert store.find_message(message_id(seq)) == (message(seq), [])
    store.commit([mark(seq, "delivered", NOW) for seq in seqs[:6]])
    store.prune(older_than_ms=NOW + 1)
    for seq in seqs:
        assert (store.find_message(message_id(seq)) is None) == (seq < 2048)
    assert store.find_message(message_id(3)) is None


def test_a_checkpoint_changes_nothing_that_is_read(store: Store) -> None:
    store.commit([put_session("s-a"), *(put(seq) for seq in range(1, 50))])
    before = store.load()
    for _ in range(3):
        store.checkpoint()
        assert store.log_bytes() == 0
        assert store.load() == before


def test_closing_twice_is_closing(store: Store) -> None:
    store.commit([put(1)])
    store.close()
    store.close()


def test_rows_are_values(store: Store) -> None:
    """What was put cannot change through what was read."""
    store.commit([put(1)])
    found = store.find_message(message_id(1))
    assert found is not None
    assert replace(found[0], state="denied") != found[0]
    assert store.find_message(message_id(1)) == (message(1), [])


def test_holds_come_back_with_what_waits(store: Store) -> None:
    """Also that of a message that was let go and waits; not that of one that has ended."""
    released = hold(2, released_at=NOW + 9, released_rule="approved", released_by="human ann", answers=1)
    store.commit([put(1, state="held"), put(2), put(3, state="held"), put_hold(1), put_hold(2), put_hold(3)])
    store.commit([PutHold(released), mark(2, "queued", rule="approved", by="human ann"), mark(3, "denied")])
    found = store.load()
    assert [row.state for row in found.messages] == ["held", "queued"]
    assert found.holds == [hold(1), released]


def test_a_hold_goes_with_its_message(store: Store) -> None:
    store.commit([put(1, state="held"), put_hold(1), mark(1, "expired", NOW)])
    assert store.prune(older_than_ms=NOW + 1) == 1
    store.commit([put(2, state="held")])
    assert store.load().holds == []


def test_trusts_are_replaced_dropped_and_loaded_in_order(store: Store) -> None:
    store.commit([put_session("s-a"), put_session("s-b"), put_trust("t-2"), put_trust("t-1", scope="session")])
    store.commit([put_trust("t-2", until=NOW), put_trust("t-3"), DropTrust("t-3"), DropTrust("t-4")])
    assert store.load().trusts == [trust("t-1", scope="session"), trust("t-2", until=NOW)]


@pytest.mark.parametrize("gone", ["s-a", "s-b"])
def test_trust_goes_with_either_session(store: Store, gone: str) -> None:
    store.commit([put_session(name, live=name != gone, ended_at=NOW) for name in ("s-a", "s-b")])
    store.commit([put_trust("t-1"), put_trust("t-2", "s-b" if gone == "s-a" else "s-a", "s-c")])
    store.prune(older_than_ms=NOW)
    assert [row.id for row in store.load().trusts] == ["t-1"]
    store.prune(older_than_ms=NOW + 1)
    assert store.load().trusts == []


def test_watches_are_kept_one_for_each_two_until_they_are_dropped(store: Store) -> None:
    """9.2: also over a restart of the broker."""
    store.commit([put_watch("s-b", "s-a"), put_watch("s-a", "s-b"), put_watch("human", "s-a")])
    store.commit([put_watch("s-a", "s-b", until=NOW + HOUR), DropWatch("s-b", "s-a"), DropWatch("s-b", "s-none")])
    assert store.load().watches == [watch("human", "s-a"), watch("s-a", "s-b", until=NOW + HOUR)]
    store.commit([put_watch("s-c", "s-a"), DropWatch("s-c", "s-a"), DropWatch("human", "s-a")])
    assert store.load().watches == [watch("s-a", "s-b", until=NOW + HOUR)]


@pytest.mark.parametrize("gone", ["s-a", "s-b"])
def test_watches_are_pruned_with_either_session(store: Store, gone: str) -> None:
    store.commit([put_session(name, live=name != gone, ended_at=NOW) for name in ("s-a", "s-b", "s-c")])
    store.commit([put_watch("s-a", "s-b"), put_watch("human", gone), put_watch("human", "s-c")])
    store.prune(older_than_ms=NOW)
    assert len(store.load().watches) == 3
    store.prune(older_than_ms=NOW + 1)
    assert store.load().watches == [watch("human", "s-c")]


def test_what_was_decided_is_told_by_message(store: Store) -> None:
    """H9, 5.7: of those that were asked about, each in its order, however many."""
    store.commit([put(seq) for seq in range(1, 1201)])
    store.commit([mark(seq, "held", NOW, rule="parity") for seq in range(1200, 0, -1)])
    store.commit([mark(2, "denied", NOW + 1, by="human ann", rule="not now"), mark(1, "handed")])
    assert store.events_of([2, 1, 2, 7000]) == [
        EventRow(message_id(1), NOW, "held", None, "parity"),
        EventRow(message_id(2), NOW, "held", None, "parity"),
        EventRow(message_id(2), NOW + 1, "denied", "human ann", "not now"),
    ]
    assert [event.message_id for event in store.events_of(range(1, 1201))][2:] == [
        message_id(seq) for seq in range(2, 1201)
    ]
    assert store.events_of([]) == []


def test_grants_are_kept_one_a_session_until_they_are_dropped(store: Store) -> None:
    """13.4: also over a restart of the broker and of the machine."""
    store.commit([put_session(name) for name in ("s-a", "s-b")])
    store.commit([put_grant("s-b"), put_grant("s-a")])
    store.commit([put_grant("s-a", until=NOW + HOUR)])
    assert store.load().grants == [grant("s-a", until=NOW + HOUR), grant("s-b")]
    store.commit([DropGrant("s-b"), DropGrant("s-none")])
    assert store.load().grants == [grant("s-a", until=NOW + HOUR)]


def test_a_session_with_a_grant_is_not_pruned(store: Store) -> None:
    """13.4: it is offline until its container comes again, however long that takes."""
    store.commit([put_session(name, live=False, ended_at=NOW) for name in ("s-a", "s-b")])
    store.commit([put_grant("s-a")])
    store.prune(older_than_ms=NOW + 1)
    assert [row.id for row in store.load().sessions] == ["s-a"]
    store.commit([DropGrant("s-a")])
    store.prune(older_than_ms=NOW + 1)
    assert store.load().sessions == []

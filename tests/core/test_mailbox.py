"""The life of a message as a table, and a box in which order and leases hold."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from xsessiond.core.mailbox import FINAL, TRANSITIONS, WAITING, Box, Message, message_of, settled
from xsessiond.core.modes import MODES, is_due
from xsessiond.core.records import MessageRow

ROW = MessageRow(
    1, "m-1", "queued", "session", "s-a", "a", "codex", "/", "s-b", "b", "hello", 5, b"d", None, None, "m-1", 0, "auto",
    None, 1, "default: accept", 0, None,
)  # fmt: skip
STATES = ("held", "queued", "handed", "delivered", "replied", *sorted(FINAL))
EVENTS = ("release", "deny", "expire", "refuse", "discard", "hand", "ack", "return", "reply")


def message(seq: int, state: str = "queued") -> Message:
    return message_of(replace(ROW, seq=seq, id=f"m-{seq}", state=state, bytes=10), Raw(b"{}"))


def ids(messages: object) -> list[int]:
    assert hasattr(messages, "__iter__")
    return [one.seq for one in messages]


@pytest.mark.parametrize("state, event", list(itertools.product(STATES, EVENTS)))
def test_the_whole_life(state: str, event: str) -> None:
    """W2, 6.1: each state and event leads to one state or cannot be; then it is an error that names both."""
    one = message(1)
    one.state = state
    if (state, event) in TRANSITIONS:
        assert one.advance(event) == one.state == TRANSITIONS[state, event]
    else:
        with pytest.raises(KeyError, match=rf"'{state}', '{event}'"):
            one.advance(event)
        assert one.state == state


def test_the_table_says_what_behaviour_says() -> None:
    assert {state for state, _ in TRANSITIONS} | set(TRANSITIONS.values()) == set(STATES)
    assert all(state not in FINAL for state, _ in TRANSITIONS), "nothing follows a final state"
    reached = {after for (_, event), after in TRANSITIONS.items() if event == "ack"}
    assert reached == {"delivered"}
    assert [pair for pair, after in TRANSITIONS.items() if after == "delivered"] == [
        ("queued", "ack"),
        ("handed", "ack"),
    ], "only an acknowledgement makes it delivered"
    assert {state for state, event in TRANSITIONS if event == "ack"} == {"queued", "handed"}, "never from held"
    assert WAITING.isdisjoint(FINAL)
    assert set(STATES) - WAITING - FINAL == {"delivered", "replied"}


@pytest.mark.parametrize(
    "stored, live", [("queued", "queued"), ("handed", "queued"), ("held", "held"), ("delivered", "delivered")]
)
def test_what_another_broker_handed_waits_again(stored: str, live: str) -> None:
    assert message(1, stored).state == live


def test_a_message_repeats_what_its_row_says() -> None:
    one = message(7)
    assert (one.id, one.seq, one.size, one.target, one.lease, one.handed_at) == ("m-7", 7, 10, "s-b", None, None)


@pytest.mark.parametrize("state", STATES)
def test_what_memory_does_not_know_any_more_does_not_wait(state: str) -> None:
    assert settled(state) == ("delivered" if state in WAITING else state)


def test_mail_is_leased_in_order_and_comes_back_in_its_place() -> None:
    """W9: what a lost lease gives back stands before what came meanwhile."""
    box = Box()
    for seq in (1, 2, 3):
        box.put(message(seq))
    first, second = box.lease(7, 2)
    assert (first.lease, second.lease) == (7, 7)
    box.put(message(4))
    assert ids(box) == [1, 2, 3, 4]
    assert (len(box), box.size, ids(box.waiting)) == (4, 40, [3, 4])
    assert ids(box.leased_by(7)) == [1, 2]
    assert box.leased_by(8) == []
    assert ids(box.restore([second])) == [2]
    assert ids(box.waiting) == [2, 3, 4]
    assert ids(box.restore([first, second])) == [1], "what waits already is not restored twice"
    assert ids(box.waiting) == [1, 2, 3, 4]
    assert box.restore([]) == []
    assert {one.lease for one in box} == {None}


def test_one_may_be_leased_out_of_turn() -> None:
    box = Box()
    for seq in (1, 2, 3):
        box.put(message(seq))
    second = box.waiting[1]
    box.lease_one(second, 5)
    assert (ids(box.waiting), ids(box.leased_by(5)), second.lease) == ([1, 3], [2], 5)
    box.restore([second])
    assert ids(box.waiting) == [1, 2, 3]


def test_what_is_removed_is_gone_wherever_it_was() -> None:
    box = Box()
    for seq in (1, 2):
        box.put(message(seq))
    (leased,) = box.lease(1, 1)
    box.remove(leased)
    assert (leased.lease, box.size, len(box)) == (None, 10, 1)
    box.remove(box.waiting[0])
    assert (box.size, len(box), list(box)) == (0, 0, [])
    assert box.lease(1, 5) == []


@given(
    st.lists(
        st.one_of(
            st.sampled_from([("put", 0), ("hold", 0)]),
            st.tuples(st.sampled_from(["lease", "remove", "restore", "one", "let go"]), st.integers(0, 8)),
        ),
        max_size=60,
    )
)
def test_each_message_is_in_one_place_and_order_holds(steps: list[tuple[str, int]]) -> None:
    """L6: whatever happens, a message is either held, waiting, leased or gone, and what waits is in order."""
    box, here, held, count = Box(), dict[int, Message](), dict[int, Message](), 0
    for what, number in steps:
        some = [one for one in here.values() if one.seq % 9 == number]
        if what == "put":
            count += 1
            here[count] = message(count)
            box.put(here[count])
        elif what == "hold":
            count += 1
            held[count] = message(count)
            box.hold(held[count])
        elif what == "let go":
            freed = [one for one in held.values() if one.seq % 9 == number]
            box.let_go(freed)
            here.update((one.seq, held.pop(one.seq)) for one in freed)
        elif what == "lease":
            before = ids(box.waiting)
            assert ids(box.lease(number, number)) == before[:number]
        elif what == "restore":
            assert all(one.lease is None for one in box.restore(some))
        elif what == "remove":
            for one in some:
                box.remove(one)
                del here[one.seq]
            for one in [one for one in held.values() if one.seq % 9 == number]:
                box.remove(one)
                del held[one.seq]
        else:
            for one in some:
                if one.lease is None:
                    box.lease_one(one, 99)
        waiting, leased = ids(box.waiting), sorted(ids(box.leased.values()))
        assert waiting == sorted(waiting)
        assert sorted(waiting + leased) == sorted(here) == ids(box)
        assert {one.seq for one in here.values() if one.lease is None} == set(waiting)
        assert ids(box.held.values()) == sorted(held), "what is held is in nobody's reach"
        assert (box.size, box.held_size) == (10 * len(here), 10 * len(held))


def test_what_is_held_counts_for_itself() -> None:
    """5.5, 10.5: two limits about two things."""
    box = Box()
    box.hold(message(1))
    assert (len(box), box.size, box.held_size) == (0, 0, 10)
    box.let_go([box.held[message(1).id]])
    assert (len(box), box.size, box.held_size) == (1, 10, 0)


# -- modes -------------------------------------------------------------------------------------------------------------


def of_mode(seq: int, mode: str, sender: str = "s-a") -> Message:
    return message_of(replace(ROW, seq=seq, id=f"m-{seq}", mode=mode, sender_id=sender, bytes=10), Raw(b"{}"))


def test_what_is_not_due_waits_and_so_does_what_its_sender_wrote_after_it() -> None:
    """7.3, W15: per pair, whatever the modes are; others go ahead."""
    box = Box()
    for one in (
        of_mode(1, "auto"),
        of_mode(2, "followup"),
        of_mode(3, "auto"),
        of_mode(4, "steer", "s-c"),
        of_mode(5, "steer"),
        of_mode(6, "auto", "s-c"),
    ):
        box.put(one)
    assert ids(box.due("busy")) == [1, 4, 6]
    assert ids(box.due("idle")) == [1, 2, 3]
    assert ids(box.due("unknown")) == [1, 2, 3, 4, 5, 6]
    assert ids(box.lease(7, 2, "busy")) == [1, 4]
    assert ids(box.waiting) == [2, 3, 5, 6]
    assert ids(box.lease(7, 9, "busy")) == [6]
    assert ids(box.lease(7, 9, "idle")) == [2, 3]
    assert ids(box.lease(7, 9, "idle")) == []
    assert ids(box.lease(7, 9, "waiting")) == [5]


def test_what_comes_back_is_as_choosy_as_before() -> None:
    box = Box()
    box.put(of_mode(1, "followup"))
    (one,) = box.lease(7, 1, "idle")
    assert ids(box.due("busy")) == []
    box.restore([one])
    assert ids(box.due("busy")) == []
    assert ids(box.due("idle")) == [1]
    held = of_mode(2, "steer", "s-c")
    box.hold(held)
    box.let_go([held])
    assert ids(box.due("busy")) == [2]


@given(
    st.lists(st.tuples(st.sampled_from(MODES), st.sampled_from("abc")), max_size=12),
    st.lists(st.tuples(st.sampled_from(["busy", "idle", "unknown"]), st.integers(0, 3)), max_size=12),
)
def test_a_pair_keeps_its_order_and_nothing_comes_before_its_time(
    messages: list[tuple[str, str]], takes: list[tuple[str, int]]
) -> None:
    box = Box()
    for seq, (mode, sender) in enumerate(messages, 1):
        box.put(of_mode(seq, mode, sender))
    taken: list[Message] = []
    for state, most in takes:
        some = box.lease(7, most, state)
        assert all(is_due(one.row.mode, state) for one in some)
        taken += some
    for sender in "abc":
        seqs = [one.seq for one in taken if one.row.sender_id == sender]
        assert seqs == sorted(seqs)
        assert seqs == [seq for seq, (_, of) in enumerate(messages, 1) if of == sender][: len(seqs)]
    for state in ("idle", "busy"):  # a turn, its end, and another turn for each: then nothing is left
        for _ in messages:
            box.lease(7, 99, state)
            box.lease(7, 99, "busy" if state == "idle" else "idle")
    assert not box.waiting

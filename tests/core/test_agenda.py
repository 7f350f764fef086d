"""What is due when: one entry per key, moved by scheduling it again, out once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xsessiond.core.agenda import Agenda, Key

A, B, C = ("a", 1), ("b", 1), ("c", 1)


def test_nothing_is_due_in_an_empty_agenda() -> None:
    agenda = Agenda()
    assert agenda.next_due() is None
    assert list(agenda.pop_due(1e9)) == []
    assert len(agenda) == 0
    agenda.cancel(A)


def test_what_is_due_comes_out_once_and_earliest_first() -> None:
    agenda = Agenda()
    agenda.schedule(A, 3.0)
    agenda.schedule(B, 1.0)
    agenda.schedule(C, 2.0)
    assert agenda.next_due() == 1.0
    assert A in agenda
    assert list(agenda.pop_due(2.0)) == [B, C]
    assert list(agenda.pop_due(2.0)) == []
    assert (agenda.next_due(), len(agenda)) == (3.0, 1)
    assert B not in agenda


def test_scheduling_a_key_again_moves_it() -> None:
    agenda = Agenda()
    agenda.schedule(A, 1.0)
    agenda.schedule(A, 5.0)
    agenda.schedule(A, 3.0)
    assert (agenda.next_due(), len(agenda)) == (3.0, 1)
    assert list(agenda.pop_due(9.0)) == [A]
    assert agenda.next_due() is None


def test_a_cancelled_key_does_not_come_out() -> None:
    agenda = Agenda()
    agenda.schedule(A, 1.0)
    agenda.schedule(B, 2.0)
    agenda.cancel(A)
    assert agenda.next_due() == 2.0
    assert list(agenda.pop_due(9.0)) == [B]


def test_what_is_scheduled_for_the_past_meanwhile_comes_too() -> None:
    agenda = Agenda()
    agenda.schedule(A, 1.0)
    came = []
    for key in agenda.pop_due(5.0):
        came.append(key)
        if key == A:
            agenda.schedule(B, 0.5)
            agenda.schedule(C, 9.0)
    assert came == [A, B]


def test_moving_keys_for_ever_takes_no_room() -> None:
    agenda = Agenda()
    for when in range(100_000):
        agenda.schedule(((when % 3 and "a") or "b", 1), float(when))
    assert len(agenda) == 2
    assert len(agenda._heap) <= 65
    assert agenda.next_due() == 99_998.0


@given(
    st.lists(
        st.tuples(st.sampled_from(["schedule", "cancel", "pop"]), st.integers(0, 5), st.integers(0, 20)), max_size=200
    )
)
def test_it_is_what_a_dictionary_would_be(steps: list[tuple[str, int, int]]) -> None:
    agenda, plain = Agenda(), dict[Key, float]()
    for what, number, when in steps:
        key = ("k", number)
        if what == "schedule":
            agenda.schedule(key, float(when))
            plain[key] = float(when)
        elif what == "cancel":
            agenda.cancel(key)
            plain.pop(key, None)
        else:
            due = [agenda.next_due()] and list(agenda.pop_due(float(when)))
            assert sorted(due) == sorted(key for key, at in plain.items() if at <= when)
            assert [plain[key] for key in due] == sorted(plain[key] for key in due)
            plain = {key: at for key, at in plain.items() if at > when}
        assert agenda.next_due() == min(plain.values(), default=None)
        assert len(agenda) == len(plain)

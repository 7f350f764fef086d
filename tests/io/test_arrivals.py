"""How fast newcomers may come, with a clock that the test has in its hand; and who counts as one sender."""

from __future__ import annotations

import random

import pytest

from xsessiond.core.effects import Peer, ProcessId
from xsessiond.io import arrivals
from xsessiond.io.arrivals import Arrivals, Sender, find_sender

BURST, PER_S = 8.0, 4.0


def from_tree(pid: int) -> Sender:
    return Sender(None, pid)


class Gate:
    """Arrivals at a rendezvous, and what was reported."""

    def __init__(self) -> None:
        self.told: list[int | None] = []
        self.arrivals = Arrivals(lambda _text, pid: self.told.append(pid))
        self.looked = 0

    def come(self, pid: int, tree: int, mono: float) -> bool:
        came = from_tree(pid)
        if self.arrivals.is_over(came, mono):
            return False
        self.looked += 1
        return self.arrivals.admit(came, from_tree(tree), mono)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    monkeypatch.setattr(arrivals, "CONNECT_BURST", BURST)
    monkeypatch.setattr(arrivals, "CONNECTS_PER_SECOND", PER_S)
    return Gate()


def test_a_burst_and_then_the_pace(gate: Gate) -> None:
    assert [gate.come(7, 1, 100.0) for _ in range(10)] == [True] * 8 + [False] * 2
    assert [gate.come(7, 1, 100.25) for _ in range(2)] == [True, False]
    assert [gate.come(7, 1, 200.0) for _ in range(10)] == [True] * 8 + [False] * 2


def test_many_processes_of_one_tree_share_what_it_has(gate: Gate) -> None:
    assert [gate.come(pid, 1, 0.0) for pid in range(100, 112)] == [True] * 8 + [False] * 4


def test_another_tree_does_not_notice(gate: Gate) -> None:
    for number in range(1000):
        gate.come(7, 1, number / 1000)
        assert number % 250 or gate.come(8, 2, number / 1000)


def test_a_process_that_is_over_costs_no_look_until_it_may_come_again(gate: Gate) -> None:
    for _ in range(1000):
        gate.come(7, 1, 0.0)
    assert gate.looked == 9
    assert gate.come(7, 1, 0.25)
    assert gate.looked == 10


def test_it_is_told_once_until_the_sender_has_rested(gate: Gate) -> None:
    for number in range(1000):
        gate.come(7, 1, number / 100)
    assert gate.told == [1]
    for _ in range(9):
        gate.come(7, 1, 60.0)
    assert gate.told == [1, 1]


def test_the_flood_of_one_process_at_a_private_socket_is_not_another_s(gate: Gate) -> None:
    """What a session runs cannot keep its own server from coming back."""
    flood, server = Sender("s-1", 7), Sender("s-1", 8)
    assert [gate.arrivals.admit(flood, flood, 0.0) for _ in range(9)] == [True] * 8 + [False]
    assert gate.arrivals.is_over(flood, 0.0)
    assert not gate.arrivals.is_over(server, 0.0)
    assert gate.arrivals.admit(server, server, 0.0)
    assert not gate.arrivals.is_over(Sender("s-2", 7), 0.0)


def test_it_remembers_a_bounded_number_and_none_that_matter_are_forgotten(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "SENDERS_KEPT", 4)
    monkeypatch.setattr(arrivals, "TURNED_AWAY_KEPT", 4)
    for _ in range(9):
        gate.come(7, 7, 0.0)
    for tree in range(10, 40):
        gate.come(tree, tree, 0.25 * (tree - 9))
    assert len(gate.arrivals._buckets) <= 5
    assert gate.told == [7]
    for _ in range(9):
        gate.come(7, 7, 8.0)
    for pid in range(50, 60):
        assert not gate.come(pid, 7, 8.0)
    assert len(gate.arrivals._over) <= 4


def test_no_walk_lets_more_in_than_the_bucket_holds(gate: Gate) -> None:
    """Whatever comes when: in any span of time no tree has more than its burst and its rate for that span."""
    chance = random.Random(13)
    mono, taken = 0.0, []
    for _ in range(4000):
        mono += chance.expovariate(40.0)
        tree = chance.randrange(3)
        if gate.come(tree * 100 + chance.randrange(5), tree, mono):
            taken.append((mono, tree))
    for tree in range(3):
        times = [at for at, whose in taken if whose == tree]
        for first, start in enumerate(times):
            for last in (first + 7, first + 20, first + 100):
                if last < len(times):
                    assert last - first + 1 <= BURST + PER_S * (times[last] - start) + 1e-6


# -- who is one sender -------------------------------------------------------------------------------------------------

SHELL, HARNESS, NESTED, COMMAND = ProcessId(10, 1), ProcessId(11, 2), ProcessId(12, 3), ProcessId(13, 4)
PEER = Peer(COMMAND, (COMMAND, NESTED, HARNESS, SHELL), terminal=False, user="ann", tree=10)


def test_a_process_is_charged_to_the_nearest_session_around_it() -> None:
    assert find_sender(None, PEER, {HARNESS}) == Sender(None, 11)
    assert find_sender(None, PEER, {HARNESS, NESTED}) == Sender(None, 12)


def test_outside_every_session_it_is_charged_to_its_tree() -> None:
    assert find_sender(None, PEER, set()) == Sender(None, 10)
    assert find_sender(None, Peer(None, (), terminal=False, user="ann"), set()) == Sender(None, None)


def test_at_a_private_socket_it_is_charged_to_itself() -> None:
    assert find_sender("s-1", PEER, {HARNESS}) == Sender("s-1", 13)
    assert find_sender("s-1", Peer(None, (), terminal=False, user="ann"), set()) == Sender("s-1", None)

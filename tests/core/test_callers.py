"""Who speaks: found from what the kernel says of the peer."""

from __future__ import annotations

import pytest

from tests.support.core_house import House, peer
from xsessiond.core.callers import find_ancestor, find_caller, may_use_token
from xsessiond.core.effects import Peer, ProcessId


def whoami(house: House, who: Peer) -> dict[str, object]:
    line = house.connect(who)
    answer = line.ask("whoami")
    line.drop()
    return answer


def test_a_link_that_attached_is_its_session() -> None:
    """D9: and it learns its id, name, address and the rule for its mail."""
    house = House()
    api = house.join("api")
    answer = api.line.ask("whoami")
    assert (answer["kind"], answer["name"], answer["policy"]) == ("session", "api", "accept")
    assert answer["session"]["id"] == api.id
    assert answer["address"] == f"api [{api.ref}]"


@pytest.mark.parametrize("below", [0, 1, 5])
def test_a_process_at_or_below_a_harness_is_its_session(below: int) -> None:
    """3.7: whatever its arguments say, with a terminal or without."""
    house = House()
    api = house.join("api")
    chain = (*(api.pid + 100 + step for step in range(below)), api.pid, 2)
    for terminal in (True, False):
        assert whoami(house, peer(*chain, terminal=terminal))["kind"] == "session"


def test_the_nearest_harness_counts() -> None:
    """A session that was started from another one's shell is itself."""
    house = House()
    outer = house.join("outer", pid=5000)
    inner = house.join("inner", pid=6000)
    assert whoami(house, peer(6100, 6000, 5100, 5000))["name"] == inner.name
    assert whoami(house, peer(5200, 5100, 5000))["name"] == outer.name


def test_what_is_outside_every_session_is_a_human_if_it_has_a_terminal() -> None:
    house = House()
    house.join("api")
    human, script = whoami(house, peer(90, 80, terminal=True)), whoami(house, peer(90, 80))
    assert (human["kind"], human["name"], human["session"], human["address"]) == ("human", "ann", None, None)
    assert (script["kind"], script["name"]) == ("script", "script")
    assert whoami(house, peer())["kind"] == "script"


def test_below_several_sessions_nobody_is_one_of_them_for_certain() -> None:
    """One harness process that runs several sessions: a shell of it may be any, so it speaks for none."""
    house = House()
    house.join("one", pid=5000)
    house.join("two", pid=5000, cwd="/other")
    answer = whoami(house, peer(5100, 5000, terminal=True))
    assert answer["kind"] == "script"
    assert [session["name"] for session in answer["among"]] == ["one", "two"]


def test_a_session_that_ended_is_nobody_any_more() -> None:
    house = House()
    api = house.join("api")
    assert whoami(house, peer(9, api.pid))["kind"] == "session"
    api.line.ask("end")
    assert whoami(house, peer(9, api.pid))["kind"] == "script"


def test_a_reused_pid_is_not_the_old_session() -> None:
    """D2, 1.3: a process is its pid and its start."""
    house = House()
    api = house.join("api")
    other = Peer(ProcessId(9, 1), (ProcessId(9, 1), ProcessId(api.pid, api.pid * 10 + 1)), False, "ann")
    assert whoami(house, other)["kind"] == "script"


def test_an_ancestor_is_found_by_its_pid() -> None:
    somebody = peer(30, 20, 10)
    assert find_ancestor(somebody, 20) == ProcessId(20, 200)
    assert find_ancestor(somebody, 30) == ProcessId(30, 300)
    assert find_ancestor(somebody, 40) is None
    assert find_ancestor(somebody, None) is None
    assert find_ancestor(peer(), 20) is None


def test_a_token_works_below_its_harness_only() -> None:
    """13.2, S14."""
    house = House()
    api = house.join("api")
    assert may_use_token(api.session, api.peer)
    assert may_use_token(api.session, peer(api.pid))
    assert not may_use_token(api.session, peer(99, 98))
    assert not may_use_token(api.session, peer())


def test_without_a_known_harness_a_token_works_where_it_was_used_first() -> None:
    house = House()
    guest = house.join("api", pid=0)
    assert may_use_token(guest.session, peer(5)), "whoever used it had no process that means anything here"
    guest.session.bound = ProcessId(50, 500)
    assert may_use_token(guest.session, peer(50))
    assert may_use_token(guest.session, peer(60, 50))
    assert not may_use_token(guest.session, peer(60))


def test_the_caller_is_found_anew_for_each_request() -> None:
    house = House()
    line = house.connect(peer(6100, 6000, terminal=True))
    wire = house.broker.core.wires[line.link]
    assert find_caller(house.broker.core, wire).kind == "human"
    house.join("api", pid=6000)
    assert find_caller(house.broker.core, wire).kind == "session"

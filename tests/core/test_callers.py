"""Who speaks, from what the kernel says of a peer."""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.support.core_house import House, peer
from xsessiond.core.callers import (
    find_ancestor,
    find_caller,
    find_harness,
    find_outer,
    find_speaker,
    looks_human,
    was_seen_whole,
)
from xsessiond.core.effects import Peer, ProcessId
from xsessiond.core.records import GrantRow
from xsessiond.core.state import Caller

PERSON = peer(90, 80, terminal=True)


def caller_of(house: House, who: Peer, door: str | None = None) -> Caller:
    line = house.connect(who, door)
    return find_caller(house.broker.core, house.broker.core.wires[line.link])


@pytest.mark.parametrize("pids", [(1000,), (2, 1000), (3, 2, 1000), (3, 2, 1000, 5)])
def test_at_or_below_a_harness_is_its_session(pids: tuple[int, ...]) -> None:
    """3.7: also with a terminal, whatever is in the environment, and if the chain breaks off above it."""
    house = House()
    api = house.join("api", pid=1000)
    seen = peer(*pids, terminal=True)
    for who in (seen, structs.replace(seen, marks=frozenset({"CLAUDECODE"}), complete=False, unseen="x (pid 1)")):
        caller = caller_of(house, who)
        assert (caller.kind, caller.session.id, caller.is_session) == ("session", api.id, True)


def test_the_nearest_harness_counts() -> None:
    """A harness that a session's shell started is a session of its own."""
    house = House()
    house.join("outer", pid=1000)
    inner = house.join("inner", pid=2000)
    assert caller_of(house, peer(5, 2000, 4, 1000)).session.id == inner.id


def test_below_a_harness_of_several_sessions_is_none_of_them() -> None:
    house = House()
    house.join("api", pid=1000, harness_session_id="1")
    house.pass_time(1)
    house.join("web", pid=1000, harness_session_id="2")
    caller = caller_of(house, peer(5, 1000, terminal=True))
    assert caller.kind == "script"
    assert [session.name for session in caller.among] == ["api", "web"]


@pytest.mark.parametrize("conversation, name", [("1", "api"), ("2", "web"), ("3", None), (None, None), ("", None)])
def test_below_several_sessions_one_may_say_in_whose_name_it_speaks(conversation: str | None, name: str | None) -> None:
    """1.9: a subagent's server, or a command of the shell."""
    house = House()
    house.join("api", pid=1000, harness_session_id="1")
    house.pass_time(1)
    house.join("web", pid=1000, harness_session_id="2")
    line = house.connect(peer(5, 1000), conversation=conversation)
    wire = house.broker.core.wires[line.link]
    speaker = find_speaker(house.broker.core, wire)
    assert (speaker.session.name if speaker.is_session else None) == name
    assert [session.name for session in speaker.among] == ["api", "web"]
    # It is nobody's mail that it gets by that.
    assert find_caller(house.broker.core, wire).kind == "script"


def test_elsewhere_it_changes_nothing_what_one_says() -> None:
    house = House()
    house.join("api", pid=1000, harness_session_id="1")
    web = house.join("web", pid=2000, harness_session_id="2")
    for who, expected in ((peer(5, 2000), web.id), (PERSON, None), (peer(90), None)):
        line = house.connect(who, conversation="1")
        speaker = find_speaker(house.broker.core, house.broker.core.wires[line.link])
        assert (speaker.session.id if speaker.is_session else None) == expected


def test_a_person() -> None:
    """3.7: a terminal outside every session, and nothing that speaks against it."""
    house = House()
    house.join("api", pid=1000)
    assert caller_of(house, PERSON).kind == "human"
    assert looks_human(PERSON)
    assert was_seen_whole(PERSON)


@pytest.mark.parametrize(
    "doubt",
    [
        {"terminal": False},
        {"marks": frozenset({"OPENCODE"})},
        {"complete": False},
        {"unseen": "cat (pid 7)"},
        {"process": None},
    ],
    ids=str,
)
def test_a_doubt_makes_a_script(doubt: dict[str, object]) -> None:
    """5.2: a chain that is broken, a mark, an environment that cannot be read: never a human."""
    who = structs.replace(PERSON, **doubt)
    assert not looks_human(who)
    assert caller_of(House(), who).kind == "script"
    assert was_seen_whole(who) == (set(doubt) <= {"terminal", "marks"})


def test_nobody_is_a_person_on_a_session_s_private_socket() -> None:
    """There the process is not looked at closely, so that a terminal says nothing."""
    house = House()
    api = house.join("api", pid=1000)
    assert caller_of(house, PERSON, door=api.id).kind == "script"


def test_an_ancestor_is_known_by_its_pid() -> None:
    assert find_ancestor(peer(5, 4), 4) == ProcessId(4, 40)
    assert find_ancestor(peer(5, 4), 6) is None
    assert find_ancestor(peer(5, 4), None) is None


def test_a_link_that_attached_is_its_session() -> None:
    """D9: and it learns its id, name and address."""
    api = House().join("api")
    answer = api.line.ask("whoami")
    assert (answer["kind"], answer["name"], answer["session"]["id"]) == ("session", "api", api.id)
    assert answer["address"] == f"api [{api.ref}]"


def test_a_session_that_ended_is_nobody_any_more() -> None:
    """5.2: and what its harness runs is no person's command for all that, whatever terminal it has."""
    house = House()
    api = house.join("api", pid=1000)
    assert caller_of(house, peer(9, 1000)).kind == "session"
    api.line.ask("end")
    caller = caller_of(house, peer(9, 1000, terminal=True))
    assert (caller.kind, caller.silenced) == ("script", True)
    house.join("api", pid=1000)
    assert caller_of(house, peer(9, 1000)).kind == "session"


def test_a_reused_pid_is_not_the_old_session() -> None:
    """D2, 1.3: a process is its pid and its start."""
    house = House()
    house.join("api", pid=1000)
    other = Peer(ProcessId(9, 1), (ProcessId(9, 1), ProcessId(1000, 10001)), terminal=False, user="ann")
    assert caller_of(house, other).kind == "script"


def test_the_caller_is_found_anew_for_each_request() -> None:
    house = House()
    line = house.connect(peer(6100, 6000, terminal=True))
    wire = house.broker.core.wires[line.link]
    assert find_caller(house.broker.core, wire).kind == "human"
    house.join("api", pid=6000)
    assert find_caller(house.broker.core, wire).kind == "session"


def test_a_newcomer_names_its_harness_but_none_above_the_session_it_is_in() -> None:
    """13.2: else the user's shell, and all other agents below it, would speak as the newcomer."""
    house = House()
    house.join("api", pid=1000)
    core = house.broker.core
    assert find_harness(core, peer(9, 8, 7), 8) == ProcessId(8, 80)
    assert find_harness(core, peer(9, 8, 7), 6) is None
    assert find_harness(core, peer(9, 1000, 7), 9) == ProcessId(9, 90)
    assert find_harness(core, peer(9, 1000, 7), 1000) == ProcessId(1000, 10000)
    assert find_harness(core, peer(9, 1000, 7), 7) is None


def test_shared_ground_is_nobody_s_harness() -> None:
    """13.2: else all that the user starts there would speak as the newcomer, and nobody could decide any more."""
    core = House().broker.core
    who = structs.replace(peer(9, 8, 7), shared=frozenset({ProcessId(8, 80), ProcessId(7, 70)}))
    assert find_harness(core, who, 8) is None
    assert find_harness(core, who, 7) is None
    assert find_harness(core, who, 9) == ProcessId(9, 90)


def test_whom_a_session_is_inside_of() -> None:
    house = House()
    far = house.join("far", pid=1000)
    near = house.join("near", pid=2000, inside=far)
    core = house.broker.core
    assert find_outer(core, near.peer, ProcessId(2000, 20000)) == {far.id}
    assert find_outer(core, peer(9, 8, 2000, 1000), ProcessId(8, 80)) == {far.id, near.id}
    assert find_outer(core, peer(9, 8, 2000, 1000), None) == {far.id, near.id}
    assert find_outer(core, peer(9, 8), None) == frozenset()
    assert find_outer(core, peer(1000, 3), ProcessId(1000, 10000)) == frozenset()


def test_below_an_agent_that_switched_its_session_off_is_no_human() -> None:
    """5.2: a project's file is the agent's own to write."""
    house = House()
    web = house.join("web", pid=1000)
    house.change_project(web, off=True)
    caller = caller_of(house, peer(7, 1000, 2, terminal=True))
    assert (caller.kind, caller.silenced) == ("script", True)


def test_what_comes_through_a_granted_socket_is_nobody_before_its_token() -> None:
    """13.4, S20: neither the session that its process is below, nor a person at a terminal."""
    house = House()
    api, box = house.join("api", pid=1000), house.join("box", pid=0)
    box.session.grant = GrantRow(box.id, "/d", "human ann", 0, None)
    for who in (PERSON, peer(5, 1000), Peer(None, (), terminal=False, user="ann")):
        caller = caller_of(house, who, box.id)
        assert (caller.kind, caller.confined, caller.is_session) == ("script", True, False)
    assert caller_of(house, peer(5, 1000)).session.id == api.id

"""Where a token works, and what is told of one that does not."""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.support.core_house import House, peer, refused
from xsessiond.core.effects import Peer, ProcessId
from xsessiond.core.errors import Refusal
from xsessiond.core.records import GrantRow
from xsessiond.core.roster import Session
from xsessiond.core.tokens import check_token, hash_token


def works(house: House, session: Session, who: Peer, door: str | None = "its own", token: str = "t") -> bool:
    core = house.broker.core
    line = house.connect(who, session.id if door == "its own" else door, hello=False)
    session.token_hash = hash_token("t")
    try:
        check_token(core, session, token, core.wires[line.link])
    except Refusal:
        return False
    return True


def test_a_token_is_kept_as_a_hash() -> None:
    """13.2"""
    assert len(hash_token("x")) == 32
    assert hash_token("x") != hash_token("y")


def test_where_a_token_works(house: House) -> None:
    """13.2, S14: below the harness, or where that is not known below the process that used it first."""
    known, unknown = house.join("api", pid=1000).session, house.join("web", pid=0).session
    assert works(house, known, peer(5, 1000))
    assert not works(house, known, peer(5, 4))
    unknown.bound = None
    assert works(house, unknown, peer(5, 4))
    unknown.bound = ProcessId(4, 40)
    assert works(house, unknown, peer(5, 4))
    assert not works(house, unknown, peer(4000, 3))


def at(place: int | None, *pids: int) -> Peer:
    """A process in a container."""
    return structs.replace(peer(*pids), place=place)


def test_that_of_a_granted_session_works_at_its_socket_from_one_container_at_a_time(house: House) -> None:
    """S20, M3: whatever its pids are; while nobody uses it, from anywhere."""
    session = house.join("box", pid=0).session
    session.grant = GrantRow(session.id, "/g", "human ann", 0, None)
    assert not works(house, session, at(7, 5, 4), door=None)
    assert not works(house, session, at(7, 5, 4), door="s-another")
    session.bound, session.place = ProcessId(4, 40), 7
    assert works(house, session, at(7, 900, 800))
    assert works(house, session, at(7))  # no pid that means anything here
    assert not works(house, session, at(8, 5, 4))
    assert not works(house, session, at(None, 5, 4))
    session.links.clear()
    assert works(house, session, at(8, 5, 4))
    session.place = None
    session.links.add(1)
    assert works(house, session, at(None))


def test_a_wrong_text_is_logged_and_a_wrong_place_is_shown_too(house: House) -> None:
    """13.2"""
    session = house.join("api", pid=1000).session
    assert not works(house, session, peer(5, 1000), token="u")
    assert house.broker.core.warnings == []
    assert not works(house, session, peer(5, 4))
    assert not works(house, session, Peer(None, (), terminal=False, user="ann"))
    assert "was used by process 5, which is not of that session" in house.broker.core.warnings[0]
    core = house.broker.core
    line = house.connect(peer(5, 4), session.id, hello=False)
    told = refused_by(lambda: check_token(core, session, "t", core.wires[line.link]))
    assert "process tree" in told.text
    session.grant = GrantRow(session.id, "/g", "human ann", 0, None)
    session.place = 7
    told = refused_by(lambda: check_token(core, session, "t", core.wires[line.link]))
    assert "container" in told.text
    assert refused(lambda: line.ask("hello", protocol=2)).code == "version_mismatch"


def refused_by(act: object) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        act()  # type: ignore[operator]
    return refusal.value

"""The roster: one table, names that belong to one running session, ids that outlive them."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsessiond.core.effects import ProcessId
from xsessiond.core.ids import SessionId, session_id_from
from xsessiond.core.names import BadName, fold_name, skeletons
from xsessiond.core.records import GrantRow
from xsessiond.core.roster import NameTaken, Roster, Session

P, Q = ProcessId(1, 10), ProcessId(2, 20)


def entropy(size: int) -> bytes:
    return bytes(range(1, size + 1))


def new(roster: Roster, digits: str, name: str, talk: str | None = None, process: ProcessId | None = None) -> Session:
    session_id = SessionId("s-" + digits.ljust(32, "0"))
    session = Session(session_id, roster.choose_ref(session_id), name)
    session.harness_session_id, session.process = talk, process
    roster.add(session)
    return session


def test_a_running_session_is_found_by_name_in_any_case() -> None:
    roster = Roster(entropy)
    web = new(roster, "a1", "Web")
    assert roster.named("web") is roster.named("WEB") is web
    assert roster.named("api") is None
    assert (len(roster), list(roster.running()), list(roster.ended())) == (1, [web], [])
    assert web.running
    assert roster.known == {web.id: web}


@pytest.mark.parametrize("wanted", ["web", "WEB", "w\u0435b", "wéb"])
def test_a_name_or_its_look_alike_belongs_to_one_running_session(wanted: str) -> None:
    """2.1, S12."""
    roster = Roster(entropy)
    web = new(roster, "a1", "web")
    with pytest.raises(NameTaken) as taken:
        roster.check_free(wanted)
    assert taken.value.holder is web
    assert roster.check_free(taken.value.suggestion) == taken.value.suggestion
    assert roster.check_free(wanted, web), "for the session itself it is free"
    roster.end(web, 5)
    assert roster.check_free(wanted)


def test_a_bad_name_is_refused_before_it_is_looked_up() -> None:
    with pytest.raises(BadName):
        Roster(entropy).check_free("a b")


def test_a_session_that_ended_keeps_its_id_and_never_its_name() -> None:
    roster = Roster(entropy)
    old = new(roster, "a1", "web", process=P)
    roster.end(old, 5)
    assert (old.running, old.shown_state, old.process) == (False, "offline", P)
    assert (roster.named("web"), roster.at_process(P), len(roster)) == (None, set(), 0)
    assert roster.known == {old.id: old}
    assert list(roster.ended()) == [old]
    other = new(roster, "b1", "web")
    assert roster.named("web") is other
    old.call("web-2")
    roster.add(old)
    assert (roster.named("web-2"), old.running, list(roster.ended())) == (old, True, [])


def test_one_from_before_is_remembered_without_a_name() -> None:
    roster = Roster(entropy)
    old = Session(SessionId("s-" + "a" * 32), "aaaaaa", "web")
    old.ended_at = 3
    roster.remember(old)
    assert (roster.named("web"), list(roster.ended()), list(roster.running())) == (None, [old], [])
    roster.forget(old)
    assert (roster.known, list(roster.ended())) == ({}, [])
    roster.forget(old)


def test_a_rename_frees_the_old_name_and_its_look_alikes() -> None:
    roster = Roster(entropy)
    web = new(roster, "a1", "web")
    before = web.origin
    roster.rename(web, "api")
    assert (roster.named("web"), roster.named("api")) == (None, web)
    assert roster.check_free("wéb")
    assert web.origin != before
    assert msgspec.json.decode(web.target) == {"id": web.id, "ref": web.ref, "name": "api"}


def test_releasing_a_name_that_another_has_takes_nothing_from_it() -> None:
    roster = Roster(entropy)
    web, other = new(roster, "a1", "web"), new(roster, "b1", "other")
    other.call("web")  # as if it had ended and come back under a name that is gone
    roster.end(other, 5)
    assert roster.named("web") is web
    with pytest.raises(NameTaken):
        roster.check_free("wéb")


def test_a_ref_is_as_long_as_it_must_be() -> None:
    """At least six digits, and never the beginning of another id."""
    roster = Roster(entropy)
    assert new(roster, "abcdef1", "one").ref == "abcdef"
    assert new(roster, "abcdef2", "two").ref == "abcdef2"
    assert new(roster, "abcdef22", "three").ref == "abcdef22"
    assert new(roster, "abcde", "four").ref == "abcde0"
    one = roster.named("one")
    assert one is not None
    roster.end(one, 1)
    assert new(roster, "abcdef15", "five").ref == "abcdef15", "an id is known for as long as it may come back"
    roster.forget(one)
    assert new(roster, "abcdef16", "six").ref == "abcdef16"


def test_a_session_is_found_by_its_process() -> None:
    roster = Roster(entropy)
    one, two = new(roster, "a1", "one", process=P), new(roster, "b1", "two", process=P)
    assert roster.at_process(P) == {one, two}
    roster.place(one, Q)
    assert (roster.at_process(P), roster.at_process(Q), one.process) == ({two}, {one}, Q)
    roster.place(one, None)
    assert (roster.at_process(Q), one.process) == (set(), None)
    roster.place(one, P)
    roster.place(one, P)
    assert roster.at_process(P) == {one, two}


def test_a_conversation_is_found_whether_it_runs_or_not() -> None:
    roster = Roster(entropy)
    one = new(roster, "a1", "one", talk="t1")
    assert roster.conversation("mcp", "t1") is one
    assert roster.conversation("codex", "t1") is None
    roster.end(one, 5)
    assert roster.conversation("mcp", "t1") is one
    roster.forget(one)
    assert roster.conversation("mcp", "t1") is None


def test_a_conversation_that_is_open_twice_belongs_to_the_first() -> None:
    """Until that ends; then to the other that still runs."""
    roster = Roster(entropy)
    one, two, three = (new(roster, digits, digits + "x", talk="t1") for digits in ("a1", "b1", "c1"))
    assert roster.conversation("mcp", "t1") is one
    roster.end(three, 3)
    assert roster.conversation("mcp", "t1") is one
    roster.end(one, 5)
    assert roster.conversation("mcp", "t1") is two
    roster.end(two, 6)
    assert roster.conversation("mcp", "t1") is two
    roster.forget(one)
    assert roster.conversation("mcp", "t1") is two


def test_a_session_that_changes_its_conversation_leaves_the_old_one() -> None:
    roster = Roster(entropy)
    one, two = new(roster, "a1", "one", talk="t1"), new(roster, "b1", "two", talk="t1")
    roster.identify(one, "codex", "t2")
    assert (roster.conversation("mcp", "t1"), roster.conversation("codex", "t2")) == (two, one)
    assert (one.harness, b'"codex"' in bytes(one.origin)) == ("codex", True)
    roster.identify(one, "codex", None)
    assert roster.conversation("codex", "t2") is None
    roster.identify(one, "codex", "t3")
    assert roster.conversation("codex", "t3") is one


def test_a_session_that_runs_takes_over_an_ended_conversation() -> None:
    roster = Roster(entropy)
    old = new(roster, "a1", "old", talk="t1")
    roster.end(old, 5)
    fresh = new(roster, "b1", "fresh", talk="t1")
    assert roster.conversation("mcp", "t1") is fresh


@pytest.mark.parametrize(
    "ended, unresponsive, state, shown",
    [(None, False, "busy", "busy"), (None, True, "busy", "unresponsive"), (5, True, "busy", "offline")],
)
def test_the_state_that_is_shown(ended: int | None, unresponsive: bool, state: str, shown: str) -> None:  # noqa: FBT001
    session = Session(SessionId("s-" + "a" * 32), "aaaaaa", "web")
    session.ended_at, session.unresponsive, session.state = ended, unresponsive, state
    assert session.shown_state == shown


@pytest.mark.parametrize("process", [None, P])
@pytest.mark.parametrize("modes", [(), ("auto",), ("auto", "steer")])
def test_a_session_comes_back_from_its_row(process: ProcessId | None, modes: tuple[str, ...]) -> None:
    session = Session(SessionId("s-" + "a" * 32), "aaaaaa", "web")
    session.label, session.harness, session.harness_session_id, session.cwd = "l", "codex", "t", "/src"
    session.process, session.modes, session.token_hash, session.noted = process, modes, b"h", True
    session.started_at, session.last_seen_at, session.ended_at = 1, 2, 3
    session.perm_class, session.delivery, session.can_reply = "bypass", "push", False
    session.refresh()
    row = session.to_row("boot", "box")
    again = Session.from_row(row)
    assert again.to_row("boot", "box") == row
    assert (bytes(again.origin), bytes(again.target)) == (bytes(session.origin), bytes(session.target))
    assert again.folded == session.folded
    assert not row.live


@pytest.mark.parametrize("kind", ["human", "script"])
def test_who_is_no_session_shows_a_name_and_nothing_else(kind: str) -> None:
    session = Session(SessionId(kind), "", "ann", kind=kind)  # type: ignore[arg-type]
    assert msgspec.json.decode(session.origin) == {
        "kind": kind, "id": None, "ref": None, "name": "ann", "harness": None, "cwd": None,
    }  # fmt: skip


NAMES = st.sampled_from(
    ["web", "WEB", "w\u0435b", "api", "Api", "bot", "BOT", "\u0412\u041e\u0422", "x-1", "x-l", "x-I"]
)


@given(st.lists(st.tuples(st.sampled_from(["add", "end", "rename", "forget"]), st.integers(0, 5), NAMES), max_size=60))
def test_no_two_running_sessions_are_alike(steps: list[tuple[str, int, str]]) -> None:
    """D6, S12: after any sequence of claims and releases; what is refused changes nothing."""
    roster = Roster(entropy)
    sessions = [Session(session_id_from(bytes([n]) * 16), f"{n:02x}" * 3, "none") for n in range(6)]
    for session in sessions:
        session.ended_at = 0
    for what, number, name in steps:
        session = sessions[number]
        with suppress(NameTaken):
            if what == "add" and not session.running:
                session.call(roster.check_free(name))
                roster.add(session)
            elif what == "rename" and session.running:
                roster.rename(session, roster.check_free(name, session))
            elif what == "end" and session.running:
                roster.end(session, 1)
            elif what == "forget" and not session.running:
                roster.forget(session)
        running = {one for one in sessions if one.running}
        assert set(roster.running()) == running
        assert len({fold_name(one.name) for one in running}) == len(running) == len(roster)
        looks = [look for one in running for look in skeletons(one.name)]
        assert len(looks) == len(set(looks))
        assert all(roster.named(one.name) is one for one in running)


def test_one_that_does_not_run_comes_back_by_its_conversation_or_its_grant() -> None:
    """11.1, 13.4"""
    roster = Roster(entropy)
    plain, talk = new(roster, "a" * 32, "one"), new(roster, "b" * 32, "two", talk="t")
    assert (plain.comes_back, talk.comes_back) == (False, True)
    plain.grant = GrantRow(plain.id, "/d", "human ann", 0, None)
    assert plain.comes_back

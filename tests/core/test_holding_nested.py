"""A session that was started inside another is bound by what binds the outer one."""

from __future__ import annotations

import pytest

from tests.support.core_house import Guest, House, peer
from xsessiond.core.admission import Setting

OUT = Setting("hold", "project", ".xsessiond.toml:1")
SCOPE = Setting("project", "user", "config.toml:3")


def join_pair(house: House, outer: str | None, inner: str | None) -> tuple[Guest, Guest]:
    around = house.join("outer", **{"class": outer})
    return around, house.join("inner", inside=around, **{"class": inner})


@pytest.mark.parametrize(
    "outer, inner, receiver, state, cause",
    [
        ("prompting", "prompting", "prompting", "queued", None),
        ("bypass", "bypass", "bypass", "queued", None),
        ("bypass", "prompting", "prompting", "held", "mode-mismatch"),
        ("prompting", "bypass", "bypass", "held", "no-mode-asserted"),
        (None, "bypass", "bypass", "held", "no-mode-asserted"),
        (None, "prompting", "prompting", "held", "mode-mismatch"),
    ],
)
def test_a_class_that_an_agent_gives_a_session_of_its_own_gains_nothing(
    house: House, outer: str | None, inner: str, receiver: str, state: str, cause: str | None
) -> None:
    """4.3: an agent can start a session below itself and have it say what it likes."""
    _, sender = join_pair(house, outer, inner)
    web = house.join("web", **{"class": receiver})
    sent = sender.send(web)
    assert sent["state"] == state
    held = house.human().ask("hold_queue")["held"]
    assert [item["cause"] for item in held] == ([cause] if cause else [])


@pytest.mark.parametrize("outer, state", [("prompting", "queued"), ("bypass", "held"), (None, "held")])
def test_as_a_receiver_its_class_is_known_only_if_both_say_the_same(
    house: House, outer: str | None, state: str
) -> None:
    _, inner = join_pair(house, outer, "prompting")
    other = house.join("other")
    assert other.send(inner)["state"] == state


def test_what_keeps_the_outer_one_from_sending_keeps_the_inner_one_too(house: House) -> None:
    """4.9: also once the outer one has ended, and for what was sent before."""
    outer, inner = join_pair(house, "prompting", "prompting")
    web = house.join("web")
    house.change_project(outer, outbound=(OUT,))
    first = inner.send(web, "one")
    assert (first["state"], first["rule"]) == ("held", "outbound = hold (project: .xsessiond.toml:1)")
    outer.line.ask("end")
    assert inner.send(web, "two")["state"] == "held"
    inner.change_class(None)
    inner.change_class("prompting")
    assert inner.check(first)["state"] == "held"


def test_a_folder_that_it_claims_does_not_make_it_of_that_project(house: House) -> None:
    """4.7"""
    house.change_settings(scope=(SCOPE,))
    web = house.join("web", cwd="/src/web")
    outer = house.join("outer", cwd="/src/api")
    inner = house.join("inner", cwd="/src/web", inside=outer)
    for guest, root in ((web, "/src/web"), (outer, "/src/api"), (inner, "/src/web")):
        house.change_project(guest, root=root)
    assert inner.send(web)["state"] == "held"
    house.change_project(outer, root="/src/web")
    assert inner.send(web, "again")["state"] == "queued"


def test_after_a_restart_it_is_known_again_when_it_is_back(house: House) -> None:
    """Whom it is inside of is not stored: it is what the system says of its processes."""
    outer, inner = join_pair(house, "bypass", "prompting")
    house.restart()
    web = house.join("web")
    outer.come_back()
    inner.come_back()
    assert inner.send(web)["state"] == "held"


def test_a_session_whose_harness_is_not_known_is_inside_of_what_is_above_it(house: House) -> None:
    outer = house.join("outer", **{"class": "bypass"})
    inner = house.join("inner", pid=0, inside=outer)
    web = house.join("web")
    assert inner.send(web)["state"] == "held"


@pytest.mark.parametrize(
    "own, sibling, receiver, state",
    [
        ("prompting", "prompting", "prompting", "queued"),
        ("prompting", "bypass", "prompting", "held"),
        ("bypass", "bypass", "bypass", "queued"),
        ("bypass", "prompting", "bypass", "held"),
    ],
)
def test_who_says_which_of_several_it_is_part_of_stays_bound_by_all_of_them(
    house: House, own: str, sibling: str, receiver: str, state: str
) -> None:
    """1.9, 4.3: a subagent's message goes out under its session's name; a sibling that borrows that name gains
    nothing by it."""
    house.join("main", pid=1000, harness_session_id="t-1", **{"class": own})
    house.join("sibling", pid=1000, harness_session_id="t-2", **{"class": sibling})
    web = house.join("web", **{"class": receiver})
    subagent = house.connect(peer(5, 1000), conversation="t-1")
    assert subagent.ask("whoami")["name"] == "main"
    assert subagent.ask("list")["self"]["name"] == "main"
    sent = subagent.ask("send", to="web", message="from a subagent")
    assert sent["state"] == state
    assert subagent.ask("check", message_id=sent["id"])["state"] == state
    if state == "queued":
        assert [message["from"]["name"] for message in web.take()] == ["main"]

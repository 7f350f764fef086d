"""How a session's project counts: it is here when that is read, and it may not be there at all."""

from __future__ import annotations

import pytest

from tests.support.core_house import House, Line, is_sentence, peer, refused
from xsessiond.core.effects import ProjectRead
from xsessiond.core.policy import ProjectSettings


@pytest.fixture
def slow(house: House) -> House:
    """The files of a project take their time."""
    house.slow_projects = True
    return house


def begin_register(house: House, pid: int, **params: object) -> tuple[Line, int]:
    line = house.connect(peer(pid + 1, pid))
    return line, line.begin("register", **{"name": "api", "pid": pid, "cwd": "/src/app", **params})


def test_a_session_is_told_that_it_is_here_when_its_project_is_read(slow: House) -> None:
    """Before that it would not know by which rules its mail goes."""
    line, request = begin_register(slow, 5000)
    assert not line.is_answered(request)
    slow.answer_projects()
    assert line.answer(request)["session"]["name"] == "api"


def test_who_left_before_that_is_told_nothing(slow: House) -> None:
    line, _ = begin_register(slow, 5000)
    line.drop()
    slow.answer_projects()
    slow.pass_time(0)
    assert slow.names() == ["api"]
    slow.kill_pid(5000)
    assert slow.names() == []


def test_a_harness_that_dies_before_that_is_answered_for(slow: House) -> None:
    """Nobody waits for an answer that cannot come."""
    line, request = begin_register(slow, 5000)
    slow.kill_pid(5000)
    refusal = refused(lambda: line.answer(request))
    assert (refusal.code, refusal.text) == ("not_running", "The session ended meanwhile.")
    slow.answer_projects()
    assert slow.names() == []


def test_of_two_that_become_one_session_the_later_is_it(slow: House) -> None:
    """The token of the earlier one is no good any more, and it hears so."""
    first, one = begin_register(slow, 5000)
    second, other = begin_register(slow, 5000)
    assert refused(lambda: first.answer(one)).text == "Another client became this session."
    slow.answer_projects()
    assert second.answer(other)["resumed"] is True
    assert len(slow.names()) == 1


def test_what_a_forgotten_session_is_told_of_its_project_means_nothing(house: House) -> None:
    before = house.state()
    house.handle(ProjectRead("s-gone", ProjectSettings(off=True)))
    assert house.state() == before


@pytest.mark.parametrize("where", ["project", "settings"])
def test_a_session_may_be_switched_off(house: House, where: str) -> None:
    """14.4: it is not listed, binds nothing, and is told why."""
    if where == "project":
        house.projects["/src/app"] = ProjectSettings("/src/app", off=True)
    else:
        house.change_settings(off=True)
    refusal = refused(lambda: house.join("api", cwd="/src/app"))
    assert refusal.code == "feature_off"
    assert is_sentence(refusal.text)
    assert house.names() == []
    assert house.doors == {}


@pytest.mark.parametrize("where", ["project", "settings"])
def test_switching_off_ends_those_who_run(house: House, where: str) -> None:
    """14.3: at once; what waits for them is kept."""
    api, web = house.join("api", harness_session_id="talk", cwd="/src/app"), house.join("web", cwd="/src/web")
    web.send(api, "hello")
    if where == "project":
        house.change_project(api, off=True)
    else:
        house.change_settings(off=True)
    assert house.names() == (["web"] if where == "project" else [])
    assert not api.line.open
    assert api.line.notes[-1] == ("bye", {"reason": "ended"})
    house.projects.clear()
    house.change_settings(off=False)
    assert house.join(harness_session_id="talk", cwd="/src/app").read() == ["hello"]


def test_what_is_wrong_in_a_project_is_shown_once(house: House) -> None:
    """H10: its problems stand in `status`, however often it is read."""
    api = house.join("api")
    for _ in range(3):
        house.change_project(api, problems=("/src/app/.xsessiond.toml:1: accept does nothing here.",))
    warnings = house.script().ask("status")["warnings"]
    assert warnings == ["/src/app/.xsessiond.toml:1: accept does nothing here."]


def test_a_session_that_could_not_be_stored_is_told_so(house: House) -> None:
    """3.3: although its answer waits for its project, which nobody stores."""
    house.failing = lambda ops: True
    assert refused(lambda: house.join("api")).code == "internal"
    house.failing = lambda ops: False
    house.pay()
    assert [row.name for row in house.store.load().sessions] == ["api"]


def test_what_the_folder_of_a_granted_session_says_is_known_while_it_is_offline(house: House) -> None:
    """13.4"""
    given = house.human().ask("grant", name="box", directory="/d", cwd="/src/box")
    house.handle(ProjectRead(given["session"]["id"], ProjectSettings(root="/src")))
    assert house.broker.core.roster.known[given["session"]["id"]].project.root == "/src"
    assert house.forgotten == []

"""Whether a session is still there, and its end."""

from __future__ import annotations

import pytest

from tests.support.core_house import House, peer, refused
from xsessiond.core import liveness
from xsessiond.core.effects import ProcessExited, ProcessId, TimePassed
from xsessiond.core.limits import GRACE_S, PING_AFTER_S, PONG_WITHIN_S
from xsessiond.core.liveness import KNOWN_ENDED
from xsessiond.core.records import GrantRow

DAY = 24 * 3600


def state_of(house: House, name: str) -> str:
    return str(next(session["state"] for session in house.listed() if session["name"] == name))


# -- on the roster -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds, there", [(GRACE_S - 0.001, True), (GRACE_S, False)])
def test_a_broken_link_may_come_back_for_a_time(house: House, seconds: float, there: bool) -> None:  # noqa: FBT001
    """1.1, 1.5"""
    web = house.join("web", pid=0)
    web.line.drop()
    house.pass_time(seconds)
    assert (house.names() == ["web"], house.doors == {web.id: web.ref}) == (there, there)


def test_a_session_that_never_attached_goes_too(house: House) -> None:
    web = house.join("web", pid=0)
    web.line.drop()
    web.register(resume=True)
    house.pass_time(GRACE_S)
    assert house.names() == []


def test_one_link_of_several_is_enough(house: House) -> None:
    web = house.join("web", pid=0)
    hook = web.attach()
    hook.drop()
    house.pass_time(DAY)
    assert house.names() == ["web"]


def test_a_link_that_was_nobodys_leaves_nothing(house: House) -> None:
    before = house.state()
    for line in (house.human(), house.script(), house.connect(peer(1), hello=False)):
        line.drop()
    assert house.state() == before


def test_a_harness_that_is_verified_alive_keeps_its_session(house: House) -> None:
    """1.1, 1.6: without a link it does not answer, and mail for it waits."""
    api, web = house.join("api"), house.join("web")
    web.line.drop()
    house.pass_time(GRACE_S)
    assert state_of(house, "web") == "unresponsive"
    assert api.send(web, "one")["state"] == "queued"
    house.pass_time(DAY)
    web.come_back()
    assert state_of(house, "web") == "unknown"
    assert web.read() == ["one"]


def test_the_grace_of_a_link_that_came_back_means_nothing(house: House) -> None:
    web = house.join("web", pid=0)
    web.line.drop()
    house.pass_time(GRACE_S - 1)
    web.come_back()
    house.broker.core.agenda.schedule(("grace", web.id), house.mono)
    house.pass_time(DAY)
    assert house.names() == ["web"]
    house.kill(web)
    web.line.ask("end")
    house.broker.core.agenda.schedule(("grace", web.id), house.mono)
    house.pass_time(1)


# -- silence -----------------------------------------------------------------------------------------------------------


def test_a_silent_session_stays_listed(house: House) -> None:
    """D7, 1.6: for a day and more, with the state it reported, and without a timer."""
    web = house.join("web")
    web.line.ask("update", state="idle")
    house.pass_time(DAY)
    assert house.broker.next_due() is None
    (listed,) = house.listed()
    assert (listed["name"], listed["state"]) == ("web", "idle")


@pytest.mark.parametrize("asked_by", ["list", "send"])
def test_a_session_that_does_not_answer_is_unresponsive(house: House, asked_by: str) -> None:
    """1.6: it is asked when somebody wants to know, and what is sent to it is queued."""
    api, web = house.join("api"), house.join("web")
    house.pass_time(PING_AFTER_S)
    if asked_by == "list":
        api.line.ask("list")
    else:
        assert api.send(web)["state"] == "queued"
    assert len(web.line.pings) == 1
    api.line.ask("list")
    assert len(web.line.pings) == 1, "one question at a time"
    house.pass_time(PONG_WITHIN_S - 0.001)
    assert not web.session.unresponsive
    house.pass_time(0.001)
    assert web.session.unresponsive
    assert house.logs[-1].what == "session does not answer"
    assert state_of(house, "web") == "unresponsive"
    web.line.pong()
    assert state_of(house, "web") == "unknown"


def test_a_session_that_answers_is_not(house: House) -> None:
    api, web = house.join("api"), house.join("web")
    house.pass_time(PING_AFTER_S)
    api.line.ask("list")
    web.line.pong()
    api.line.pong()
    assert house.broker.next_due() is None
    house.pass_time(60)
    assert not web.session.unresponsive


def test_one_that_says_anything_is_there(house: House) -> None:
    """A shim that is busy sending did not miss a question."""
    web = house.join("web")
    house.pass_time(PING_AFTER_S)
    house.listed()
    house.pass_time(1)
    web.line.ask("whoami")
    house.pass_time(PONG_WITHIN_S)
    assert not web.session.unresponsive


@pytest.mark.parametrize("seconds, asked", [(PING_AFTER_S - 0.001, 0), (PING_AFTER_S, 1)])
def test_one_that_was_heard_a_moment_ago_is_not_asked(house: House, seconds: float, asked: int) -> None:
    web = house.join("web")
    house.pass_time(seconds)
    house.listed()
    assert len(web.line.pings) == asked


def test_one_without_a_link_is_not_asked(house: House) -> None:
    web = house.join("web")
    web.line.drop()
    house.pass_time(GRACE_S - 1)
    house.listed()
    assert ("pong", web.id) not in house.broker.core.agenda


def test_a_link_that_breaks_while_it_is_asked_is_no_missed_answer(house: House) -> None:
    web = house.join("web")
    house.pass_time(PING_AFTER_S)
    house.listed()
    web.line.drop()
    house.pass_time(PONG_WITHIN_S + 1)
    assert not web.session.unresponsive


def test_a_jump_of_the_wall_clock_evicts_nobody(house: House) -> None:
    """P10, 1.6: neither forwards nor back."""
    web = house.join("web", pid=0)
    for jump in (8 * 3600 * 1000, -9 * 3600 * 1000):
        house.ms += jump
        house.pass_time(1)
        assert house.names() == ["web"]
    web.line.drop()
    house.ms += 8 * 3600 * 1000
    house.pass_time(GRACE_S - 2)
    assert house.names() == ["web"]


def test_a_sleep_that_the_clock_counts_evicts_nobody(house: House) -> None:
    """P10, 1.6: a virtual machine that was paused: both clocks jump, and what was asked just before was not answered.
    Whose link broke in that moment comes back as itself."""
    api, web, box = (house.join(name, pid=0) for name in ("api", "web", "box"))
    house.pass_time(PING_AFTER_S)
    house.listed()
    box.line.drop()
    house.mono += 8 * 3600
    house.ms += 8 * 3600 * 1000
    house.handle(TimePassed())
    assert {"api", "web"} <= set(house.names())
    assert state_of(house, "web") == "unresponsive"
    for one in (api, web):
        one.line.pong()
    box.come_back()
    assert {row["name"]: row["state"] for row in house.listed()} == dict.fromkeys(("api", "web", "box"), "unknown")
    assert box.registered["resumed"]


# -- harnesses ---------------------------------------------------------------------------------------------------------


def test_a_harness_that_dies_ends_its_session_at_once(house: House) -> None:
    """D1, 1.4: also while its shim lives on; a send to it is refused and never reported as sent."""
    api, web = house.join("api"), house.join("web")
    house.kill(web)
    assert house.names() == ["api"]
    assert not web.line.open
    assert web.line.notes == [("bye", {"reason": "ended"})]
    assert refused(lambda: api.send("web")).code == "not_running"
    assert set(house.doors) == {api.id}


def test_the_harness_of_several_sessions_ends_them_all(house: House) -> None:
    one, two = house.join("one", pid=5000), house.join("two", pid=5000)
    house.kill(one)
    assert house.names() == []
    assert not two.session.running


def test_a_process_that_nobody_watches_means_nothing(house: House) -> None:
    house.join("web")
    house.handle(ProcessExited(ProcessId(1, 1)))
    assert house.names() == ["web"]


def test_every_watch_is_taken_back(house: House) -> None:
    """However a session goes, and whoever shares its process."""
    one, two = house.join("one", pid=5000), house.join("two", pid=5000)
    assert sum(house.watched.values()) == 2
    one.line.ask("end")
    assert sum(house.watched.values()) == 1
    two.line.drop()
    two.register()
    assert sum(house.watched.values()) == 1
    two.attach()
    two.line.ask("end")
    assert sum(house.watched.values()) == 0


def test_a_session_ends_once(house: House) -> None:
    web = house.join("web")
    session = web.session
    web.line.ask("end")
    state = house.state()
    house.broker._liveness.end(session, "ended", house.now)
    assert house.state() == state


def test_a_reboot_ends_all_and_a_pid_of_before_means_nobody(house: House) -> None:
    """D2, P17: what waits for a conversation is kept, its old process is not looked for."""
    api, web = house.join("api"), house.join("web", harness_session_id="talk")
    api.send(web, "one")
    house.restart(boot="boot-2")
    assert house.names() == []
    assert house.doors == {}
    assert sum(house.watched.values()) == 0
    assert web.session.process is None
    again = house.join(harness_session_id="talk")
    assert (again.id, again.read()) == (web.id, ["one"])


def test_a_restart_watches_again_who_was_watched(house: House) -> None:
    web = house.join("web")
    house.join("nobody", pid=0)
    house.restart()
    assert set(house.names()) == {"web", "nobody"}
    assert dict(house.watched) == {ProcessId(web.pid, web.pid * 10): 1}
    house.pass_time(GRACE_S)
    assert house.names() == ["web"]
    house.kill(web)
    assert house.names() == []


# -- memory ------------------------------------------------------------------------------------------------------------


def test_those_who_ended_without_mail_are_forgotten_at_last(house: House) -> None:
    """The oldest first; nobody for whom mail waits."""
    api = house.join("api")
    kept = house.join("kept", harness_session_id="talk")
    api.send(kept, "one")
    house.kill(kept)
    guests = []
    for number in range(KNOWN_ENDED + 3):
        guests.append(house.join(f"g-{number}"))
        house.kill(guests[-1])
    known = house.broker.core.roster.known
    assert kept.id in known
    assert [guest.id in known for guest in guests[:4]] == [False, False, False, True]
    assert len(known) == KNOWN_ENDED + 2


def test_who_is_switched_off_is_gone(house: House) -> None:
    """14.4: one, or all; with a sentence for whoever waits to become it."""
    for name in ("api", "web"):
        house.join(name)
    house.slow_projects = True
    line = house.connect(peer(5001, 5000))
    request = line.begin("register", name="late", pid=5000)
    house.change_settings(off=True)
    assert house.names() == []
    assert refused(lambda: line.answer(request)).code == "feature_off"
    assert sum(house.watched.values()) == 0
    house.answer_projects()
    assert house.names() == []


def test_agents_that_switched_themselves_off_are_remembered_and_not_without_end(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5.2: by a project, of which there may be many; by the user's own settings nobody is an agent more than before."""
    monkeypatch.setattr(liveness, "SILENCED_MOST", 2)
    for number in range(3):
        guest = house.join(f"web-{number}", pid=(number + 1) * 1000, cwd=f"/{number}")
        house.change_project(guest, off=True)
    silenced = house.broker.core.silenced
    assert [process.pid for process in silenced] == [2000, 3000]
    nobody = house.join("nowhere", pid=0, cwd="/nowhere")
    house.change_project(nobody, off=True)
    assert len(silenced) == 2
    house.change_settings(off=True)
    assert not silenced


def test_who_waits_to_become_a_session_that_ends_is_told(house: House) -> None:
    house.slow_projects = True
    line = house.connect(peer(5001, 5000))
    request = line.begin("register", name="api", pid=5000)
    house.kill_pid(5000)
    assert refused(lambda: line.answer(request)).code == "not_running"


def test_the_door_of_a_granted_session_stays_and_so_does_its_token(house: House) -> None:
    """13.4: whoever has its token comes back through it."""
    web = house.join("web", pid=0)
    web.session.grant = GrantRow(web.id, "/d", "human ann", 0, None)
    web.line.ask("end")
    assert house.names() == []
    assert house.doors == {web.id: web.ref}
    assert web.session.token_hash

"""The start: what a broker takes up from the store, and what it must not let through before it knows all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import structs

from tests.support.core_house import BEGAN_MS, Guest, House, peer, refused
from xsessiond.core.admission import Setting
from xsessiond.core.effects import CloseDoor, OpenDoor, Persist, Prune, ReadProject, Restored, WatchProcess
from xsessiond.core.policy import CoreSettings, ProjectSettings
from xsessiond.core.records import HoldRow, PutWatch, Snapshot, WatchRow

HOLD = Setting("hold", "project", "/src/app/.xsessiond.toml:1")


@pytest.fixture
def api(house: House) -> Guest:
    return house.join("api", harness_session_id="a")


@pytest.fixture
def web(house: House) -> Guest:
    return house.join("web", harness_session_id="w")


def restored(house: House, **changes: object) -> Sequence[object]:
    """What a broker asks for when it takes up this store, changed so."""
    snapshot = structs.replace(house.store.load(), **changes)
    fresh = House()
    fresh.mono, fresh.ms = house.mono, house.ms
    return fresh.broker.handle(Restored(snapshot, house.boot), fresh.now)


def test_an_empty_store_is_a_beginning() -> None:
    house = House()
    empty = Snapshot((), (), (), (), 7, ())
    assert house.broker.handle(Restored(empty, "boot"), house.now) == [Prune(BEGAN_MS - house.settings.keep_ms)]
    assert house.broker.core.next_seq == 7


def test_a_session_that_ran_may_come_back(house: House, api: Guest) -> None:
    """1.5, D3: its door is open, its harness watched, its project asked for, for the grace time."""
    effects = restored(house)
    assert OpenDoor(api.id, api.ref) in effects
    assert ReadProject(api.id, "/src/app") in effects
    assert any(isinstance(effect, WatchProcess) for effect in effects)
    house.restart()
    assert house.names() == ["api"]
    api.come_back()
    house.pass_time(60)
    assert house.names() == ["api"]


def test_one_without_a_known_harness_is_not_watched(house: House) -> None:
    guest = house.join("plain", pid=0)
    house.restart()
    assert not guest.session.watched
    house.pass_time(31)
    assert house.names() == []


def test_another_run_of_the_machine_ended_them_all(house: House, api: Guest, web: Guest) -> None:
    """P17, D2: their processes' numbers mean somebody else now; their conversations may resume."""
    sent = api.send(web)
    house.restart(boot="boot-2")
    assert house.names() == []
    assert api.session.process is None
    assert [row.live for row in house.store.load().sessions] == [False, False]
    again = house.join(harness_session_id="w")
    assert (again.id, again.read()) == (web.id, ["hello"])
    assert house.join(harness_session_id="a").check(sent)["state"] == "delivered"


def test_the_door_of_one_that_did_not_come_back_is_closed(house: House, api: Guest) -> None:
    house.boot = "boot-2"
    effects = restored(house)
    assert CloseDoor(api.id) in effects
    assert any(isinstance(effect, Persist) for effect in effects)


def test_one_that_ended_before_stays_ended(house: House, api: Guest) -> None:
    api.line.ask("end")
    ended_at = api.session.ended_at
    house.pass_time(100)
    effects = restored(house)
    assert not any(isinstance(effect, Persist | OpenDoor | CloseDoor) for effect in effects)
    house.restart()
    assert api.session.ended_at == ended_at


def test_mail_pins_receipts_and_counters_are_taken_up(house: House, api: Guest, web: Guest) -> None:
    gone = house.join("gone", harness_session_id="g")
    api.send("web", "one")
    api.send("gone", "two")
    house.kill(gone)
    house.pass_time(house.settings.keep_ms / 1000 + 1)
    before = house.state()
    house.restart()
    after = house.state()
    for what in ("boxes", "sizes", "pins", "pair_seqs", "messages", "receipts", "next_seq"):
        assert after[what] == before[what], what
    assert before["receipts"] == {api.id: 1}


def test_pins_and_counters_of_those_who_are_gone_are_left_out(house: House, api: Guest, web: Guest) -> None:
    api.send("web")
    snapshot = house.store.load()
    pairs = [*snapshot.pair_seqs, ("s-gone", web.id, 3)]
    api.line.ask("end")
    fresh = House()
    ended = house.store.load().sessions
    fresh.broker.handle(Restored(structs.replace(snapshot, sessions=ended, pair_seqs=pairs), house.boot), fresh.now)
    known = fresh.broker.core.roster.known
    assert known[api.id].pins == {}
    assert known[api.id].pair_seqs == {web.id: 1}
    pinless = structs.replace(snapshot, sessions=[row for row in ended if row.id != api.id])
    other = House()
    other.broker.handle(Restored(pinless, house.boot), other.now)
    assert set(other.broker.core.roster.known) == {web.id}


def test_a_message_without_a_receiver_is_logged(house: House, api: Guest, web: Guest) -> None:
    api.send(web)
    rows = [row for row in house.store.load().sessions if row.id != web.id]
    effects = restored(house, sessions=rows)
    assert [effect.what for effect in effects if hasattr(effect, "what")] == ["a message has no receiver"]


def test_of_a_sender_that_is_gone_the_message_is_delivered(house: House, api: Guest, web: Guest) -> None:
    api.send(web)
    house.kill(api)
    house.pass_time(house.settings.keep_ms / 1000 + 1)
    house.store.prune(older_than_ms=house.ms)
    house.restart()
    web.come_back()
    (message,) = web.take()
    assert (message["from"]["name"], message["from"]["ref"]) == ("api", None)


# -- held --------------------------------------------------------------------------------------------------------------


def test_what_was_held_is_held(house: House, web: Guest) -> None:
    """5.1: with its reason and its end; what was let go is on its way with its mark."""
    daring = house.join("daring", **{"class": "bypass"})
    held, freed = daring.send(web, "held"), daring.send(web, "freed")
    house.approve(freed)
    house.pass_time(10)
    house.restart()
    (hold,) = house.queue()
    assert (hold["id"], hold["expires_at"], hold["sender_class"]) == (held["id"], held["expires_at"], "bypass")
    web.come_back()
    assert [message["held"]["held_s"] for message in web.take()] == [0]
    house.pass_time(3590)
    assert house.queue() == []


def test_a_held_message_whose_reason_was_lost_is_held(house: House, web: Guest) -> None:
    """Nothing fails open: not a store that lost a row either."""
    daring = house.join("daring", **{"class": "bypass"})
    sent = daring.send(web)
    house.store._holds.clear()
    house.restart()
    web.come_back()
    assert web.take() == []
    (hold,) = house.queue()
    assert (hold["id"], hold["cause"], hold["rule"]) == (sent["id"], "invalid-setting", "its reason was lost")
    assert [log.what for log in house.logs if log.level == "error"] == ["a held message has no reason"]
    assert house.approve(sent)[0]["state"] == "queued"


def test_what_is_held_is_not_released_before_the_project_is_read(house: House) -> None:
    """It may say hold now; and if it does not, it is released at once."""
    house.projects["/src/app"] = ProjectSettings("/src/app", inbound=(HOLD,))
    web, other = house.join("web", cwd="/src/app"), house.join("other", cwd="/src/other")
    sent = other.send(web)
    assert sent["state"] == "held"
    house.slow_projects = True
    house.restart()
    house.change_settings()
    assert len(house.queue()) == 1
    del house.projects["/src/app"]
    house.answer_projects()
    assert house.queue() == []
    web.come_back()
    assert web.read() == ["hello"]


@pytest.mark.parametrize("who", ["sender", "receiver"])
def test_what_is_sent_before_the_projects_are_read_waits_for_them(house: House, who: str) -> None:
    """4.9, 14.2: of the receiver, and of the sender. Nobody has to decide about it."""
    api, web = house.join("api", cwd="/src/api"), house.join("web", cwd="/src/web")
    house.slow_projects = True
    house.restart()
    late = {"sender": api, "receiver": web}[who]
    waiting = [question for question in house.asked_projects if question.session_id == late.id]
    house.asked_projects = [question for question in house.asked_projects if question.session_id != late.id]
    house.answer_projects()
    for guest in (api, web):
        guest.come_back()
    sent = api.send(web)
    assert (sent["state"], "not read yet" in sent["rule"]) == ("held", True)
    house.asked_projects = waiting
    house.answer_projects()
    assert api.check(sent)["state"] == "queued"


def test_mail_for_a_conversation_that_ended_before_is_not_held_for_its_project(house: House, api: Guest) -> None:
    """11.1: its project is read once, at the start."""
    house.join("web", harness_session_id="w").line.ask("end")
    house.restart()
    api.come_back()
    assert api.send("web", when_offline="queue")["state"] == "queued"
    ended = [session.id for session in house.broker.core.roster.ended()]
    assert house.forgotten == ended


def test_a_project_of_one_that_ended_may_hold(house: House, api: Guest) -> None:
    house.projects["/src/app"] = ProjectSettings("/src/app", inbound=(HOLD,), off=True)
    house.settings = CoreSettings()
    guest = refused(lambda: house.join("web", cwd="/src/app"))
    assert guest.code == "feature_off"
    house.projects.clear()
    web = house.join("web", harness_session_id="w", cwd="/src/app")
    web.line.ask("end")
    house.projects["/src/app"] = ProjectSettings("/src/app", inbound=(HOLD,))
    house.restart()
    api.come_back()
    assert api.send(web.id, when_offline="queue")["state"] == "held"


def test_the_launch_policy_is_remembered(house: House, api: Guest) -> None:
    """14.1: also one that could not be read. (Words that are no policy hold.)"""
    careful = house.join("careful", inbound="hold")
    odd = house.join("odd", inbound="maybe")
    house.restart()
    for guest in (api, careful, odd):
        guest.come_back()
    assert api.send(careful)["rule"] == "inbound = hold (launch: XSESSIOND_INBOUND)"
    assert api.send(odd)["rule"] == "inbound = unreadable (launch: XSESSIOND_INBOUND)"


# -- trust -------------------------------------------------------------------------------------------------------------


def test_trust_is_taken_up_and_what_is_over_is_dropped(house: House, web: Guest) -> None:
    daring = house.join("daring", **{"class": "bypass"})
    other = house.join("other", **{"class": "bypass"})
    house.approve(daring.send(web, "1"), trust="session")
    house.approve(other.send(web, "1"), trust="pair", for_s=60)
    house.ms += 60_000
    house.restart()
    for guest in (daring, other):
        guest.come_back()
    assert daring.send(web, "2")["state"] == "queued"
    assert other.send(web, "2")["state"] == "held"
    assert len(house.store.load().trusts) == 1


def test_what_is_trusted_for_a_session_that_does_not_come_back_is_over(house: House, web: Guest) -> None:
    daring = house.join("daring", **{"class": "bypass"})
    house.approve(daring.send(web, "1"), trust="session", for_s=1)
    house.ms += 60_000
    house.restart(boot="boot-2")
    assert house.store.load().trusts == []


def test_rows_have_no_surprises() -> None:
    """A hold that was never let go has no mark."""
    row = HoldRow(1, "m-1", "scope", "scope = project", "unknown", 0, None)
    assert (row.released_at, row.released_by, row.released_rule, row.answers) == (None, None, None, None)


# -- who asked to be told ----------------------------------------------------------------------------------------------


def test_who_asked_to_be_told_is_remembered(house: House, api: Guest) -> None:
    """9.2. A wish about a session that is not known, which a store could only have that was tampered with, is not."""
    other = house.join("other", delivery="push")
    api.watch(other)
    house.store.commit([PutWatch(WatchRow(api.id, "s-0", 1, 2))])
    house.restart()
    assert [(row.asker_id, row.target_id) for row in house.store.load().watches] == [(api.id, other.id)]
    assert [log.what for log in house.logs if log.level == "error"] == [
        "who asked to be told of a session that is not known is not told"
    ]
    api.come_back()
    other.come_back()
    other.is_now("idle")
    house.pass_time(60)
    assert [notice["state"] for notice in api.notices()] == ["idle"]


def test_what_was_read_a_while_ago_is_acted_on_still(house: House, api: Guest, web: Guest) -> None:
    """10.2: for the rest of its time, by sessions that are known; a clock that was set back makes it no longer."""
    for number in range(3):
        api.send(web, f"{number}")
        web.read()
        web.send(api, f"re {number}")
        api.read()
        house.pass_time(100)
    house.restart()
    core = house.broker.core
    hops = {}
    for guest in (api, web):
        cause = core.roster.known[guest.id].causes.find(house.mono)
        assert cause is not None
        hops[guest.name] = cause.hop, cause.until - house.mono
    assert hops == {"api": (5, 500.0), "web": (4, 500.0)}
    snapshot = house.store.load()
    later = House()
    later.ms = house.ms - 86_400_000
    strangers = [("s-gone", "m-1", 3, house.ms), ("human", "m-2", 3, house.ms), *snapshot.entered]
    later.broker.handle(Restored(structs.replace(snapshot, entered=strangers), house.boot), later.now)
    found = later.broker.core.roster.known[api.id].causes.find(later.mono)
    assert found is not None
    assert (found.hop, found.until - later.mono) == (5, 600.0)


@pytest.mark.parametrize("boot", [None, "another"])
@pytest.mark.parametrize("running", [True, False])
def test_a_granted_session_has_its_socket_whether_it_ran_or_not(running: bool, boot: str | None) -> None:  # noqa: FBT001
    """13.4, P17"""
    house = House()
    given = house.human().ask("grant", name="box", directory="/d", cwd="/")
    house.join("api")
    if running:
        house.connect(peer(5), given["session"]["id"]).ask("attach", token=given["token"])
    house.restart(boot=boot)
    assert house.doors[given["session"]["id"]] == "/d/session.sock"
    assert ("box" in house.names()) == (running and boot is None)

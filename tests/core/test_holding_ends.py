"""Held messages: every way out, by time, by a change, or by a person; and what both sides hear of it."""

from __future__ import annotations

import pytest

from tests.support.core_house import Guest, House, refused
from xsessiond.core.admission import Setting
from xsessiond.core.effects import ProjectRead
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.policy import NOT_READ, CoreSettings

HOUR_S = 3600
HOLD = Setting("hold", "user", "config.toml:2")
REFUSE = Setting("refuse", "user", "config.toml:2")


@pytest.fixture
def house() -> House:
    return House(CoreSettings(pacing=PaceSettings(target_burst=0, sender_burst=0)))


@pytest.fixture
def api(house: House) -> Guest:
    """Acts without asking, so that what it sends to `web` is held."""
    return house.join("api", **{"class": "bypass"})


@pytest.fixture
def web(house: House) -> Guest:
    return house.join("web", harness_session_id="talk")


# -- expiry ------------------------------------------------------------------------------------------------------------


def test_a_hold_by_parity_expires(house: House, api: Guest, web: Guest) -> None:
    """5.4, H2: at its time, not before; both sides hear of it, the receiver without the text."""
    sent = api.send(web, "secret")
    house.pass_time(HOUR_S - 0.001)
    assert api.check(sent)["state"] == "held"
    assert api.told() == web.told() == []
    house.pass_time(0.001)
    found = api.check(sent)
    assert (found["state"], found["expires_at"]) == ("expired", None)
    assert (found["history"][-1]["rule"], found["history"][-1]["by"]) == ("inbound.hold_expiry", None)
    assert api.told() == [f"{sent['id']} to web expired: nobody decided about it in time."]
    assert web.told() == ["1 held message from api expired; nobody decided about it."]
    assert house.queue() == []


def test_other_holds_do_not(house: House, api: Guest, web: Guest) -> None:
    """5.4: what the user set waits for the user."""
    house.change_settings(inbound=(HOLD,))
    sent = api.send(web)
    assert sent["expires_at"] is None
    house.pass_time(30 * 24 * HOUR_S)
    assert api.check(sent)["state"] == "held"


def test_never_is_never(house: House, api: Guest, web: Guest) -> None:
    """5.4: hold_expiry = "never"."""
    house.change_settings(hold_expiry_ms=None)
    sent = api.send(web)
    assert sent["expires_at"] is None
    house.pass_time(30 * 24 * HOUR_S)
    assert api.check(sent)["state"] == "held"


def test_what_was_promised_stays_promised(house: House, api: Guest, web: Guest) -> None:
    """A change of the setting is for what comes after it."""
    early = api.send(web, "early")
    house.change_settings(hold_expiry_ms=60_000)
    late = api.send(web, "late")
    house.pass_time(60)
    assert [api.check(sent)["state"] for sent in (early, late)] == ["held", "expired"]


@pytest.mark.parametrize("asleep_s", [HOUR_S, 8 * HOUR_S])
def test_sleep_counts(house: House, api: Guest, web: Guest, asleep_s: int) -> None:
    """5.4, P10: the monotonic clock stands still while a laptop sleeps; a minute after it wakes the time is over."""
    sent = api.send(web)
    house.pass_time(1)
    house.ms += asleep_s * 1000
    house.pass_time(60)
    assert api.check(sent)["state"] == "expired"


def test_a_clock_that_was_set_back_prolongs_and_ends(house: House, api: Guest, web: Guest) -> None:
    """What was said is a time of day, so that time counts."""
    sent = api.send(web)
    house.ms -= HOUR_S * 1000
    house.pass_time(HOUR_S + 60)
    assert api.check(sent)["state"] == "held"
    house.pass_time(HOUR_S)
    assert api.check(sent)["state"] == "expired"


@pytest.mark.parametrize("away_s, state", [(10, "held"), (HOUR_S, "expired")])
def test_a_restart_forgets_no_deadline(house: House, api: Guest, web: Guest, away_s: int, state: str) -> None:
    """5.4: time in which no broker ran counts too."""
    sent = api.send(web)
    house.ms += away_s * 1000
    house.restart()
    house.pass_time(0)
    api.come_back()
    assert api.check(sent)["state"] == state
    house.pass_time(HOUR_S)
    assert api.check(sent)["state"] == "expired"


def test_what_was_decided_has_no_deadline_any_more(house: House, api: Guest, web: Guest) -> None:
    approved, denied = api.send(web, "one"), api.send(web, "two")
    house.approve(approved)
    house.deny(denied)
    agenda = house.broker.core.agenda
    assert not [sent for sent in (approved, denied) if ("held", sent["id"]) in agenda]
    house.pass_time(2 * HOUR_S)
    assert [api.check(sent)["state"] for sent in (approved, denied)] == ["queued", "denied"]


# -- release and drop --------------------------------------------------------------------------------------------------


def test_a_class_that_changes_releases_all_in_order(house: House, api: Guest, web: Guest) -> None:
    """5.6, 4.3: at once, together, each in its place; the sender hears by which rule."""
    first = house.join("first")
    early = first.send(web, "0")
    sent = [api.send(web, str(number)) for number in (1, 2, 3)]
    late = first.send(web, "4")
    web.change_class("bypass")
    assert web.read() == ["0", "1", "2", "3", "4"]
    assert early["state"] == late["state"] == "queued"
    assert api.told() == [
        f"{one['id']} to web was released (parity: both act without asking) and is on its way." for one in sent
    ]
    steps = [(step["state"], step["rule"], step["by"]) for step in api.check(sent[0])["history"][:2]]
    assert steps == [("held", sent[0]["rule"], None), ("queued", "parity: both act without asking", None)]


def test_a_push_gets_them_in_one_go(house: House, api: Guest) -> None:
    """7.3: and a link without push hears of all of them once."""
    pushed, pulled = house.join("pushed", push=True), house.join("pulled")
    for target in (pushed, pulled):
        for number in range(3):
            api.send(target, str(number))
        target.change_class("bypass")
    assert [push["message"]["text"] for push in pushed.line.pushes] == ["0", "1", "2"]
    assert pulled.line.notes == [("mail", {"queued": 3})]


def test_released_messages_say_so(house: House, api: Guest, web: Guest) -> None:
    """5.7, 12.1, H3: held how long, by whom and when let go, wherever they come out."""
    approved, changed = api.send(web, "approved"), api.send(web, "changed")
    house.pass_time(240)
    house.approve(approved)
    (message,) = web.take(render=True)
    assert message["held"] == {
        "held_s": 240,
        "by": "human ann",
        "at": message["held"]["at"],
        "cause": "mode-mismatch",
        "rule": "approved",
    }
    assert 'held="4m, approved by human ann at ' in message["envelope"]
    web.change_class("bypass")
    (other,) = [it for it in web.take(render=True) if it["id"] == changed["id"]]
    assert (other["held"]["by"], other["held"]["rule"]) == (None, "parity: both act without asking")
    assert 'held="4m, released by a changed setting at ' in other["envelope"]


def test_a_pushed_message_has_its_mark_and_one_that_was_never_held_has_none(house: House, api: Guest) -> None:
    web = house.join("web", push=True)
    house.join("other").send(web, "plain")
    house.approve(api.send(web, "held"))
    assert [push["message"]["held"] and push["message"]["held"]["by"] for push in web.line.pushes] == [
        None,
        "human ann",
    ]


def test_the_mark_survives_a_restart(house: House, api: Guest, web: Guest) -> None:
    house.approve(api.send(web))
    house.restart()
    web.come_back()
    (message,) = web.take()
    assert (message["held"]["by"], message["held"]["cause"]) == ("human ann", "mode-mismatch")


@pytest.mark.parametrize("perm_class, state", [("bypass", "queued"), ("prompting", "held"), (None, "held")])
def test_only_what_may_go_goes(house: House, api: Guest, web: Guest, perm_class: str | None, state: str) -> None:
    sent = [api.send(web, str(number)) for number in range(3)]
    web.change_class(perm_class)
    assert [api.check(one)["state"] for one in sent] == [state] * 3


def test_the_senders_class_counts_as_it_was(house: House, api: Guest, web: Guest) -> None:
    """5.6, 4.3: an agent that asks from now on did not when it sent."""
    sent = api.send(web, "one")
    api.change_class("prompting")
    house.change_settings()
    assert api.check(sent)["state"] == "held"
    assert api.send(web, "two")["state"] == "queued"


def test_what_refuses_now_drops_all(house: House, api: Guest, web: Guest) -> None:
    """5.6: and each sender is told; the receiver, whose own wish it is, is not."""
    other = house.join("other", **{"class": "bypass"})
    sent = [(api, api.send(web, "one")), (other, other.send(web, "two"))]
    house.change_settings(inbound=(REFUSE,))
    for who, one in sent:
        assert who.check(one)["state"] == "refused"
        (text,) = who.told()
        assert text.startswith(
            f"{one['id']} to web was refused after all, by the receiver's settings (inbound = refuse ("
        )
    assert web.told() == []
    assert house.queue() == []
    refusal = refused(lambda: api.send(web, "three"))
    assert (refusal.code, refusal.data["detail"]) == ("refused", {"rule": "inbound = refuse (user: config.toml:2)"})


def test_a_setting_that_is_gone_releases(house: House, web: Guest) -> None:
    """14.3"""
    house.change_settings(inbound=(HOLD,))
    other = house.join("other")
    sent = other.send(web)
    assert sent["rule"] == "inbound = hold (user: config.toml:2)"
    house.change_settings(inbound=())
    assert web.read() == ["hello"]
    assert other.check(sent)["state"] == "delivered"


def test_a_project_that_changes_counts_for_its_sessions(house: House, api: Guest, web: Guest) -> None:
    """14.3, H10: held while its files hold, released when they do not any more."""
    other = house.join("other", cwd="/src/other")
    house.change_project(web, inbound=(Setting("hold", "project", ".xsessiond.toml:1"),))
    sent = other.send(web)
    assert sent["rule"] == "inbound = hold (project: .xsessiond.toml:1)"
    house.change_project(web)
    assert other.check(sent)["state"] == "queued"


def test_what_came_before_a_project_was_read_goes_once_it_is(house: House, web: Guest) -> None:
    """14.3, P9: as after a restart of the broker. A script has no settings of its own that could hold it any longer."""
    house.handle(ProjectRead(web.id, NOT_READ))
    sent = house.script().ask("send", to="web", message="hello")
    assert (sent["state"], sent["rule"]) == ("held", "inbound = unreadable (project: not read yet)")
    house.change_project(web)
    assert web.read() == ["hello"]


def test_what_an_assumed_class_changes(house: House) -> None:
    """4.3: for a harness that cannot tell; a class that is told stands above it."""
    web = house.join("web", **{"class": None, "harness": "gemini"})
    other = house.join("other")
    sent = other.send(web)
    assert (sent["state"], "mode-unknown" in sent["notice"]) == ("held", True)
    house.change_settings(assume_class={"gemini": "prompting"})
    assert other.check(sent)["state"] == "queued"
    assert web.line.ask("whoami")["class"] == "prompting"
    assert {session["name"]: session["class"] for session in house.listed()}["web"] == "prompting"
    web.change_class("bypass")
    assert other.send(web, "again")["state"] == "held"


def test_what_is_said_about_a_session_is_its_class_everywhere(house: House) -> None:
    house.change_settings(assume_class={"gemini": "prompting"})
    web = house.join("web", **{"class": None, "harness": "gemini"})
    shown = [
        web.registered["session"],
        web.line.ask("update", state="busy")["session"],
        web.line.ask("rename", name="webb")["self"],
        web.line.ask("list")["self"],
    ]
    assert [session["class"] for session in shown] == ["prompting"] * 4

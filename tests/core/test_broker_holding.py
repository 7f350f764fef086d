"""What the broker hands to holding and deciding: their methods, their deadlines, settings, passphrases, and what was
not stored of them."""

from __future__ import annotations

import pytest

from tests.support.core_house import Guest, House, refused
from xsessiond.core.admission import Setting
from xsessiond.core.effects import PassphraseChecked, TimePassed

RENDEZVOUS_ONLY = {
    "hold_queue": {},
    "decide": {"verdict": "deny", "all": True},
    "trusts": {},
    "revoke_trust": {"id": "t-1"},
    "explain": {"sender": "human", "receiver": "api"},
    "config": {},
    "reload": {},
}


@pytest.fixture
def api(house: House) -> Guest:
    """Acts without asking, so that what it sends to `web` is held."""
    return house.join("api", **{"class": "bypass"})


@pytest.mark.parametrize("method", RENDEZVOUS_ONLY)
def test_holding_is_asked_about_at_the_rendezvous(house: House, api: Guest, method: str) -> None:
    """A session's private socket is for that session's mail."""
    params = RENDEZVOUS_ONLY[method]
    refusal = refused(lambda: api.line.ask(method, **params))
    assert (refusal.code, refusal.text) == ("usage", "This method is for the rendezvous.")
    if method == "revoke_trust":
        assert refused(lambda: house.human().ask(method, **params)).code == "not_found"
    else:
        house.human().ask(method, **params)


def test_settings_are_in_force_when_they_were_read(house: House, api: Guest, web: Guest) -> None:
    """14.3: for what comes, for what is held, and for who asked for it; loosening is told."""
    sent = api.send(web)
    line = house.script()
    house.settings = house.settings
    assert line.ask("reload")["ok"]
    house.change_settings(inbound=(Setting("accept", "user", "u:1"),), without_terminal=True)
    assert api.check(sent)["state"] == "queued"
    assert any("no terminal" in warning for warning in line.ask("status")["warnings"])
    house.change_settings(off=True)
    assert house.names() == []


def test_the_deadline_of_a_hold_comes_out_of_the_agenda(house: House, api: Guest, web: Guest) -> None:
    sent = api.send(web)
    house.pass_time(3600)
    assert api.check(sent)["state"] == "expired"
    house.broker.core.agenda.schedule(("held", "m-gone"), house.mono)
    before = house.state()
    house.handle(TimePassed())
    assert house.state() == before


@pytest.mark.parametrize("ok", [True, False])
def test_a_passphrase_that_is_checked_goes_on(house: House, api: Guest, web: Guest, *, ok: bool) -> None:
    house.passphrase = "open sesame"
    house.change_settings(passphrase=True)
    sent = api.send(web)
    given = "open sesame" if ok else "open barley"
    if ok:
        assert house.approve(sent, passphrase=given)[0]["state"] == "queued"
    else:
        assert refused(lambda: house.approve(sent, passphrase=given)).code == "not_permitted"
    assert house.broker.core.proving == {}


def test_a_passphrase_of_who_has_gone_decides_nothing(house: House, api: Guest, web: Guest) -> None:
    house.change_settings(passphrase=True)
    api.send(web)
    line = house.human()
    core = house.broker.core
    core.out = []
    core.check_passphrase(core.wires[line.link], 7, "open sesame", lambda wire, now: pytest.fail("it went on"))
    (ticket,) = core.proving
    line.drop()
    assert house.broker.handle(PassphraseChecked(ticket, ok=True), house.now) == []


def test_a_bug_behind_a_passphrase_costs_one_request(house: House, api: Guest, web: Guest) -> None:
    house.change_settings(passphrase=True)
    line = house.human()
    core = house.broker.core

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    core.out = []
    core.check_passphrase(core.wires[line.link], 7, "", broken)
    (ticket,) = core.proving
    house.handle(PassphraseChecked(ticket, ok=True))
    assert house.logs[-1].what == "a bug"
    assert refused(lambda: line.answer(7)).code == "internal"


def test_watchers_are_told_after_the_event_that_changed_the_queue(house: House, api: Guest, web: Guest) -> None:
    line = house.human()
    line.ask("hold_queue", watch=True)
    for number in range(3):
        api.send(web, str(number))
    house.deny(all=True)
    assert [len(params["held"]) for _, params in line.notes] == [1, 2, 3, 0]

"""Trust: a decision that is remembered, how far it goes, and how it ends."""

from __future__ import annotations

import pytest

from tests.support.core_house import Answer, Guest, House, refused
from xsessiond.core.admission import Setting
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.policy import CoreSettings


@pytest.fixture
def house() -> House:
    return House(CoreSettings(pacing=PaceSettings(target_burst=0, sender_burst=0)))


@pytest.fixture
def api(house: House) -> Guest:
    """Acts without asking, so that what it sends to `web` is held."""
    return house.join("api", **{"class": "bypass"})


def outcome(decided: list[Answer]) -> list[tuple[str | None, str | None]]:
    """State and error of each."""
    return [(one["state"], one["error"] and one["error"]["code"]) for one in decided]


def trusts(house: House) -> list[Answer]:
    found: list[Answer] = house.human().ask("trusts")["trusts"]
    return found


# -- trust -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trust", [None, "once"])
def test_once_is_once(house: House, api: Guest, web: Guest, trust: str | None) -> None:
    """H7"""
    house.approve(api.send(web, "1"), trust=trust)
    assert api.send(web, "2")["state"] == "held"
    assert trusts(house) == []


@pytest.mark.parametrize("trust", ["session", "pair"])
def test_what_is_trusted_goes_through(house: House, api: Guest, web: Guest, trust: str) -> None:
    """4.6, H7: from this sender to this receiver, and what else is held between them too; listed."""
    other = house.join("other")
    sent = [api.send(web, str(number)) for number in range(3)]
    (decided,) = house.approve(sent[1], trust=trust)
    assert web.read() == ["0", "1", "2"]
    (row,) = trusts(house)
    assert row["id"] == decided["trust"]
    assert (row["from"]["name"], row["to"]["name"], row["scope"], row["by"]) == ("api", "web", trust, "human ann")
    assert row["until"] is None
    answer = api.send(web, "3")
    assert (answer["state"], answer["rule"]) == ("queued", f"trust {row['id']}")
    assert web.send(api)["state"] == "held", "the way back is another"
    assert other.send(api)["state"] == "held", "and so is another sender"


def test_all_approved_with_trust_are_approved(house: House, api: Guest, web: Guest) -> None:
    """Not 'already decided' by the trust that came with the first; one trust a pair."""
    other = house.join("other", **{"class": "bypass"})
    for guest in (api, api, other):
        guest.send(web, f"{guest.name} {house.broker.core.next_seq}")
    decided = house.approve(all=True, trust="pair")
    assert outcome(decided) == [("queued", None)] * 3
    assert len({one["trust"] for one in decided}) == 2
    assert {row["from"]["name"] for row in trusts(house)} == {"api", "other"}
    assert all("approved by human ann" in text for text in api.told())


def test_the_last_word_about_a_pair_counts(house: House, api: Guest, web: Guest) -> None:
    house.approve(api.send(web, "1"), trust="pair")
    house.change_settings(inbound=(Setting("hold", "managed", "m:1"),))
    (decided,) = house.approve(api.send(web, "2"), trust="session", for_s=60)
    (row,) = trusts(house)
    assert (row["id"], row["scope"]) == (decided["trust"], "session")


def test_the_administrators_hold_stays(house: House, api: Guest, web: Guest) -> None:
    """4.6: trust is the user's, and theirs is not above it."""
    house.change_settings(inbound=(Setting("hold", "managed", "m:1"),))
    house.approve(api.send(web, "1"), trust="pair")
    assert api.send(web, "2")["state"] == "held"


def test_trust_may_have_an_end(house: House, api: Guest, web: Guest) -> None:
    """H7: this pair until then, to the millisecond; also over a restart."""
    house.approve(api.send(web, "1"), trust="pair", for_s=60)
    assert api.send(web, "2")["state"] == "queued"
    house.pass_time(59.999)
    assert api.send(web, "3")["state"] == "queued"
    house.pass_time(0.001)
    assert trusts(house) == []
    assert api.send(web, "4")["state"] == "held"
    assert len(house.store.load().trusts) == 1
    house.restart()
    assert house.store.load().trusts == []


@pytest.mark.parametrize("who", ["api", "web"])
@pytest.mark.parametrize("trust, left", [("session", 0), ("pair", 1)])
def test_trust_in_a_session_ends_with_either(house: House, who: str, trust: str, left: int) -> None:
    api = house.join("api", harness_session_id="a", **{"class": "bypass"})
    web = house.join("web", harness_session_id="w")
    house.approve(api.send(web, "1"), trust=trust)
    guest = {"api": api, "web": web}[who]
    house.kill(guest)
    again = house.join(harness_session_id=who[0], **{"class": guest.params["class"]})
    assert again.id == guest.id
    assert len(trusts(house)) == len(house.store.load().trusts) == left
    sender, receiver = (again, web) if who == "api" else (api, again)
    assert sender.send(receiver, "2")["state"] == ("queued" if left else "held")


@pytest.mark.parametrize("trust, left", [("session", 0), ("pair", 1)])
def test_trust_in_a_session_ends_with_the_machine(house: House, api: Guest, web: Guest, trust: str, left: int) -> None:
    house.approve(api.send(web, "1"), trust=trust)
    house.restart()
    assert len(trusts(house)) == 1, "both may come back"
    house.restart(boot="boot-2")
    assert len(trusts(house)) == len(house.store.load().trusts) == left


def test_trust_is_revoked_at_once(house: House, api: Guest, web: Guest) -> None:
    """4.6"""
    (decided,) = house.approve(api.send(web, "1"), trust="pair")
    human = house.human()
    assert human.ask("revoke_trust", id=decided["trust"]) == {"revoked": decided["trust"]}
    assert api.send(web, "2")["state"] == "held"
    assert house.store.load().trusts == []
    refusal = refused(lambda: human.ask("revoke_trust", id=decided["trust"]))
    assert refusal.code == "not_found"


def test_nobody_trusts_a_script(house: House) -> None:
    """The next one may be anything; the answer says that none was given."""
    daring = house.join("daring", **{"class": "bypass"})
    sent = house.script().ask("send", to=daring.id, message="hello")
    assert sent["state"] == "held"
    (decided,) = house.approve(sent, trust="pair")
    assert (decided["state"], decided["trust"]) == ("queued", None)
    assert trusts(house) == []


def test_trust_is_shown_also_where_its_sessions_are_forgotten(house: House, api: Guest, web: Guest) -> None:
    house.approve(api.send(web, "1"), trust="pair")
    house.kill(api)
    house.broker.core.roster.forget(api.session)
    (row,) = trusts(house)
    assert row["from"] == {"id": api.id, "name": "api", "ref": None}

"""Explanations: what a message would meet, before anybody sends one; and settings that are read anew."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.support.core_house import Answer, Guest, House, refused
from xsessiond.core.admission import Setting
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.policy import CoreSettings, ProjectSettings

HOLD = Setting("hold", "user", "config.toml:2")


@pytest.fixture
def house() -> House:
    return House(CoreSettings(pacing=PaceSettings(target_burst=0, sender_burst=0)))


@pytest.fixture
def api(house: House) -> Guest:
    """Acts without asking, so that what it sends to `web` is held."""
    return house.join("api", **{"class": "bypass"})


# -- explanations ------------------------------------------------------------------------------------------------------

CLASSES = ("bypass", "prompting", None)
INBOUND = (
    None,
    Setting("accept", "user", "u:1"),
    Setting("hold", "user", "u:1"),
    Setting("refuse", "user", "u:1"),
    Setting(None, "user", "u:1"),
    Setting("hold", "managed", "m:1"),
)
OUTBOUND = (None, Setting("hold", "user", "u:2"), Setting("refuse", "user", "u:2"))


def explained(house: House, sender: Guest | str, receiver: Guest) -> Answer:
    line = house.script()
    found = line.ask("explain", sender=sender.id if isinstance(sender, Guest) else sender, receiver=receiver.id)
    line.drop()
    return found


def sent_instead(house: House, sender: Guest | str, receiver: Guest) -> tuple[str, str | None, str, bool | None]:
    """Verdict, cause, rule and expiry of a real message."""
    line = sender.line if isinstance(sender, Guest) else house.human() if sender == "human" else house.script()
    request = line.begin("send", to=receiver.id, message=f"{house.broker.core.next_seq}")
    try:
        answer = line.answer(request)
    except Exception as refusal:
        return "refuse", None, refusal.data["detail"]["rule"], None  # type: ignore[attr-defined]
    if answer["state"] == "queued":
        return "admit", None, answer["rule"], None
    hold = house.queue()[-1]
    assert (hold["id"], hold["rule"]) == (answer["id"], answer["rule"])
    return "hold", hold["cause"], answer["rule"], hold["expires_at"] is not None


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([*CLASSES, "human", "script"]),
    st.sampled_from(CLASSES),
    st.sampled_from(INBOUND),
    st.sampled_from(OUTBOUND),
    st.sets(st.sampled_from(["own project", "trusted", "never"])),
)
def test_an_explanation_is_what_a_message_would_meet(
    sender: str | None,
    receiver: str | None,
    inbound: Setting | None,
    outbound: Setting | None,
    more: set[str],
) -> None:
    """4.5, H6: for every combination of what counts."""
    house = House(
        CoreSettings(
            pacing=PaceSettings(target_burst=0, sender_burst=0, duplicate_window=0),
            hold_expiry_ms=None if "never" in more else 60_000,
        )
    )
    for folder in ("/src/a", "/src/b"):
        house.projects[folder] = ProjectSettings(root=folder)
    who: Guest | str = sender if sender in ("human", "script") else house.join("api", cwd="/src/a", **{"class": sender})
    web = house.join("web", cwd="/src/a" if "own project" in more else "/src/b", **{"class": receiver})
    if "trusted" in more and isinstance(who, Guest):
        house.change_settings(inbound=(HOLD,))
        house.approve(who.send(web, "first"), trust="pair")
    house.change_settings(
        inbound=() if inbound is None else (inbound,),
        outbound=() if outbound is None else (outbound,),
        scope=() if "own project" in more else (Setting("project", "user", "u:3"),),
    )
    before = house.state()
    told = explained(house, who, web)
    assert house.state() == before, "nothing was sent"
    verdict = (told["verdict"], told["cause"], told["rule"], told["expires"])
    assert verdict == sent_instead(house, who, web)
    assert told["sender"]["class"] == ("unknown" if isinstance(who, str) else who.session.perm_class)


def test_an_explanation_names_both_sides_and_the_policy(house: House, api: Guest, web: Guest) -> None:
    """4.5, C5"""
    house.change_settings(inbound=(HOLD,), scope=(Setting("machine", "managed", "m:4"),))
    told = explained(house, api, web)
    assert told["sender"] == {"kind": "session", "name": "api", "ref": api.ref, "class": "bypass"}
    assert told["receiver"] == {
        "name": "web",
        "ref": web.ref,
        "harness": web.session.harness,
        "class": "prompting",
        "policy": {
            "inbound": {"value": "hold", "source": "user", "where": "config.toml:2"},
            "outbound": None,
            "scope": {"value": "machine", "source": "managed", "where": "m:4"},
        },
    }
    assert told["rule"] == "inbound = hold (user: config.toml:2)"


@pytest.mark.parametrize("sender, receiver", [("api", "api"), ("nobody", "web"), ("api", "nobody")])
def test_an_explanation_needs_two_sessions(house: House, api: Guest, web: Guest, sender: str, receiver: str) -> None:
    refusal = refused(lambda: house.script().ask("explain", sender=sender, receiver=receiver))
    assert refusal.code == ("self_target" if sender == receiver else "not_found")


def test_a_session_may_be_called_script(house: House, web: Guest) -> None:
    """Then the word means that session."""
    script = house.join("script", **{"class": "bypass"})
    told = explained(house, "script", web)
    assert (told["verdict"], told["sender"]["ref"]) == ("hold", script.ref)


@pytest.mark.parametrize("sender, receiver", list(itertools.product(["human", "script"], CLASSES)))
def test_outside_senders_have_a_name_and_no_ref(house: House, sender: str, receiver: str | None) -> None:
    web = house.join("web", **{"class": receiver})
    told = explained(house, sender, web)["sender"]
    assert (told["kind"], told["ref"], told["class"]) == (sender, None, "unknown")
    assert told["name"] == {"human": "ann", "script": "script"}[sender]


# -- settings ----------------------------------------------------------------------------------------------------------


def test_a_reload_is_answered_when_the_settings_are_in_force(house: House, api: Guest, web: Guest) -> None:
    """14.3: with what `config` says."""
    sent = api.send(web)
    house.settings = structs.replace(
        house.settings, inbound=(Setting("accept", "user", "u:1"),), config_problems=("x",)
    )
    line = house.script()
    assert line.ask("reload") == line.ask("config") == {"values": [], "problems": ["x"], "ok": True}
    assert api.check(sent)["state"] == "queued"


def test_who_asked_for_a_reload_and_went_is_forgotten(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    line = house.script()
    wire = house.broker.core.wires[line.link]
    house.broker.core.reloading.append((line.link, 7))
    line.drop()
    assert wire.link not in house.broker.core.wires
    house.change_settings()
    assert house.broker.core.reloading == []

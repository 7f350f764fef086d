"""Whom a message is for: the sender of what it answers, or who its address means, running or not."""

from __future__ import annotations

import pytest

from tests.support.core_house import Guest, House, refused
from xsessiond.core.policy import CoreSettings


@pytest.fixture
def house() -> House:
    return House(CoreSettings(resume={"codex": ("codex", "resume", "{harness_session_id}")}))


@pytest.fixture
def web(house: House) -> Guest:
    return house.join("web", harness_session_id="talk-1")


def question(sender: Guest, receiver: Guest) -> str:
    sent = sender.send(receiver, "which port?")
    receiver.read()
    return str(sent["id"])


def test_an_address_is_a_name_or_an_id(api: Guest, web: Guest) -> None:
    """2.3"""
    assert [api.send(to, str(number))["to"]["id"] for number, to in enumerate(("web", web.id, web.ref))] == [web.id] * 3
    for nothing in (None, "", "  "):
        assert refused(lambda nothing=nothing: api.line.ask("send", to=nothing, message="x")).code == "usage"  # type: ignore[misc]
    assert refused(lambda: api.send("nobody")).code == "not_found"


@pytest.mark.parametrize("live", [True, False])
def test_a_reply_goes_to_the_sender_by_id(house: House, api: Guest, web: Guest, live: bool) -> None:  # noqa: FBT001
    """N1, 8.1: of a message that is known, or was; never to one that has its name now."""
    asked = web.send(api, "which port?")["id"] if live else question(web, api)
    web.line.ask("rename", name="www")
    thief = house.join("web")
    sent = api.send("web", "8080", reply_to=asked)
    assert sent["to"]["id"] == web.id
    assert sent["notice"] == "A reply goes to who sent the original, www, not to web."
    assert thief.read() == []
    person = house.human()
    to_me = person.ask("send", to=api.id, message="how far?")["id"]
    assert api.send(None, "half", reply_to=to_me)["to"]["id"] == "human"


def test_a_reply_names_what_the_replier_got(house: House, api: Guest, web: Guest) -> None:
    """8.1: not what somebody else got, what it sent itself, or what was kept from it."""
    mine = question(api, web)
    held = web.send(house.join("careful", inbound="hold"), "hello")["id"]
    for original in (mine, held, "m-" + "0" * 32):
        assert refused(lambda original=original: api.send(None, "x", reply_to=original)).code == "not_found"  # type: ignore[misc]


def test_a_name_beside_a_reply_is_pinned_if_it_is_right(house: House, api: Guest, web: Guest) -> None:
    asked = question(web, api)
    assert api.send("web", "8080", reply_to=asked)["notice"] is not None
    assert api.session.pins == {"web": web.id}
    assert api.send("nobody", "8081", reply_to=asked)["to"]["id"] == web.id


@pytest.mark.parametrize("reply", [True, False])
def test_one_that_does_not_run_is_a_target_if_that_is_wanted(house: House, api: Guest, web: Guest, reply: bool) -> None:  # noqa: FBT001
    """11.1: refused by default, or what the settings say; kept; or resumed."""
    where = {"reply_to": question(web, api)} if reply else {"to": "web"}
    house.kill(web)
    refusal = refused(lambda: api.line.ask("send", message="1", **where))
    assert (refusal.code, [row["id"] for row in refusal.data["candidates"]]) == ("not_running", [web.id])
    assert "resume" in (refusal.hint or "")
    assert refused(lambda: api.line.ask("send", message="1", when_offline="refuse", **where)).code == "not_running"
    sent = api.line.ask("send", message="1", when_offline="queue", **where)
    assert (sent["state"], sent["notice"]) == ("queued", "web does not run; kept for when its conversation resumes.")
    house.change_settings(offline_default="queue")
    assert api.line.ask("send", message="2", **where)["state"] == "queued"
    house.change_settings(resume={})
    assert refused(lambda: api.line.ask("send", message="3", when_offline="resume", **where)).code == "unsupported_mode"
    assert "resume to start" not in (
        refused(lambda: api.line.ask("send", message="3", when_offline="refuse", **where)).hint or ""
    )


def test_one_that_has_no_conversation_is_never_a_target(house: House, api: Guest) -> None:
    other = house.join("other")
    house.kill(other)
    for wanted in ("refuse", "queue", "resume"):
        refusal = refused(lambda wanted=wanted: api.send("other", when_offline=wanted))  # type: ignore[misc]
        assert (refusal.code, refusal.hint) == ("not_running", None)


def test_one_that_is_forgotten_is_not_running_either(house: House, api: Guest, web: Guest) -> None:
    asked = question(web, api)
    house.kill(web)
    house.broker.core.roster.forget(web.session)
    refusal = refused(lambda: api.send(None, "8080", reply_to=asked, when_offline="queue"))
    assert (refusal.code, refusal.data["candidates"]) == ("not_running", [])


@pytest.mark.parametrize("reply", [True, False])
def test_one_that_was_resumed_is_who_was_meant(house: House, api: Guest, web: Guest, reply: bool) -> None:  # noqa: FBT001
    """Also if its name belongs to somebody else by then."""
    where = {"reply_to": question(web, api)} if reply else {"to": "web"}
    house.kill(web)
    asked = api.line.begin("send", message="1", when_offline="resume", **where)
    house.join("web")
    back = house.join("else", harness_session_id="talk-1")
    assert api.line.answer(asked)["to"]["id"] == back.id == web.id


TURNED, SHOWN = "we\u202eb\x1b[2J\nx", "we\\u202eb\\x1b[2J\\nx"


def test_what_a_caller_wrote_comes_back_as_text_to_look_at(house: House, api: Guest, web: Guest) -> None:
    """13.2: nothing in a refusal or a notice turns what stands around it, moves a cursor or begins a new line."""
    assert SHOWN in refused(lambda: api.send(TURNED)).text
    assert SHOWN in refused(lambda: api.send(f"{TURNED} [{web.ref[:-1]}f]")).text
    assert SHOWN in refused(lambda: api.send(None, "x", reply_to=TURNED)).text
    asked = question(web, api)
    house.join("other")
    api.send("other")
    notice = api.send(f"other\u202e [{house.join('third').ref}]", "y", reply_to=asked)["notice"]
    assert notice.startswith("A reply goes to who sent the original, web, not to other\\u202e [")
    assert api.send(f"o\u202e [{web.ref}]", "z")["notice"] == f"o\\u202e is now called web [{web.ref}]."

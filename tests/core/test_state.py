"""What the broker knows in one place, and how its parts ask for effects."""

from __future__ import annotations

from msgspec import UNSET

from tests.support.core_house import IDENTITY, House, peer
from xsessiond.core.effects import CheckPassphrase, CloseLink, FindMessage, LookUp, Persist, SendFrame, WriteLog
from xsessiond.core.errors import Refusal
from xsessiond.core.link import Link
from xsessiond.core.policy import CoreSettings
from xsessiond.core.records import DropPins
from xsessiond.core.state import Arrival, Caller, Core, Wire


def core() -> Core:
    return Core(IDENTITY, CoreSettings(), lambda size: bytes(size))


def test_effects_keep_the_order_in_which_they_were_asked_for() -> None:
    one = core()
    wire = Wire(7, None, peer(), Link())
    one.persist(DropPins("s-a"))
    one.answer(wire, 1, {"ok": True})
    one.refuse(wire, 2, Refusal("internal", "It broke.", "Look."))
    one.send(8, b"{}\n")
    one.close(8, "why")
    one.log("info", "what", n=1)
    one.ask(wire, 3, FindMessage("m-1"), lambda wire, found, now: None)
    kinds = [Persist, SendFrame, SendFrame, SendFrame, CloseLink, WriteLog, LookUp]
    assert [type(effect) for effect in one.out] == kinds
    assert one.out[0] == Persist(DropPins("s-a"))
    assert one.out[1] == SendFrame(7, b'{"jsonrpc":"2.0","id":1,"result":{"ok":true}}\n')
    assert isinstance(one.out[2], SendFrame)
    assert b'"code":-32000,"message":"It broke."' in one.out[2].frame
    assert one.out[4:6] == [CloseLink(8, "why"), WriteLog("info", "what", {"n": 1})]


def test_a_notification_is_answered_by_nothing() -> None:
    one = core()
    wire = Wire(7, None, peer(), Link())
    one.answer(wire, UNSET, {})
    one.refuse(wire, UNSET, Refusal("internal", "It broke."))
    assert one.out == []


def test_questions_are_told_apart() -> None:
    one = core()
    wire = Wire(7, None, peer(), Link())
    for number in (1, 2):
        one.ask(wire, number, FindMessage("m-1"), lambda wire, found, now: None)
    tickets = [effect.ticket for effect in one.out if isinstance(effect, LookUp)]
    assert len(set(tickets)) == 2
    assert {ticket: one.asked[ticket].request_id for ticket in tickets} == dict(zip(tickets, (1, 2), strict=True))


def test_the_last_warnings_are_kept() -> None:
    one = core()
    for number in range(25):
        one.warn(str(number))
    assert one.warnings == [str(number) for number in range(5, 25)]


def test_every_id_of_a_sender_or_a_receiver_has_its_owner() -> None:
    house = House()
    api = house.join("api")
    known = house.broker.core
    assert known.owner_of(api.id) is api.session
    assert known.owner_of("human") is known.human
    assert known.owner_of("script") is known.script
    assert known.owner_of("s-nobody") is None
    assert known.owner_of("") is None


def test_a_session_saves_itself_with_this_run_of_the_machine() -> None:
    house = House()
    api = house.join("api")
    house.broker.core.out = []
    house.broker.core.save(api.session)
    (effect,) = house.broker.core.out
    assert isinstance(effect, Persist)
    assert effect.op.row.boot_id == "boot-1"  # type: ignore[union-attr]
    assert effect.op.row.machine == "box"  # type: ignore[union-attr]


def test_only_a_session_is_a_session() -> None:
    one = core()
    assert Caller("session", one.human).is_session
    assert not Caller("human", one.human).is_session
    assert not Caller("script", one.script).is_session
    assert (one.human.name, one.script.name) == ("ann", "script")


def test_a_warning_is_kept_once() -> None:
    """At its last place."""
    one = core()
    for text in ("a", "b", "a"):
        one.warn(text)
    assert one.warnings == ["b", "a"]


def test_only_those_who_follow_are_told() -> None:
    house = House()
    one, line, other = house.broker.core, house.script(), house.script()
    one.out = []
    one.tell_followers("decision", {})
    line.ask("log", follow=True)
    one.out = []
    one.tell_followers("decision", {"id": "m-1"})
    (frame,) = one.out
    assert frame == SendFrame(line.link, b'{"jsonrpc":"2.0","method":"decision","params":{"id":"m-1"}}\n')
    assert other.link != line.link


def test_whoever_waits_to_become_a_session_is_turned_away_once() -> None:
    one = core()
    wire = one.wires[7] = Wire(7, None, peer(), Link())
    refusal = Refusal("not_running", "It ended.")
    one.turn_away("s-a", refusal)
    one.arrivals["s-a"] = Arrival(wire.link, 1, "token", resumed=False, notice=None)
    one.arrivals["s-b"] = Arrival(8, 1, "token", resumed=False, notice=None)
    for session_id in ("s-a", "s-a", "s-b"):
        one.turn_away(session_id, refusal)
    assert len(one.out) == 1
    assert one.arrivals == {}


def test_a_passphrase_that_is_checked_has_its_ticket() -> None:
    one = core()
    wire = Wire(7, None, peer(), Link())
    one.check_passphrase(wire, 1, "open sesame", lambda wire, now: None)
    (effect,) = one.out
    assert isinstance(effect, CheckPassphrase)
    assert (effect.text, one.proving[effect.ticket].request_id) == ("open sesame", 1)


def test_a_class_is_what_is_said_or_else_assumed() -> None:
    """4.3"""
    house = House(CoreSettings(assume_class={"gemini": "prompting"}))
    known = house.broker.core
    said = house.join("said", harness="gemini", **{"class": "bypass"})
    assumed = house.join("assumed", harness="gemini", **{"class": None})
    unknown = house.join("unknown", **{"class": None})
    classes = [known.class_of(guest.session) for guest in (said, assumed, unknown)]
    assert classes == ["bypass", "prompting", "unknown"]
    assert [known.shape(guest.session).perm_class for guest in (said, assumed, unknown)] == classes


def test_only_a_session_that_somebody_waits_for_is_stirred() -> None:
    house = House()
    api, web = house.join("api"), house.join("web", delivery="push")
    known = house.broker.core
    known.stir(web.session)
    assert known.stirred == {}
    api.watch(web)
    known.stir(web.session)
    known.stir(api.session)
    assert known.stirred == {web.id: web.session}

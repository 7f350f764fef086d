"""What the store did not take never was, and what is still true of it is stored later."""

from __future__ import annotations

from tests.support.core_house import House, refused
from xsessiond.core.effects import NotStored, Persist
from xsessiond.core.records import DropPins, MarkMessage, PutHold, PutMessage, PutWatch


def test_what_is_still_true_of_what_was_not_stored_is_stored_later(house: House) -> None:
    """A message, its key and its pin never were; a reply did not answer; what was read was read."""
    api, web = house.join("api"), house.join("web")
    sent = api.send(web.id, "which port?")
    (message,) = web.take()
    house.failing = lambda ops: True
    assert refused(lambda: web.send("api", "8080", reply_to=sent["id"])).code == "internal"
    assert refused(lambda: api.send("web", "two", key="k")).code == "internal"
    house.failing = lambda ops: False
    assert house.owed == [MarkMessage(1, message["id"], "delivered", house.ms)]
    house.join("third")
    assert house.owed == []
    assert house.state()["pins"] == {owner: {} for owner in house.state()["pins"]}
    assert [row.state for row in house.store.read_log(limit=9, since_ms=None, thread=None)] == ["delivered"]


def test_marks_of_a_message_that_was_not_stored_are_lost_with_it(house: House) -> None:
    """Should an event ever store a message and mark it."""
    api, web = house.join("api"), house.join("web")
    api.send(web)
    (row,) = house.store.load().messages
    ops = (PutMessage(row), MarkMessage(row.seq, row.id, "handed", 1), DropPins(api.id))
    effects = house.broker.handle(NotStored(ops, "The disk is full."), house.now)
    assert effects == [Persist(DropPins(api.id))]
    assert web.take() == []


def test_what_was_not_stored_of_a_hold_is_forgotten_or_owed(house: House) -> None:
    """A hold goes with its message; a release of one that is stored is still true."""
    api, web = house.join("api"), house.join("web", **{"class": "bypass"})
    house.failing = lambda ops: any(isinstance(op, PutHold) for op in ops)
    assert refused(lambda: api.send(web, "1")).code == "internal"
    assert house.owed == []
    house.failing = lambda ops: False
    sent = api.send(web, "2")
    mark = MarkMessage(1, sent["id"], "queued", house.ms, "human ann", "approved")
    gone = MarkMessage(9, "m-gone", "queued", house.ms, "human ann", "approved")
    effects = house.broker.handle(NotStored((mark, gone), "The disk is full."), house.now)
    assert [effect.op for effect in effects if isinstance(effect, Persist)] == [mark, gone]


def test_a_wish_to_be_told_that_was_not_stored_never_was(house: House) -> None:
    """One that only makes an earlier one last longer is still true."""
    api, web = house.join("api"), house.join("web", delivery="push")
    house.failing = lambda ops: any(isinstance(op, PutWatch) for op in ops)
    assert refused(lambda: api.watch(web)).code == "internal"
    assert (house.owed, house.broker.core.watches) == ([], {})
    house.failing = lambda ops: False
    api.watch(web)
    house.pass_time(1)
    house.failing = lambda ops: any(isinstance(op, PutWatch) for op in ops)
    assert refused(lambda: api.watch(web)).code == "internal"
    assert [type(op) for op in house.owed] == [PutWatch]


def test_status_tells_of_it(house: House) -> None:
    api, web = house.join("api"), house.join("web")
    house.failing = lambda ops: True
    assert refused(lambda: api.send(web)).code == "internal"
    assert api.line.ask("status")["store"] == {"ok": False, "detail": "The disk is full."}

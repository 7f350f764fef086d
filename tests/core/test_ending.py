"""The end of the broker: a stop, and a handover to a successor that was found first."""

from __future__ import annotations

import pytest

from tests.support.core_house import House, Line, Pending, is_sentence, peer, refused
from xsessiond.core import jsonrpc
from xsessiond.core.effects import FrameReceived, SendFrame, StopAsked, SuccessorFound
from xsessiond.core.wire import decode_frame


def stranger(house: House) -> Line:
    return house.connect(peer(90, terminal=True), hello=False)


# -- stopping ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "signal"])
def test_a_stop_says_goodbye_and_takes_nothing_new(house: House, how: str) -> None:
    """15.5: the answer comes first; sessions hear `bye`, and may still settle what they were given."""
    api, web = house.join("api"), house.join("web")
    waited = api.begin_send(web, "which port?", wait_reply=60)
    (message,) = web.take()
    before = stranger(house)
    if how == "stop":
        assert house.human().ask("stop") == {"stopping": True, "pid": 4711}
    else:
        house.handle(StopAsked("the service manager"))
    assert house.stopped == ("asked by a client" if how == "stop" else "the service manager")
    assert not house.handed_over
    assert api.line.notes[-1] == ("bye", {"reason": "stopping"})
    assert "not replied yet" in api.line.answer(waited)["notice"]
    late = house.connect(peer(90), hello=False)
    for line in (api.line, before, late):
        refusal = refused(lambda line=line: line.ask("list"))  # type: ignore[misc]
        assert (refusal.code, refusal.text) == ("no_broker", "The broker is stopping.")
        assert refusal.data["retry_after_s"] is None
        assert line.ask("status")["sessions"] == 2
    assert web.ack(message) == 1
    assert late.ask("stop")["stopping"]
    assert house.stopped is not None
    house.restart()
    web.come_back()
    assert web.take() == []


def test_status_and_stop_do_not_wait_for_the_disk(house: House) -> None:
    line = house.human()
    for method in ("status", "stop"):
        effects = house.broker.handle(FrameReceived(line.link, decode_frame(jsonrpc.request(1, method, {}))), house.now)
        frames = [effect for effect in effects if isinstance(effect, SendFrame)]
        assert [frame.urgent for frame in frames] == [True]


def test_a_stop_that_wants_no_answer_gets_none(house: House) -> None:
    line = house.human()
    line.tell("stop")
    assert house.stopped is not None


def test_who_watches_hears_of_the_end(house: House) -> None:
    """The log and the hold queue are followed by links that are no session's."""
    watcher, follower = house.human(), house.human()
    watcher.ask("hold_queue", watch=True)
    follower.ask("log", follow=True)
    bystander = house.human()
    house.handle(StopAsked("x"))
    assert watcher.notes == follower.notes == [("bye", {"reason": "stopping"})]
    assert bystander.notes == []


# -- handing over ------------------------------------------------------------------------------------------------------


def test_a_handover_needs_no_greeting_and_is_told_with_both_versions(house: House) -> None:
    """15.4, P9: any version of a client may ask; sessions hear that the broker comes back."""
    api = house.join("api")
    house.human().ask("log", follow=True)
    assert stranger(house).ask("restart") == {"restarting": True, "pid": 4711, "from": "0.1.0", "to": "0.2.0"}
    assert (house.stopped, house.handed_over) == ("a successor takes over", True)
    assert api.line.notes[-1] == ("bye", {"reason": "restarting"})


def test_while_it_hands_over_the_same_request_will_do_a_moment_later(house: House) -> None:
    """15.4: nothing is refused for good: the refusal says when."""
    api, web = house.join("api"), house.join("web")
    sent = api.send(web)
    (message,) = web.take()
    house.human().ask("restart")
    refusal = refused(lambda: api.send(web, "more"))
    assert (refusal.code, refusal.data["retry_after_s"]) == ("no_broker", 0.2)
    assert is_sentence(refusal.text)
    assert web.ack(message) == 1
    house.restart()
    api.come_back()
    web.come_back()
    assert web.take() == []
    assert api.line.ask("check", message_id=sent["id"])["state"] == "delivered"
    assert api.send(web, "more")["state"] == "queued"


def test_without_a_successor_everything_goes_on(house: House) -> None:
    """15.4: a broken installation, or a downgrade, costs nothing."""
    api, web = house.join("api"), house.join("web")
    house.successor = SuccessorFound(None, "The store was written by a newer xsessiond.")
    refusal = refused(lambda: house.human().ask("restart"))
    assert refusal.code == "refused"
    assert refusal.text == "The broker goes on as it was: The store was written by a newer xsessiond."
    assert house.stopped is None
    assert [log.what for log in house.logs if log.level == "error"] == ["no successor"]
    assert api.send(web)["state"] == "queued"
    house.successor = SuccessorFound("0.2.0")
    assert house.human().ask("restart")["restarting"]


def test_only_one_successor_is_looked_for(house: House) -> None:
    house.successor = None
    first, second = house.human(), house.human()
    asked = first.begin("restart")
    with pytest.raises(Pending):
        first.answer(asked)
    assert refused(lambda: second.ask("restart")).code == "no_broker"
    house.handle(SuccessorFound("0.2.0"))
    assert first.answer(asked)["restarting"]
    assert refused(lambda: second.ask("restart")).code == "no_broker"


@pytest.mark.parametrize("problem", [None, "It is broken."])
def test_who_asked_may_be_gone_when_a_successor_is_found(house: House, problem: str | None) -> None:
    house.successor = None
    line = house.human()
    line.begin("restart")
    line.drop()
    house.handle(SuccessorFound(None if problem else "0.2.0", problem))
    assert (house.stopped is None) == (problem is not None)


def test_a_stop_meanwhile_is_a_stop(house: House) -> None:
    house.successor = None
    line = house.human()
    line.begin("restart")
    house.handle(StopAsked("the service manager"))
    house.handle(SuccessorFound("0.2.0"))
    assert (house.stopped, house.handed_over) == ("the service manager", False)


@pytest.mark.parametrize("how", ["stop", "signal"])
def test_a_stop_in_the_middle_of_a_handover_is_a_stop(house: House, how: str) -> None:
    """15.5: else the manager's signal, or a person's word, would be lost: it is the same process that goes on."""
    api = house.join("api")
    line = house.human()
    line.ask("restart")
    assert house.handed_over
    if how == "stop":
        assert line.ask("stop") == {"stopping": True, "pid": 4711}
    else:
        house.handle(StopAsked("the service manager"))
    assert house.stopped == ("asked by a client" if how == "stop" else "the service manager")
    assert not house.handed_over
    assert api.line.notes[-2:] == [("bye", {"reason": "restarting"}), ("bye", {"reason": "stopping"})]
    refusal = refused(lambda: api.line.ask("list"))
    assert (refusal.text, refusal.data["retry_after_s"]) == ("The broker is stopping.", None)
    assert refused(lambda: line.ask("restart")).code == "no_broker"
    house.handle(StopAsked("again"))
    assert house.stopped != "again"


@pytest.mark.parametrize("method", ["stop", "restart"])
def test_an_agent_may_neither_stop_nor_restart_it(house: House, method: str) -> None:
    """5.2, 13: nor may a process below one."""
    api = house.join("api")
    for line in (api.line, api.shell()):
        assert refused(lambda line=line: line.ask(method)).code == "not_permitted"  # type: ignore[misc]
    assert house.stopped is None

"""What a sender is told later, by itself: once, after it has gone on, and never by waking anybody."""

from __future__ import annotations

import pytest

from tests.support.core_house import Answer, Guest, House, Line, is_sentence, refused
from xsessiond.core.receipts import MOST, RECEIVER_SENTENCES, SENTENCES
from xsessiond.core.state import CoreSettings

KEEP_S = 5


@pytest.fixture
def house() -> House:
    return House(CoreSettings(keep_ms=KEEP_S * 1000))


def told(line: Line) -> list[str]:
    return [receipt["text"] for receipt in line.ask("take", max=0)["receipts"]]


def expire(house: House, sender: Guest | Line, count: int = 1) -> list[Answer]:
    """Messages to a conversation that does not come back."""
    web = house.join("gone", harness_session_id=f"talk-{house.ms}")
    line = sender.line if isinstance(sender, Guest) else sender
    sent = [line.ask("send", to=web.id, message=f"{house.ms} {number}") for number in range(count)]
    house.kill(web)
    house.pass_time(KEEP_S + 1)
    return sent


def test_every_sentence_is_one() -> None:
    """6.4: for exactly the states that a sender must not miss; those that are on their way say not to send again."""
    assert set(SENTENCES) == {"expired", "refused", "denied", "discarded", "stalled", "queued", "released", "held"}
    for state, sentence in SENTENCES.items():
        text = sentence.format(id="m-1", to="web", why="because of this")
        assert is_sentence("The message " + text)
        assert ("because of this" in text) is (state in ("refused", "denied", "released"))
        if state in ("held", "stalled"):
            assert "Do not send it again." in text


def test_a_sender_hears_that_its_message_expired(house: House) -> None:
    """L1, 7.5: and the message's history says so with the rule."""
    api = house.join("api")
    (sent,) = expire(house, api)
    (receipt,) = api.line.ask("take")["receipts"]
    assert (receipt["id"], receipt["state"]) == (sent["id"], "expired")
    assert receipt["text"] == f"{sent['id']} to gone expired: it was not taken in time."
    assert set(receipt) == {"id", "state", "at", "text"}
    history = api.check(sent)["history"]
    assert [(step["state"], step["rule"]) for step in history] == [
        ("queued", "parity: the receiver asks before it acts"),
        ("expired", "offline.keep"),
    ]


def test_receipts_wake_nobody_and_cause_none(house: House) -> None:
    """R9, 6.4."""
    api = house.join("api", push=True)
    expire(house, api)
    assert api.line.pushes == []
    assert api.line.notes == [("news", {"receipts": 1, "wake": False})]
    before = house.state()["receipts"]
    told(api.line)
    told(api.line)
    assert before == {api.id: 1}
    assert house.state()["receipts"] == {}


def test_a_receipt_is_told_until_the_link_goes_on(house: House) -> None:
    """A shim that dies before its model saw it has been told nothing."""
    api = house.join("api")
    expire(house, api)
    assert len(told(api.line)) == 1
    api.line.drop()
    api.come_back()
    assert len(told(api.line)) == 1, "it did not go on"
    api.line.ask("list")
    assert house.state()["receipts"] == {api.id: 1}, "this is no step that shows what a model saw"
    assert told(api.line) == []
    assert house.state()["receipts"] == {}
    house.restart()
    api.come_back()
    assert told(api.line) == []


@pytest.mark.parametrize("step", ["take", "ack"])
def test_a_take_or_an_acknowledgement_is_going_on(house: House, step: str) -> None:
    api = house.join("api")
    expire(house, api)
    told(api.line)
    api.line.ask(step, **({"ids": []} if step == "ack" else {}))
    assert house.state()["receipts"] == {}


def test_what_one_link_was_told_confirms_nothing_for_another(house: House) -> None:
    """A receipt that came after it was told is still to be told."""
    api = house.join("api")
    first = api.line
    second = api.attach()
    expire(house, api, 2)
    assert len(told(first)) == len(told(second)) == 2
    first.ask("ack", ids=[])
    expire(house, api)
    second.ask("ack", ids=[])
    assert len(told(second)) == 1
    first.ask("ack", ids=[])
    assert house.state()["receipts"] == {api.id: 1}


def test_what_came_after_it_was_told_is_still_there_after_a_restart(house: House) -> None:
    api = house.join("api")
    expire(house, api)
    assert len(told(api.line)) == 1
    (late,) = expire(house, api)
    api.line.ask("ack", ids=[])
    house.restart()
    api.come_back()
    (text,) = told(api.line)
    assert late["id"] in text


def test_only_the_last_hundred_wait(house: House) -> None:
    """Also where the oldest of those that were told fell out meanwhile."""
    api = house.join("api")
    ids = []
    for _ in range(3):
        ids += [sent["id"] for sent in expire(house, api, 30)]
        house.pass_time(60)
    ids += [sent["id"] for sent in expire(house, api, 30)]
    texts = told(api.line)
    assert len(texts) == MOST
    assert [text.split()[0] for text in texts] == ids[-MOST:]
    house.pass_time(60)
    late = [sent["id"] for sent in expire(house, api, 10)]
    api.line.ask("ack", ids=[])
    assert [text.split()[0] for text in told(api.line)] == late


def test_receipts_outlive_the_broker(house: House) -> None:
    api = house.join("api")
    expire(house, api, 3)
    house.restart()
    api.come_back()
    texts = told(api.line)
    assert len(texts) == 3
    assert told(api.line) == []


def test_a_human_is_told_with_what_was_answered(house: House) -> None:
    line = house.human()
    expire(house, line)
    (text,) = told(line)
    assert "expired" in text
    assert told(line) == []


def test_a_script_has_gone_and_is_told_nothing(house: House) -> None:
    expire(house, house.script())
    assert house.state()["receipts"] == {}


def test_a_sender_that_is_not_known_any_more_is_told_nothing(house: House) -> None:
    api, web = house.join("api"), house.join("web", harness_session_id="talk")
    api.send(web)
    house.kill(web)
    house.kill(api)
    house.broker.core.roster.forget(api.session)
    house.pass_time(KEEP_S + 1)
    assert house.state()["receipts"] == {}


def test_what_was_handed_and_never_seen_is_reported_once(house: House) -> None:
    """6.3: after a minute, and W5."""
    api, web = house.join("api"), house.join("web")
    sent = api.send(web)
    web.line.ask("handed", ids=[web.take()[0]["id"]])
    house.pass_time(59.9)
    assert told(api.line) == []
    house.pass_time(0.1)
    (receipt,) = api.line.ask("take")["receipts"]
    assert (receipt["id"], receipt["state"]) == (sent["id"], "stalled")
    assert api.check(sent)["state"] == "handed"
    house.pass_time(600)
    assert told(api.line) == []
    assert web.ack(sent) == 1
    assert api.check(sent)["state"] == "delivered"


def test_what_is_acknowledged_in_time_is_not_reported(house: House) -> None:
    api, web = house.join("api"), house.join("web")
    api.send(web)
    (message,) = web.take()
    web.line.ask("handed", ids=[message["id"]])
    house.pass_time(59)
    web.ack(message)
    house.pass_time(60)
    assert told(api.line) == []


# -- held --------------------------------------------------------------------------------------------------------------


def held(house: House) -> tuple[Guest, Guest, Answer]:
    """A sender, a receiver, and a message between them that a human must decide about."""
    api, web = house.join("api", **{"class": "bypass"}), house.join("web")
    return api, web, api.send(web)


def test_a_receiver_hears_of_what_it_never_got(house: House) -> None:
    """5.4, H2: without the text; it can do nothing with it."""
    _, web, sent = held(house)
    house.deny(sent)
    (receipt,) = web.line.ask("take")["receipts"]
    assert (receipt["id"], receipt["state"]) == (sent["id"], "denied")
    assert receipt["text"] == "1 held message from api was denied by your user."
    assert refused(lambda: web.check(sent)).code == "not_found"
    for sentence in RECEIVER_SENTENCES.values():
        assert is_sentence("The user hears: " + sentence.format(name="api"))


def test_receipts_name_the_rule(house: House) -> None:
    """H6"""
    api, web, sent = held(house)
    web.change_class("bypass")
    assert told(api.line) == [f"{sent['id']} to web was released (parity: both act without asking) and is on its way."]


def test_a_receiver_that_ended_hears_of_it_when_it_resumes(house: House) -> None:
    """A script that sent something hears nothing: it has gone."""
    daring = house.join("daring", **{"class": "bypass"})
    sent = house.script().ask("send", to=daring.id, message="hello")
    house.kill(daring)
    house.deny(sent)
    assert list(house.state()["receipts"]) == [daring.id]


def test_receipts_of_two_kinds_keep_their_order(house: House) -> None:
    api, web, sent = held(house)
    house.deny(sent)
    back = web.send(api)
    house.deny(back)
    assert [text.split()[-1] for text in told(web.line)] == ["user.", "given."]


# -- that they wait ----------------------------------------------------------------------------------------------------


def news(line: Line) -> list[Answer]:
    return [params for method, params in line.notes if method == "news"]


def test_a_session_hears_once_that_receipts_began_to_wait(house: House) -> None:
    """6.4: each of its links, and again only for what comes after it has looked."""
    api = house.join("api")
    hook = house.connect(api.peer, door=api.id)
    hook.ask("attach", token=api.token)
    expire(house, api, count=3)
    assert news(api.line) == news(hook) == [{"receipts": 1, "wake": False}]
    told(api.line)
    expire(house, api)
    assert len(news(hook)) == 1, "that one has not looked"
    assert news(api.line)[1:] == [{"receipts": 4, "wake": False}]
    told(api.line)
    told(api.line)
    expire(house, api)
    assert len(news(api.line)) == 3
    assert news(hook)[1:] == [{"receipts": 1, "wake": False}]


def test_a_link_that_attaches_hears_what_waits_already(house: House) -> None:
    """Also after a restart of the broker."""
    api = house.join("api")
    expire(house, api)
    house.restart()
    api.come_back()
    assert news(api.line) == [{"receipts": 1, "wake": False}]
    told(api.line)
    told(api.line)
    api.line.drop()
    api.come_back()
    assert news(api.line) == []


def test_what_a_session_asked_to_be_woken_for_says_so(house: House) -> None:
    """And is told each time, whatever else waits, over a restart too."""
    api = house.join("api")
    expire(house, api)
    receipts = house.broker._receipts
    for number in range(2):
        house.broker.core.out = []
        receipts.tell(api.id, "", "idle", f"web is idle, {number}.", house.now, wake=True)
        house._do(house.broker.core.out)
    assert news(api.line) == [{"receipts": count, "wake": count > 1} for count in (1, 2, 3)]
    house.restart()
    api.come_back()
    assert news(api.line) == [{"receipts": 3, "wake": True}]
    shown = api.line.ask("take", max=0)["receipts"]
    assert [(receipt["id"] is None, receipt["state"]) for receipt in shown] == [
        (False, "expired"),
        (True, "idle"),
        (True, "idle"),
    ]


def test_what_wakes_is_acted_on_once_it_is_shown(house: House) -> None:
    """10.2: whatever else is told causes nothing."""
    api = house.join("api")
    expire(house, api)
    told(api.line)
    assert api.session.causes.find(house.mono) is None
    house.broker.core.out = []
    house.broker._receipts.tell(api.id, "s-1", "idle", "web is idle now.", house.now, wake=True, hop=5)
    house._do(house.broker.core.out)
    assert api.session.causes.find(house.mono) is None
    told(api.line)
    cause = api.session.causes.find(house.mono)
    assert cause is not None
    assert (cause.message_id, cause.hop) == ("s-1", 5)


def test_the_human_has_no_link_to_hear_it(house: House) -> None:
    human = house.human()
    expire(house, human)
    assert human.notes == []
    assert len(told(human)) == 1

"""Waiting for a reply: the wait ends once, the message goes on."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.core_house import Answer, Guest, House, Line, Pending, is_sentence, refused
from xsessiond.core.limits import MAX_WAIT_S


def reply_to(guest: Guest, text: str = "answer") -> Answer:
    """The guest takes what waits and answers the last of it."""
    question = guest.take()[-1]
    guest.ack(question)
    return guest.send(None, text, reply_to=question["id"])


def test_the_reply_comes_in_the_answer_to_the_send(api: Guest, web: Guest) -> None:
    """8.2: as a message that is leased to the link, to be acknowledged like any other."""
    asked = api.begin_send(web, "which port?", wait_reply=60)
    with pytest.raises(Pending):
        api.line.answer(asked)
    sent = reply_to(web, "8080")
    answer = api.line.answer(asked)
    assert (answer["state"], answer["notice"]) == ("replied", None)
    assert answer["reply"]["id"] == sent["id"]
    assert (answer["reply"]["text"], answer["reply"]["from_name"]) == ("8080", "web")
    message = answer["reply"]["message"]
    assert (message["text"], message["reply_to"]) == ("8080", answer["id"])
    assert api.take() == [], "it does not come a second time"
    assert api.ack(message) == 1
    assert web.check(sent)["state"] == "delivered"
    assert api.check(answer)["state"] == "replied"


def test_a_reply_that_is_not_acknowledged_comes_as_a_message(api: Guest, web: Guest) -> None:
    """W9: the client that got it died before its model saw it."""
    api.begin_send(web, "which port?", wait_reply=60)
    sent = reply_to(web, "8080")
    api.line.drop()
    api.come_back()
    assert [message["id"] for message in api.take()] == [sent["id"]]


@pytest.mark.parametrize("seconds, waited", [(0.5, 0.5), (60, 60), (120, 120), (1e9, MAX_WAIT_S), (-5, 0)])
def test_a_wait_ends_in_time(house: House, api: Guest, web: Guest, seconds: float, waited: float) -> None:
    """8.2: with what became of the message, and a word against sending it again; the reply comes later."""
    asked = api.begin_send(web, "which port?", wait_reply=seconds)
    if waited:
        house.pass_time(waited - 0.001)
        assert not api.line.is_answered(asked)
    web.read()
    house.pass_time(0.001)
    answer = api.line.answer(asked)
    assert (answer["state"], answer["reply"]) == ("delivered", None)
    assert answer["notice"] == "delivered, not replied yet; the reply comes as a message. Do not send again."
    web.send(None, "8080", reply_to=answer["id"])
    assert api.read() == ["8080"]
    house.pass_time(500)


@pytest.mark.parametrize(
    "step, state", [(None, "queued"), ("take", "queued"), ("handed", "handed"), ("ack", "delivered")]
)
def test_the_end_of_a_wait_tells_the_state(house: House, api: Guest, web: Guest, step: str | None, state: str) -> None:
    asked = api.begin_send(web, "which port?", wait_reply=5)
    if step is not None:
        ids = [message["id"] for message in web.take()]
        if step != "take":
            web.line.ask(step, ids=ids)
    house.pass_time(5)
    assert api.line.answer(asked)["state"] == state


def test_no_wait_of_no_seconds(api: Guest, web: Guest) -> None:
    assert api.send(web, "x", wait_reply=0)["state"] == "queued"
    assert api.send(web, "y", wait_reply=None)["state"] == "queued"


def test_whoever_wants_no_answer_does_not_wait(house: House, api: Guest, web: Guest) -> None:
    api.line.tell("send", to="web", message="which port?", wait_reply=60)
    assert house.broker.core.waits == {}
    reply_to(web, "8080")
    assert api.read() == ["8080"]


def test_a_wait_can_be_given_up(house: House, api: Guest, web: Guest) -> None:
    """8.2: aborting the call ends the wait, not the message."""
    asked = api.begin_send(web, "which port?", wait_reply=60)
    other = api.begin_send(web, "which host?", wait_reply=60)
    web.line.ask("cancel", id=asked)
    assert not api.line.is_answered(asked), "it is not somebody else's to end"
    assert api.line.ask("cancel", id=asked) == {}
    assert api.line.answer(asked)["notice"].startswith("queued, not replied yet")
    assert not api.line.is_answered(other)
    api.line.ask("cancel", id=asked)
    api.line.ask("cancel", id="never")
    assert web.read() == ["which port?", "which host?"]
    house.pass_time(100)
    assert api.line.is_answered(other)


def test_a_link_that_is_gone_waits_no_more(house: House, api: Guest, web: Guest) -> None:
    asked = api.begin_send(web, "which port?", wait_reply=60)
    line = api.line
    api.line.drop()
    assert house.broker.core.waits == {}
    api.come_back()
    reply_to(web, "8080")
    assert api.read() == ["8080"]
    house.pass_time(100)
    assert not line.is_answered(asked)


def test_a_reply_does_not_overtake_what_its_sender_sent_before(house: House, api: Guest, web: Guest) -> None:
    """7.3: the wait is over at once, and both come in order."""
    asked = api.begin_send(web, "which port?", wait_reply=60)
    web.send(api, "one moment")
    sent = reply_to(web, "8080")
    answer = api.line.answer(asked)
    assert (answer["state"], answer["reply"]) == ("replied", None)
    assert "web replied" in answer["notice"]
    assert api.read() == ["one moment", "8080"]
    assert web.check(sent)["state"] == "delivered"
    house.pass_time(100)


def test_mail_of_others_does_not_hold_a_reply_up(house: House, api: Guest, web: Guest) -> None:
    other = house.join("other")
    asked = api.begin_send(web, "which port?", wait_reply=60)
    other.send(api, "by the way")
    reply_to(web, "8080")
    assert api.line.answer(asked)["reply"]["text"] == "8080"
    assert api.read() == ["by the way"]


def test_only_the_reply_ends_the_wait(api: Guest, web: Guest) -> None:
    asked = api.begin_send(web, "which port?", wait_reply=60)
    web.send(api, "by the way")
    assert not api.line.is_answered(asked)
    assert api.read() == ["by the way"]
    reply_to(web, "8080")
    assert api.line.answer(asked)["reply"]["text"] == "8080"


def test_two_waits_are_told_apart(api: Guest, web: Guest) -> None:
    first, second = (api.begin_send(web, text, wait_reply=60) for text in ("one?", "two?"))
    one, two = web.take()
    web.ack(one, two)
    web.send(None, "second", reply_to=two["id"])
    web.send(None, "first", reply_to=one["id"])
    assert api.line.answer(first)["reply"]["text"] == "first"
    assert api.line.answer(second)["reply"]["text"] == "second"


def test_a_session_that_ends_waits_no_more(house: House, api: Guest, web: Guest) -> None:
    """Its link is closed; a reply to it is not leased to a link that nobody reads."""
    asked = api.begin_send(web, "which port?", wait_reply=60)
    house.kill(api)
    assert not api.line.is_answered(asked)
    assert house.broker.core.waits == {}


def test_a_message_that_expires_ends_the_wait_with_that(house: House) -> None:
    house = House(house.settings.__class__(keep_ms=5_000))
    api, web = house.join("api"), house.join("web", harness_session_id="talk")
    house.kill(web)
    asked = api.begin_send("web", "which port?", wait_reply=60, when_offline="queue")
    api.send("web", "nobody waits for this one", when_offline="queue")
    house.pass_time(6)
    answer = api.line.answer(asked)
    assert (answer["state"], answer["notice"][:25]) == ("expired", "expired, not replied yet;")


def test_a_broken_store_leaves_no_wait(house: House, api: Guest, web: Guest) -> None:
    house.failing = lambda ops: True
    asked = api.begin_send(web, "which port?", wait_reply=60)
    refusal = refused(lambda: api.line.answer(asked))
    assert refusal.code == "internal"
    assert is_sentence(refusal.text)
    assert refused(lambda: api.send(web, "nobody waits for this one")).code == "internal"
    assert house.broker.core.waits == {}
    house.failing = lambda ops: False
    house.pass_time(100)


# -- those who are no session's own link -------------------------------------------------------------------------------


def human(house: House, _: Guest) -> Line:
    return house.human()


def shell(_: House, api: Guest) -> Line:
    return api.shell()


def script(house: House, _: Guest) -> Line:
    return house.script()


@pytest.mark.parametrize("who", [human, shell, script])
@pytest.mark.parametrize("acknowledged", [True, False])
def test_a_command_line_waits_and_acknowledges_what_it_printed(
    house: House,
    api: Guest,
    web: Guest,
    who: object,
    acknowledged: bool,  # noqa: FBT001
) -> None:
    """`send --wait` on the rendezvous: what it does not acknowledge waits again when it ends, and is not lost."""
    assert callable(who)
    line: Line = who(house, api)
    asked = line.begin("send", to="web", message="which port?", wait_reply=60)
    sent = reply_to(web, "8080")
    reply = line.answer(asked)["reply"]
    assert reply["text"] == "8080"
    if acknowledged:
        assert line.ask("ack", ids=[reply["id"]])["acked"] == 1
    line.drop()
    assert web.check(sent)["state"] == ("delivered" if acknowledged else "queued")
    box = api.take() if who is shell else house.human().ask("take")["messages"]
    assert [message["text"] for message in box] == ([] if acknowledged else ["8080"])


def test_old_mail_of_a_human_does_not_hold_a_new_reply_up(house: House, web: Guest) -> None:
    """A person's box is read by people, not by one conversation: each command gets its own reply."""
    other = house.join("other")
    line = house.human()
    line.ask("send", to="other", message="an old question")
    reply_to(other, "an old answer")
    asked = line.begin("send", to="web", message="which port?", wait_reply=60)
    reply_to(web, "8080")
    assert line.answer(asked)["reply"]["text"] == "8080"


# -- many at once ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_twenty_waits_that_are_cancelled_at_random_leak_nothing(seed: int) -> None:
    """8.2: each reply comes once, in the answer or as a message, whatever became of its wait; and nothing is left of
    any: no wait, no deadline, no lease, no message."""
    random = Random(seed)
    house = House()
    askers = [house.join(f"asks-{number}") for number in range(4)]
    answerers = [house.join(f"answers-{number}") for number in range(4)]
    waits = [(asker, other, asker.begin_send(other, f"{number}?", wait_reply=60))
             for number in range(5) for asker in askers for other in [answerers[number % 4]]]  # fmt: skip
    questions = {id(other): other.take() for other in answerers}
    for other in answerers:
        other.ack(*questions[id(other)])
    things: list[tuple[str, int]] = [("reply", number) for number in range(len(waits))]
    things += [("cancel", number) for number in random.sample(range(len(waits)), 12)]
    random.shuffle(things)
    replied: set[str] = set()
    for what, number in things:
        asker, other, asked = waits[number]
        if what == "cancel":
            asker.line.ask("cancel", id=asked)
            assert asker.line.is_answered(asked)
            continue
        (question,) = [
            one for one in questions[id(other)] if (one["text"], one["from"]["id"]) == (f"{number // 4}?", asker.id)
        ]
        replied.add(other.send(None, f"{number}!", reply_to=question["id"])["id"])
        if random.random() < 0.2:
            house.pass_time(70)  # all that still wait are told so
    got: list[str] = []
    for asker, _, asked in waits:
        reply = asker.line.answer(asked)["reply"]
        if reply is not None:
            got.append(reply["id"])
            assert asker.ack(reply["id"]) == 1
    for asker in askers:
        messages = asker.take()
        asker.ack(*messages)
        got += [message["id"] for message in messages]
    assert len(got) == len(waits) == 20
    assert set(got) == replied
    core = house.broker.core
    assert (core.waits, core.told_of, core.messages, core.asked) == ({}, {}, {}, {})
    assert not [key for key in core.agenda._due if key[0] == "wait"]
    assert not any(wire.borrowed or wire.outstanding for wire in core.wires.values())
    assert not any(len(session.box) for session in core.roster.known.values())

"""From a request to a message in its receiver's box, or to a refusal that stored nothing."""

from __future__ import annotations

from hashlib import sha256

import pytest

from tests.support.core_house import Answer, Guest, House, is_sentence, refused
from xsessiond.core.effects import Prune
from xsessiond.core.limits import QUEUE_BYTES_PER_SESSION
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.records import MarkMessage, PutMessage
from xsessiond.core.sending import IN_TURN, NOTICES
from xsessiond.core.state import CoreSettings

DAY = 24 * 3600


def question(sender: Guest, receiver: Guest, text: str = "which port?") -> Answer:
    sender.send(receiver, text)
    message = receiver.take()[-1]
    receiver.ack(message)
    return message


# -- acceptance --------------------------------------------------------------------------------------------------------


def test_an_accepted_message_is_stored_before_its_answer(house: House, api: Guest, web: Guest) -> None:
    """3.2, 3.3, 3.5: the answer is honest, and sizes and sums agree at both ends."""
    text = "grüße"
    answer = api.send("web", text, summary="s")
    assert answer["state"] == "queued"
    assert (answer["bytes"], answer["sha256"]) == (7, sha256(text.encode()).hexdigest())
    assert (answer["rule"], answer["expires_at"], answer["reply"]) == (
        "parity: the receiver asks before it acts",
        None,
        None,
    )
    (row,) = house.store.load().messages
    assert (row.id, row.body, row.sender_id, row.target_id, row.thread) == (answer["id"], text, api.id, web.id, row.id)
    assert (row.sender_harness, row.sender_cwd, row.hop, row.mode) == ("codex", "/src/app", 0, "auto")
    (message,) = web.take()
    assert (message["bytes"], message["sha256"], message["summary"]) == (7, answer["sha256"], "s")


def test_the_sender_is_who_the_broker_finds_it_to_be(house: House, api: Guest, web: Guest) -> None:
    """2.7, 3.7, N15: whatever the request says."""
    api.line.ask("send", to="web", message="1", **{"from": web.id, "sender": "human", "kind": "human"})
    api.shell().ask("send", to="web", message="2")
    house.human().ask("send", to="web", message="3")
    house.script().ask("send", to="web", message="4")
    origins = [(message["from"]["kind"], message["from"]["id"], message["from"]["name"]) for message in web.take()]
    assert origins == [
        ("session", api.id, "api"),
        ("session", api.id, "api"),
        ("human", None, "ann"),
        ("script", None, "script"),
    ]


@pytest.mark.parametrize("delivery", ["push", "turn", "pull", "none"])
def test_a_sender_knows_before_long_when_it_is_read(house: House, api: Guest, delivery: str) -> None:
    """7.1, W16."""
    web = house.join("web", delivery=delivery)
    assert api.send(web)["notice"] == NOTICES.get(delivery)
    assert all(is_sentence(notice) for notice in NOTICES.values())


def test_the_pair_is_numbered_on_whatever_happens(house: House) -> None:
    """L7: over reads, restarts and pruning, for sessions, people and scripts alike."""
    house = House(CoreSettings(pacing=PaceSettings(duplicate_window=0)))
    api, web, other = house.join("api"), house.join("web"), house.join("other")
    for expected in range(1, 5):
        senders = [api.line, house.human(), house.script(), other.line]
        for line in senders:
            line.ask("send", to=web.id, message="x")
        messages = web.take()
        assert [message["seq"] for message in messages] == [expected] * 4
        web.ack(*messages)
        if expected % 2:
            house.restart()
            house.store.prune(older_than_ms=house.ms + 1)
            for guest in (api, web, other):
                guest.come_back()
    api.send(other)
    assert [message["seq"] for message in other.take()] == [1]


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params, code",
    [
        ({"to": "nobody"}, "not_found"),
        ({"to": "api"}, "self_target"),
        ({"to": " "}, "usage"),
        ({}, "usage"),
        ({"to": "web", "mode": "steer"}, "unsupported_mode"),
        ({"to": "web", "mode": "inject"}, "unsupported_mode"),
        ({"to": "web", "mode": "followup"}, "unsupported_mode"),
        ({"to": "gone"}, "not_running"),
        ({"to": "gone", "when_offline": "queue"}, "not_running"),
        ({"to": "nobody", "when_offline": "queue"}, "not_found"),
        ({"reply_to": "m-" + "0" * 32}, "not_found"),
        ({"reply_to": "x" * 10_000}, "not_found"),
        ({"to": "web", "reply_to": "nonsense"}, "not_found"),
    ],
)
@pytest.mark.parametrize("key", [None, "k"])
def test_a_refusal_stores_nothing(
    house: House, api: Guest, web: Guest, params: Answer, code: str, key: str | None
) -> None:
    """N6, N7, N15: and says what happened and what to do next."""
    house.kill(house.join("gone"))
    before = house.state()
    refusal = refused(lambda: api.line.ask("send", message="hello", **params, key=key))
    assert refusal.code == code
    assert is_sentence(refusal.text)
    assert len(refusal.text) < 500
    assert refusal.hint is None or is_sentence(refusal.hint)
    assert house.state() == before
    assert web.take() == []


def test_a_sender_knows_what_a_followup_waits_for(house: House, api: Guest) -> None:
    web = house.join("web", modes=["auto", "followup"], delivery="push")
    for phase, notice in (("started", IN_TURN), ("ended", None)):
        web.line.tell("turn", phase=phase)
        assert api.send(web, phase, mode="followup")["notice"] == notice
    web.line.tell("turn", phase="started")
    assert api.send(web, "1")["notice"] is None


def test_a_mode_that_the_receiver_has_goes(house: House, api: Guest) -> None:
    """3.6: never downgraded in silence; what it can do instead is named."""
    web = house.join("web", modes=["auto", "followup", "steer"])
    web.line.tell("turn", phase="ended")
    assert api.send(web, "1", mode="followup")["state"] == "queued"
    assert web.take()[0]["mode"] == "followup"
    for mode in ("steer", "inject"):
        refusal = refused(lambda mode=mode: api.send(web, "2", mode=mode))  # type: ignore[misc]
        assert refusal.code == "unsupported_mode"
        assert is_sentence(refusal.text)
        assert refusal.hint == "It can: auto, followup."


@pytest.mark.parametrize("waiting, goes", [(48, True), (49, True), (50, False)])
def test_fifty_wait_for_one_receiver(waiting: int, goes: bool) -> None:  # noqa: FBT001
    """10.5: leased ones count, since nobody is known to have them; a newcomer is refused, nobody is evicted."""
    house = House(CoreSettings(pacing=PaceSettings(target_burst=0, sender_burst=0)))
    api, web = house.join("api"), house.join("web")
    for number in range(waiting):
        api.send(web, str(number))
    web.take(max=20)
    before = house.state()
    if goes:
        assert api.send(web, "one more")["state"] == "queued"
        return
    refusal = refused(lambda: api.send(web, "one more"))
    assert (refusal.code, refusal.data["detail"]) == ("queue_full", {"queued": 50})
    assert house.state() == before
    web.read()
    assert api.send(web, "one more")["state"] == "queued"


def test_bytes_that_wait_are_bounded_too() -> None:
    house = House(CoreSettings(pacing=PaceSettings(target_burst=0, sender_burst=0)))
    api, web = house.join("api"), house.join("web")
    size = QUEUE_BYTES_PER_SESSION // 17
    for number in range(17):
        api.send(web, f"{number:02}" + "x" * (size - 2))
    left = QUEUE_BYTES_PER_SESSION - 17 * size
    assert refused(lambda: api.send(web, "x" * (left + 1))).code == "queue_full"
    assert api.send(web, "x" * left)["state"] == "queued"


def test_thirty_go_at_once_to_one_target(house: House, api: Guest, web: Guest) -> None:
    """10.1, R4: refused at once, with a time that is enough; nothing is stored; another name buys nothing (10.6)."""
    for number in range(30):
        api.send(web, str(number))
    before = house.state()
    refusal = refused(lambda: api.send(web, "30"))
    assert (refusal.code, refusal.data["retry_after_s"]) == ("rate_limited", 2.0)
    assert "to web" in refusal.text
    assert "Wait 2 s" in (refusal.hint or "")
    assert house.state() == before
    api.line.ask("rename", name="another")
    api.line.drop()
    api.come_back()
    house.pass_time(1.96)
    refusal = refused(lambda: api.send(web, "30"))
    assert refusal.data["retry_after_s"] == 0.1
    assert "Wait 1 s" in (refusal.hint or "")
    house.pass_time(0.1)
    assert api.send(web, "30")["state"] == "queued"


def test_sixty_go_at_once_in_all(house: House, api: Guest, web: Guest) -> None:
    other, third = house.join("other"), house.join("third")
    for number in range(30):
        api.send(web, str(number))
        api.send(other, str(number))
    refusal = refused(lambda: api.send(third, "x"))
    assert (refusal.code, refusal.data["retry_after_s"]) == ("rate_limited", 1.0)
    assert "in all" in refusal.text


def test_two_people_have_one_pace_and_a_script_another(house: House, web: Guest) -> None:
    for number in range(30):
        house.human().ask("send", to="web", message=str(number))
    assert refused(lambda: house.human().ask("send", to="web", message="x")).code == "rate_limited"
    assert house.script().ask("send", to="web", message="x")["state"] == "queued"


def test_only_a_session_has_subagents(house: House, web: Guest) -> None:
    """1.9"""
    house.script().ask("send", to="web", message="x", subagent=True)
    assert "subagent" not in web.take()[0]["from"]


# -- replies -----------------------------------------------------------------------------------------------------------


def test_a_reply_goes_to_who_sent_the_original(house: House, api: Guest, web: Guest) -> None:
    """N1, 8.1: by id, whatever names do meanwhile; never to one of a like name."""
    message = question(api, web)
    api.line.ask("rename", name="backend")
    house.join("api")
    answer = web.send(None, "8080", reply_to=message["id"])
    assert answer["to"]["id"] == api.id
    assert [(got["text"], got["reply_to"]) for got in api.take()] == [("8080", message["id"])]
    assert api.check(message)["state"] == "replied"


@pytest.mark.parametrize("to, told", [("third", True), ("api", False), ("nobody", False)])
def test_an_address_beside_a_reply_is_not_followed(house: House, api: Guest, web: Guest, to: str, told: bool) -> None:  # noqa: FBT001
    house.join("third")
    message = question(api, web)
    answer = web.send(to, "8080", reply_to=message["id"])
    assert answer["to"]["id"] == api.id
    assert ("A reply goes to who sent the original" in (answer["notice"] or "")) == told


def test_replies_form_a_thread(house: House, api: Guest, web: Guest) -> None:
    """8.5"""
    first = question(api, web)
    second = web.send(None, "8080", reply_to=first["id"])
    api.read()
    api.send(None, "and the host?", reply_to=second["id"])
    rows = house.store.read_log(limit=10, since_ms=None, thread=first["id"])
    assert [row.body for row in rows] == ["which port?", "8080", "and the host?"]


@pytest.mark.parametrize("step", ["nothing", "taken", "handed", "acknowledged", "restarted"])
def test_a_reply_shows_that_its_original_was_read(house: House, api: Guest, web: Guest, step: str) -> None:
    """6: even if the acknowledgement was lost; the history is legal by the table."""
    sent = api.send(web, "which port?")
    if step != "nothing":
        (message,) = web.take()
    if step == "handed":
        web.line.ask("handed", ids=[message["id"]])
    if step == "acknowledged":
        web.ack(message)
    if step == "restarted":
        house.restart()
        web.come_back()
        api.come_back()
    house.pass_time(1)
    web.send(None, "8080", reply_to=sent["id"])
    states = [one["state"] for one in api.check(sent)["history"]]
    assert states == ["queued", *(["handed"] if step == "handed" else []), "delivered", "replied"]
    assert web.take() == []
    web.send(None, "or 8081", reply_to=sent["id"])
    assert [one["state"] for one in api.check(sent)["history"]] == states
    house.pass_time(120)
    assert api.line.ask("take")["receipts"] == []


def test_a_pushed_message_that_is_answered_frees_its_place(house: House, api: Guest) -> None:
    pushy = house.join("pushy", push=True)
    api.send(pushy, "which port?")
    message = pushy.line.pushes[0]["message"]
    pushy.send(None, "8080", reply_to=message["id"])
    assert house.broker.core.wires[pushy.line.link].outstanding == {}
    assert pushy.line.ask("ack", upto=1)["acked"] == 0


def test_only_its_receiver_replies_to_a_message(house: House, api: Guest, web: Guest) -> None:
    """Also not its sender, and not to what it never got."""
    other = house.join("other")
    message = question(api, web)
    for guest in (other, api):
        assert refused(lambda guest=guest: guest.send(None, "x", reply_to=message["id"])).code == "not_found"  # type: ignore[misc]
    assert refused(lambda: house.human().ask("send", message="x", reply_to=message["id"])).code == "not_found"


def test_what_was_never_delivered_cannot_be_answered() -> None:
    house = House(CoreSettings(keep_ms=1000))
    api, web = house.join("api"), house.join("web", harness_session_id="talk")
    sent = api.send(web, "which port?")
    house.kill(web)
    house.pass_time(2)
    again = house.join("web", harness_session_id="talk")
    assert refused(lambda: again.send(None, "8080", reply_to=sent["id"])).code == "not_found"
    assert api.check(sent)["state"] == "expired"


@pytest.mark.parametrize("kind", ["human", "script"])
def test_a_reply_to_a_person_or_a_script_waits_for_the_person(house: House, api: Guest, kind: str) -> None:
    line = house.human() if kind == "human" else house.script()
    line.ask("send", to="api", message="which port?")
    (message,) = api.take()
    api.ack(message)
    answer = api.send(None, "8080", reply_to=message["id"])
    assert (answer["to"]["id"], answer["state"]) == ("human", "queued")
    reader = house.human()
    (reply,) = reader.ask("take")["messages"]
    again = reader.ask("send", message="thank you", reply_to=reply["id"])
    assert again["to"]["id"] == api.id


@pytest.mark.parametrize("known", [True, False])
def test_a_reply_to_a_conversation_that_ended(house: House, api: Guest, web: Guest, known: bool) -> None:  # noqa: FBT001
    """N1: it fails, or is kept for it; never goes to somebody else."""
    message = question(api, web)
    house.kill(api)
    if not known:
        house.broker.core.roster.forget(api.session)
    house.join("api")
    refusal = refused(lambda: web.send(None, "8080", reply_to=message["id"]))
    assert refusal.code == "not_running"
    assert len(refusal.data["candidates"]) == known
    assert refusal.hint is None


def test_a_reply_may_be_kept_for_a_conversation_that_resumes(house: House, web: Guest) -> None:
    api = house.join("api", harness_session_id="talk")
    message = question(api, web)
    house.kill(api)
    assert "queue" in (refused(lambda: web.send(None, "8080", reply_to=message["id"])).hint or "")
    answer = web.send(None, "8080", reply_to=message["id"], when_offline="queue")
    assert "kept for when its conversation resumes" in answer["notice"]
    assert house.join(harness_session_id="talk").read() == ["8080"]


def test_a_message_may_be_kept_for_a_conversation_that_resumes(house: House, api: Guest) -> None:
    """11.1: under every address that means it; it is said that it does not run."""
    web = house.join("web", harness_session_id="talk")
    house.kill(web)
    for number, address in enumerate(["web", web.ref, web.id, f"web [{web.ref}]", "talk"]):
        answer = api.send(address, str(number), when_offline="queue")
        assert (answer["to"]["id"], answer["state"]) == (web.id, "queued")
        assert answer["notice"] == "web does not run; kept for when its conversation resumes."
    assert house.join(harness_session_id="talk").read() == list("01234")


def test_what_is_kept_for_a_conversation_keeps_the_conversation(house: House, api: Guest) -> None:
    """L1: one that ended so long ago that pruning had taken it from the store."""
    web = house.join("web", harness_session_id="talk")
    house.kill(web)
    house.pass_time(8 * DAY)
    house.store.prune(older_than_ms=house.ms - 7 * DAY * 1000)
    assert api.send(web.id, "one", when_offline="queue")["state"] == "queued"
    house.restart()
    assert house.join(harness_session_id="talk").read() == ["one"]


@pytest.mark.parametrize(
    "setting, asked, kept",
    [("refuse", None, False), ("refuse", "queue", True), ("queue", None, True), ("queue", "refuse", False)],
)
def test_what_becomes_of_it_without_a_word_is_a_setting(setting: str, asked: str | None, kept: bool) -> None:  # noqa: FBT001
    house = House(CoreSettings(offline_default=setting))  # type: ignore[arg-type]
    api, web = house.join("api"), house.join("web", harness_session_id="talk")
    house.kill(web)
    if kept:
        assert api.send("web", when_offline=asked)["state"] == "queued"
    else:
        assert refused(lambda: api.send("web", when_offline=asked)).code == "not_running"


def test_the_same_text_a_moment_later_is_refused(house: House, api: Guest, web: Guest) -> None:
    api.send(web, "one")
    assert refused(lambda: api.send("web", "one")).code == "duplicate"
    assert web.read() == ["one"]
    assert refused(lambda: api.send("web", "one")).code == "duplicate"
    assert web.read() == []


# -- while the store is asked ------------------------------------------------------------------------------------------


def test_a_session_that_ended_meanwhile_sends_nothing(house: House, api: Guest, web: Guest) -> None:
    """From a shell, whose link lives on: no message and no pin of a conversation that is over."""
    house.slow = True
    line = api.shell()
    asked = line.begin("send", to="web", message="one", key="k")
    house.kill(api)
    before = house.state()
    house.answer_questions()
    refusal = refused(lambda: line.answer(asked))
    assert refusal.code == "not_running"
    assert is_sentence(refusal.text)
    assert house.state() == before


def test_the_target_is_found_when_the_message_goes(house: House, api: Guest, web: Guest) -> None:
    house.slow = True
    asked = api.begin_send("web", "one", key="k")
    house.kill(web)
    house.answer_questions()
    assert refused(lambda: api.line.answer(asked)).code == "not_running"


# -- what was not stored -----------------------------------------------------------------------------------------------


def test_a_message_that_was_not_stored_never_was(house: House, api: Guest, web: Guest) -> None:
    """3.3: pace, key, text, pin, number and box are as before; the retry is the first."""
    for number in range(29):
        api.send(web.id, str(number))
    before = house.state()
    house.failing = lambda ops: True
    for key in (None, "k"):
        refusal = refused(lambda key=key: api.send("web", "29", key=key))  # type: ignore[misc]
        assert refusal.code == "internal"
        assert "Nothing was stored." in refusal.text
    house.failing = lambda ops: False
    after = house.state()
    assert after.pop("next_seq") > before.pop("next_seq"), "numbers of the store are never used again"
    assert after == before
    assert api.send("web", "29", key="k")["state"] == "queued"
    assert web.take()[-1]["seq"] == 30


def test_a_number_that_a_later_message_follows_is_not_used_again(house: House, api: Guest, web: Guest) -> None:
    """Both were decided before the store refused the first."""
    sent = [api.send(web, text) for text in ("one", "two")]
    first, _ = house.store.load().messages
    house.broker._sending.forget(first, "The disk is full.")
    assert [message["id"] for message in web.take()] == [sent[1]["id"]]
    api.send(web, "three")
    assert [message["seq"] for message in web.take()] == [3]


@pytest.mark.parametrize("push", [True, False])
def test_a_link_that_was_given_it_is_cut(house: House, api: Guest, push: bool) -> None:  # noqa: FBT001
    """Its frame was not sent; it asks again and finds all that was stored."""
    web = house.join("web", push=push)
    api.send(web, "one")
    house.failing = lambda ops: any(isinstance(op, PutMessage) for op in ops)
    assert refused(lambda: api.send(web, "two")).code == "internal"
    assert web.line.open == (not push)
    house.failing = lambda ops: False
    if push:
        assert [message["message"]["text"] for message in web.line.pushes] == ["one"]
        web.come_back()
    assert web.read() == ["one"]
    assert api.send(web, "two")["state"] == "queued"


def test_a_reply_that_was_not_stored_leaves_its_original_delivered(house: House, api: Guest, web: Guest) -> None:
    """It was read, for it was answered; but nothing answers it."""
    sent = api.send(web, "which port?")
    web.take()
    house.failing = lambda ops: any(isinstance(op, PutMessage) for op in ops)
    refused(lambda: web.send(None, "8080", reply_to=sent["id"]))
    house.failing = lambda ops: False
    assert api.check(sent)["state"] == "delivered"
    house.join("other")
    assert [step["state"] for step in api.check(sent)["history"]] == ["queued", "delivered"]
    web.send(None, "8080", reply_to=sent["id"])
    assert api.check(sent)["state"] == "replied"


def test_whoever_waits_for_a_reply_that_was_not_stored_is_cut_and_may_ask_again(
    house: House, api: Guest, web: Guest
) -> None:
    asked, line = api.begin_send(web, "which port?", wait_reply=60, key="k"), api.line
    (message,) = web.take()
    web.ack(message)
    house.failing = lambda ops: any(isinstance(op, PutMessage) for op in ops)
    refused(lambda: web.send(None, "8080", reply_to=message["id"]))
    house.failing = lambda ops: False
    assert not api.line.open
    api.come_back()
    assert api.send(web, "which port?", key="k")["state"] == "delivered"
    web.send(None, "8080", reply_to=message["id"])
    assert api.read() == ["8080"]
    assert not line.is_answered(asked)


def test_so_may_one_whose_reply_came_behind_earlier_mail(house: House, api: Guest, web: Guest) -> None:
    """What it was told about a reply that never was is not sent."""
    asked, line = api.begin_send(web, "which port?", wait_reply=60, key="k"), api.line
    (message,) = web.take()
    web.ack(message)
    web.send(api, "one moment")
    house.failing = lambda ops: any(isinstance(op, PutMessage) for op in ops)
    refused(lambda: web.send(None, "8080", reply_to=message["id"]))
    house.failing = lambda ops: False
    assert not line.open
    assert not line.is_answered(asked)
    api.come_back()
    assert api.send(web, "which port?", key="k")["state"] == "delivered"
    assert house.broker.core.told_of == {}


def test_a_reply_that_was_read_is_remembered_no_longer(house: House, api: Guest, web: Guest) -> None:
    api.begin_send(web, "which port?", wait_reply=60)
    (message,) = web.take()
    sent = web.send(None, "8080", reply_to=message["id"])
    assert list(house.broker.core.told_of) == [sent["id"]]
    api.ack(sent)
    assert house.broker.core.told_of == {}


def test_marks_that_were_not_stored_are_stored_later(house: House, api: Guest, web: Guest) -> None:
    sent = api.send(web, "one")
    (message,) = web.take()
    house.failing = lambda ops: any(isinstance(op, MarkMessage) for op in ops)
    assert refused(lambda: web.ack(message)).code == "internal"
    house.failing = lambda ops: False
    assert api.check(sent)["state"] == "delivered", "it is, though the store does not know yet"
    house.join("other")
    house.restart()
    web.come_back()
    assert web.take() == []


def test_a_pin_that_was_not_stored_is_none(house: House, api: Guest, web: Guest) -> None:
    house.failing = lambda ops: True
    refused(lambda: api.send("web", "one"))
    house.failing = lambda ops: False
    assert house.state()["pins"][api.id] == {}
    api.send("web", "two")
    house.failing = lambda ops: True
    refused(lambda: api.send("web", "three"))
    house.failing = lambda ops: False
    assert house.state()["pins"][api.id] == {"web": web.id}, "an older pin stays"


def test_a_pin_that_was_not_moved_is_where_it_was(house: House, api: Guest, web: Guest) -> None:
    """As it is in the store, which a restart reads."""
    api.send("web", "one")
    house.kill(web)
    new = house.join("web")
    house.failing = lambda ops: True
    refused(lambda: api.send(f"web [{new.ref}]", "two"))
    house.failing = lambda ops: False
    for _ in range(2):
        assert refused(lambda: api.send("web", "three")).code == "name_moved"
        house.restart()
        api.come_back()
        new.come_back()
    api.send(f"web [{new.ref}]", "four")
    assert api.send("web", "five")["to"]["id"] == new.id


def test_a_sender_that_is_not_known_any_more_gets_nothing_back(house: House, api: Guest, web: Guest) -> None:
    api.send("web", "one")
    (row,) = house.store.load().messages
    pins = house.store.load().pins
    house.kill(api)
    house.broker.core.roster.forget(api.session)
    house.broker._sending.forget(row, "The disk is full.")
    for pin in pins:
        house.broker._sending.forget_pin(pin)
    assert web.take() == []
    house.broker._sending.forget(row, "The disk is full.")


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_who_follows_sees_every_message_as_it_is_accepted(house: House, api: Guest, web: Guest) -> None:
    one, two = house.human(), house.human()
    one.ask("log", follow=True)
    one.ask("log", follow=True)
    two.ask("log")
    api.send(web, "hello")
    refused(lambda: api.send("nobody"))
    assert [(method, params["text"]) for method, params in one.notes] == [("entry", "hello")]
    assert two.notes == []
    assert house.broker.core.followers == 1
    one.drop()
    assert house.broker.core.followers == 0
    api.send(web, "more")


def test_pruning_happens_about_once_a_day_and_only_when_something_does(house: House, api: Guest, web: Guest) -> None:
    house.prunes.clear()
    api.send(web, "1")
    assert house.prunes == []
    house.pass_time(3 * DAY)
    assert house.prunes == []
    web.line.pong()
    api.send(web, "2")
    api.send(web, "3")
    assert house.prunes == [Prune(house.ms - 7 * DAY * 1000)]


def test_a_message_that_waits_is_never_pruned(house: House, api: Guest, web: Guest) -> None:
    sent = api.send(web, "1")
    house.pass_time(30 * DAY)
    api.send(web, "2")
    assert api.check(sent)["state"] == "queued"
    assert web.read() == ["1", "2"]


# -- to be told --------------------------------------------------------------------------------------------------------


def test_a_wish_to_be_told_goes_with_a_text_or_without(house: House, api: Guest) -> None:
    """9.1: the wish is kept with the text, in one commit, or with nothing."""
    web = house.join("web", delivery="push", harness_session_id="talk")
    sent = api.send("web", "hello", notify_when_idle=True, key="k")
    assert (sent["state"], sent["watch"]["state"]) == ("queued", "watching")
    web.line.ask("rename", name="www")
    answer = api.watch("web", key="k")
    assert (answer["id"], answer["to"]["name"], answer["watch"]["state"]) == (None, "www", "watching")
    assert answer["notice"].startswith("web is now called www")
    web.read()
    web.is_now("idle")
    house.pass_time(60)
    assert len(api.notices()) == 1
    web.line.pong()
    assert api.watch("www")["notice"] is None
    assert refused(lambda: api.send(house.join("plain"), "hello", notify_when_idle=True)).code == "unsupported_mode"


# -- to be resumed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["there", "gone again", "not there"])
def test_a_message_may_wait_for_its_receiver_to_be_started(how: str) -> None:
    """11.1: nothing is accepted before; then all is checked as for any other."""
    house = House(CoreSettings(resume={"codex": ("codex", "resume", "{harness_session_id}")}))
    api, web = house.join("api"), house.join("web", harness_session_id="talk")
    web.line.ask("end")
    before = house.state()
    asked = api.begin_send("web", key="k", when_offline="resume")
    assert house.state() == before
    if how == "not there":
        house.end_command("it ended with 1")
        assert refused(lambda: api.line.answer(asked)).code == "not_running"
        assert house.state() == before
        return
    house.slow = how == "gone again"
    back = house.join(None, harness_session_id="talk")
    if how == "gone again":
        back.line.ask("end")
        house.answer_questions()
        assert refused(lambda: api.line.answer(asked)).code == "not_running"
    else:
        assert api.line.answer(asked)["notice"] == "web was not running; it was resumed for this."
        assert back.read() == ["hello"]

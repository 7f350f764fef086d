"""How mail leaves a box: offered, leased, handed, acknowledged, given back, kept."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.core_house import Answer, Guest, House, is_sentence, peer, refused
from xsessiond.core.effects import TimePassed
from xsessiond.core.envelope import parse_envelopes
from xsessiond.core.limits import MAX_FRAME, PUSH_WINDOW, RELEASE_PAUSE_S
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.state import CoreSettings

DAY = 24 * 3600
UNPACED = CoreSettings(pacing=PaceSettings(target_burst=0, sender_burst=0, duplicate_window=0, queue_per_session=200))


@pytest.fixture
def house() -> House:
    return House(UNPACED)


def texts(messages: list[Answer]) -> list[str]:
    return [message["text"] for message in messages]


def pushed(guest: Guest) -> list[str]:
    return [push["message"]["text"] for push in guest.line.pushes]


# -- take, acknowledge -------------------------------------------------------------------------------------------------


def test_taking_is_two_steps(api: Guest, web: Guest) -> None:
    """W1, W9, 6.2: queued until it is acknowledged; what is leased does not come twice."""
    sent = [api.send(web, text) for text in ("one", "two", "three")]
    answer = web.line.ask("take", max=2)
    assert (texts(answer["messages"]), answer["left"]) == (["one", "two"], 1)
    assert [api.check(one)["state"] for one in sent] == ["queued"] * 3
    assert texts(web.take()) == ["three"]
    assert web.take() == []
    assert web.ack(*answer["messages"]) == 2
    assert [api.check(one)["state"] for one in sent] == ["delivered", "delivered", "queued"]
    assert web.ack(*answer["messages"]) == 0, "a late acknowledgement is no error"
    assert web.ack("m-" + "0" * 32) == 0


@pytest.mark.parametrize("most, taken", [(None, 50), (1000, 50), (1, 1), (0, 0), (-3, 0)])
def test_a_batch_is_bounded(api: Guest, web: Guest, most: int | None, taken: int) -> None:
    """7.3, W15: several come as one ordered batch."""
    for number in range(60):
        api.send(web, str(number))
    answer = web.line.ask("take", max=most)
    assert texts(answer["messages"]) == [str(number) for number in range(taken)]
    assert answer["left"] == 60 - taken


def test_a_batch_fits_into_a_frame(api: Guest, web: Guest) -> None:
    for number in range(5):
        api.send(web, str(number) * 400_000)
    sizes = []
    for _ in range(3):
        messages = web.take()
        sizes.append(len(messages))
        web.ack(*messages)
    assert sizes == [2, 2, 1]


@pytest.mark.parametrize("body", ["x" * 1_000_000, "x\n" * 250_000, "<a>" * 300_000])
def test_one_message_always_fits_into_a_frame(api: Guest, web: Guest, body: str) -> None:
    """3.5: never cut; without its envelope where both would be too long."""
    sent = api.send(web, body)
    message = web.take(render=True)[0]
    assert message["text"] == body
    assert (message["bytes"], message["sha256"]) == (sent["bytes"], sent["sha256"])
    assert "envelope" not in message or len(message["envelope"]) < MAX_FRAME


def test_a_rendered_message_is_one_envelope(api: Guest, web: Guest) -> None:
    """12.1: and of a session only its id says who it is."""
    api.send(web, "look: </cross-session-message>", summary="s")
    first = web.take(render=True)[0]
    (envelope,) = parse_envelopes(first["envelope"])
    assert envelope.attributes["from"] == api.id
    assert f'from-ref="{api.ref}"' in first["envelope"] or api.ref in first["envelope"]
    assert first["full_note"]
    web.ack(first)
    api.send(web, "more")
    second = web.take(render=True)[0]
    assert not second["full_note"]
    assert len(second["envelope"]) < len(first["envelope"])


def test_what_a_subagent_sends_says_so_also_over_a_restart(house: House, api: Guest, web: Guest) -> None:
    """1.9: it goes out under its session's name."""
    api.send(web, "found it", subagent=True)
    api.send(web, "it is mine")
    house.restart()
    web.come_back()
    first, second = web.take(render=True)
    assert (first["from"]["id"], first["from"]["subagent"]) == (api.id, True)
    assert "subagent" not in second["from"]
    marks = [parse_envelopes(message["envelope"])[0].attributes.get("from-subagent") for message in (first, second)]
    assert marks == ["true", None]


def test_the_note_in_full_comes_once_per_session_also_over_a_restart(house: House, api: Guest, web: Guest) -> None:
    """12.3: once it is known to be in its context."""
    api.send(web, "one")
    api.send(web, "two")
    assert [message["full_note"] for message in web.take()] == [True, True], "none is known to have been read"
    web.line.drop()
    web.come_back()
    web.read()
    house.restart()
    api.come_back()
    web.come_back()
    api.send(web, "three")
    assert [message["full_note"] for message in web.take()] == [False]


def test_a_receiver_without_a_tool_is_not_told_to_use_one(house: House, api: Guest) -> None:
    """W19, 8.3."""
    mute = house.join("mute", can_reply=False)
    api.send(mute, "hello")
    message = mute.take(render=True)[0]
    assert not message["can_reply"]
    assert "send_message" not in message["envelope"]


def test_two_sessions_of_one_folder_have_two_boxes(house: House, api: Guest) -> None:
    """N11: and nobody acknowledges for another."""
    one, two = house.join("one"), house.join("two")
    api.send(one, "for one")
    (message,) = one.take()
    assert two.take() == []
    assert two.ack(message) == 0
    two.line.ask("release", ids=[message["id"]])
    two.line.ask("handed", ids=[message["id"]])
    assert api.check(message)["state"] == "queued"
    assert one.ack(message) == 1


def test_each_message_is_acknowledged_once(api: Guest, web: Guest) -> None:
    api.send(web)
    (message,) = web.take()
    assert web.line.ask("ack", ids=[message["id"], message["id"]])["acked"] == 1


def test_an_acknowledgement_that_wants_no_answer_counts_all_the_same(house: House, api: Guest, web: Guest) -> None:
    sent = api.send(web)
    web.line.tell("ack", ids=[web.take()[0]["id"]])
    assert api.check(sent)["state"] == "delivered"
    house.restart()
    api.come_back()
    web.come_back()
    assert web.take() == []


# -- leases that end ---------------------------------------------------------------------------------------------------


def test_a_lease_that_ends_puts_mail_back_in_its_place(house: House, api: Guest, web: Guest) -> None:
    """W9, W10: after a crash or a refusal it comes once more, under the same id, before what came later."""
    ids = [api.send(web, text)["id"] for text in ("one", "two")]
    web.take()
    web.line.drop()
    api.send(web, "three")
    web.come_back()
    messages = web.take()
    assert [message["id"] for message in messages[:2]] == ids
    assert texts(messages) == ["one", "two", "three"]
    assert web.line.ask("release", ids=[messages[1]["id"]])["released"] == 1
    assert web.line.ask("release", ids=[messages[1]["id"]])["released"] == 0
    assert texts(web.take()) == ["two"]
    web.ack(*messages)
    house.restart()
    web.come_back()
    assert web.take() == []


def test_a_lease_belongs_to_the_link_that_took_it(api: Guest, web: Guest) -> None:
    api.send(web)
    first = web.line
    (message,) = web.take()
    second = web.attach()
    assert web.take() == []
    assert second.ask("release", ids=[message["id"]])["released"] == 0
    first.drop()
    assert texts(web.take()) == ["hello"]


def test_what_comes_back_is_told_to_the_other_links(api: Guest, web: Guest) -> None:
    """W13: a hook that dies with a batch does not leave the shim without a word."""
    shim = web.line
    hook = web.attach()
    for number in range(3):
        api.send(web, str(number))
    shim.notes.clear()
    hook.ask("take")
    hook.drop()
    assert shim.notes == [("mail", {"queued": 3})]


def test_handed_is_not_delivered(house: House, api: Guest, web: Guest) -> None:
    """W2, 6: three words, three meanings, and the history has them all."""
    sent = api.send(web)
    (message,) = web.take()
    assert web.line.ask("handed", ids=[message["id"]])["handed"] == 1
    assert web.line.ask("handed", ids=[message["id"]])["handed"] == 0
    assert api.check(sent)["state"] == "handed"
    house.pass_time(1)
    web.line.ask("release", ids=[message["id"]])
    assert api.check(sent)["state"] == "queued"
    house.pass_time(1)
    web.take()
    web.line.ask("handed", ids=[message["id"]])
    house.restart()
    api.come_back()
    web.come_back()
    web.take()
    web.line.ask("handed", ids=[message["id"]])
    web.ack(message)
    steps = [(step["state"], step["rule"]) for step in api.check(sent)["history"]]
    assert steps == [
        ("queued", "parity: the receiver asks before it acts"),
        ("handed", None),
        ("queued", "given back"),
        ("handed", "again"),
        ("handed", "again"),
        ("delivered", None),
    ]
    house.pass_time(120)
    assert api.line.ask("take")["receipts"] == []


def test_what_stalls_is_told_to_its_sender(house: House, api: Guest, web: Guest) -> None:
    """6.3: once; and not what came back, or was acknowledged."""
    for number in range(3):
        api.send(web, str(number))
    ids = [message["id"] for message in web.take()]
    web.line.ask("handed", ids=ids)
    web.line.ask("release", ids=ids[:1])
    web.ack(ids[1])
    house.pass_time(60)
    (receipt,) = api.line.ask("take")["receipts"]
    assert (receipt["id"], receipt["state"]) == (ids[2], "stalled")
    api.line.ask("ack", ids=[])
    house.pass_time(60)
    assert api.line.ask("take")["receipts"] == []


def test_what_nobody_has_cannot_be_handed(api: Guest, web: Guest) -> None:
    sent = api.send(web)
    assert web.line.ask("handed", ids=[sent["id"]])["handed"] == 0


# -- push --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pushy(house: House) -> Guest:
    return house.join("pushy", push=True)


def test_mail_is_pushed_as_it_comes(api: Guest, pushy: Guest) -> None:
    api.send(pushy, "one")
    api.send(pushy, "two")
    assert pushed(pushy) == ["one", "two"]
    assert [push["n"] for push in pushy.line.pushes] == [1, 2]
    assert pushy.take() == []
    assert api.check(pushy.line.pushes[0]["message"])["state"] == "queued"
    assert pushy.line.ask("ack", upto=2)["acked"] == 2
    assert api.check(pushy.line.pushes[1]["message"])["state"] == "delivered"
    assert pushy.line.ask("ack", upto=9)["acked"] == 0


def test_what_waited_is_pushed_on_attaching(house: House, api: Guest) -> None:
    web = house.join("web")
    web.line.drop()
    for number in range(3):
        api.send(web, str(number))
    web.register(resume=True)
    web.attach(push=True)
    assert pushed(web) == ["0", "1", "2"]


@pytest.mark.parametrize("how", ["upto", "ids"])
def test_at_most_a_window_is_outstanding_however_it_is_acknowledged(api: Guest, pushy: Guest, how: str) -> None:
    for number in range(PUSH_WINDOW * 2):
        api.send(pushy, str(number))
    assert len(pushy.line.pushes) == PUSH_WINDOW
    for number in range(PUSH_WINDOW):
        push = pushy.line.pushes[number]
        pushy.line.ask("ack", **({"upto": push["n"]} if how == "upto" else {"ids": [push["message"]["id"]]}))
        assert len(pushy.line.pushes) == PUSH_WINDOW + number + 1
    assert pushed(pushy) == [str(number) for number in range(PUSH_WINDOW * 2)]


def test_only_what_is_still_leased_is_acknowledged_by_number(api: Guest, pushy: Guest) -> None:
    for number in range(3):
        api.send(pushy, str(number))
    first, second, _ = pushy.line.pushes
    pushy.line.ask("release", ids=[first["message"]["id"]])
    pushy.line.ask("ack", ids=[second["message"]["id"]])
    assert pushy.line.ask("ack", upto=2)["acked"] == 0
    assert pushy.line.ask("ack", upto=3)["acked"] == 1
    assert api.check(first["message"])["state"] == "queued"


def test_what_a_harness_cannot_place_now_does_not_spin(house: House, api: Guest, pushy: Guest) -> None:
    """W7, W10: given back, it comes again under the same id after a pause, in order, and not at once."""
    api.send(pushy, "one")
    pushy.line.ask("release", ids=[pushy.line.pushes[0]["message"]["id"]])
    api.send(pushy, "two")
    assert pushed(pushy) == ["one"]
    house.pass_time(RELEASE_PAUSE_S - 0.01)
    assert pushed(pushy) == ["one"]
    house.pass_time(0.01)
    assert pushed(pushy) == ["one", "one", "two"]
    assert pushy.line.pushes[0]["message"]["id"] == pushy.line.pushes[1]["message"]["id"]
    assert pushy.line.ask("ack", upto=3)["acked"] == 2


@pytest.mark.parametrize("news", ["update", "ack"])
def test_news_of_the_harness_end_the_pause(api: Guest, pushy: Guest, news: str) -> None:
    """7.4: it does not wait for the clock when its state changed."""
    api.send(pushy, "one")
    pushy.line.ask("release", ids=[pushy.line.pushes[0]["message"]["id"]])
    pushy.line.ask(news, **({"state": "idle"} if news == "update" else {}))
    assert pushed(pushy) == ["one", "one"]


def test_another_link_gets_what_one_gave_back(api: Guest, pushy: Guest) -> None:
    first = pushy.line
    api.send(pushy, "one")
    second = pushy.attach(push=True)
    first.ask("release", ids=[first.pushes[0]["message"]["id"]])
    assert [push["message"]["text"] for push in second.pushes] == ["one"]


def test_a_link_without_push_hears_that_mail_began_to_wait(api: Guest, web: Guest) -> None:
    """One wake at a time is outstanding (7.3): the second message, and an acknowledgement, tell nothing new."""
    api.send(web, "one")
    assert web.line.notes == [("mail", {"queued": 1})]
    api.send(web, "two")
    (first,) = web.take(max=1)
    web.ack(first)
    assert len(web.line.notes) == 1
    web.read()
    api.send(web, "three")
    assert len(web.line.notes) == 2


def test_every_link_without_push_hears_it_and_none_beside_one_that_pushes(api: Guest, web: Guest) -> None:
    quiet = web.line, web.attach()
    api.send(web, "one")
    assert [line.notes for line in quiet] == [[("mail", {"queued": 1})]] * 2
    pushing = web.attach(push=True)
    assert [push["message"]["text"] for push in pushing.pushes] == ["one"]
    api.send(web, "two")
    assert [len(line.notes) for line in (*quiet, pushing)] == [1, 1, 0]


def test_a_session_that_ends_is_pushed_nothing_more(house: House, api: Guest, pushy: Guest) -> None:
    """What one of its links gives back is not pushed to the next that is closed."""
    lines = [pushy.line, pushy.attach(push=True), pushy.attach(push=True)]
    api.send(pushy, "one")
    house.kill(pushy)
    assert sum(len(line.pushes) for line in lines) == 1
    assert [line.notes[-1] for line in lines] == [("bye", {"reason": "ended"})] * 3
    assert len(pushy.session.box.waiting) == 1


# -- a person at the rendezvous ----------------------------------------------------------------------------------------


def ask_as_human(house: House, guest: Guest, text: str = "how far are you?") -> Answer:
    line = house.human()
    sent = line.ask("send", to=guest.id, message=text)
    line.drop()
    guest.got = guest.take()
    guest.ack(*guest.got)
    return guest.send(None, f"answer to {text}", reply_to=sent["id"])


def test_a_human_reads_what_was_answered(house: House, api: Guest) -> None:
    """Looking takes nothing; taking leases like a session's, and the terminal that closes gives back."""
    sent = ask_as_human(house, api)
    assert sent["notice"] == "A person reads it with xsessionctl inbox."
    assert sent["to"]["name"] == "ann"
    line = house.human()
    assert [message["id"] for message in line.ask("inbox")["messages"]] == [sent["id"]]
    assert texts(line.ask("take")["messages"]) == ["answer to how far are you?"]
    other = house.human()
    assert other.ask("take")["messages"] == []
    line.drop()
    (message,) = other.ask("take")["messages"]
    assert message["from"]["name"] == "api"
    assert other.ask("ack", ids=[message["id"]])["acked"] == 1
    assert api.check(sent)["state"] == "delivered"
    assert other.ask("inbox")["messages"] == []


def test_a_human_may_give_back_and_acknowledges_only_what_it_has(house: House, api: Guest) -> None:
    sent = ask_as_human(house, api)
    line = house.human()
    assert line.ask("ack", ids=[sent["id"]])["acked"] == 0
    (message,) = line.ask("take")["messages"]
    assert house.human().ask("ack", ids=[sent["id"]])["acked"] == 0
    assert line.ask("release", ids=[message["id"]])["released"] == 1
    assert len(house.human().ask("take")["messages"]) == 1


def test_a_humans_box_is_full_until_somebody_reads_it(house: House) -> None:
    house = House(CoreSettings(pacing=PaceSettings(target_burst=0, sender_burst=0, queue_per_session=2)))
    api = house.join("api")
    for number in range(2):
        ask_as_human(house, api, str(number))
    refusal = refused(lambda: ask_as_human(house, api, "2"))
    assert refusal.code == "queue_full"
    line = house.human()
    messages = line.ask("take")["messages"]
    line.ask("ack", ids=[message["id"] for message in messages])
    assert api.send(None, "now", reply_to=api.got[0]["id"])["state"] == "queued"


def test_a_humans_mail_survives_the_broker(house: House, api: Guest) -> None:
    sent = ask_as_human(house, api)
    line = house.human()
    line.ask("take")
    house.restart()
    assert [message["id"] for message in house.human().ask("take")["messages"]] == [sent["id"]]


def test_who_may_take_where(house: House, api: Guest) -> None:
    """A script is no person; an agent's shell takes nothing of its session's mail; the private socket wants a token."""
    for line in (house.script(), api.shell()):
        refusal = refused(lambda line=line: line.ask("take"))  # type: ignore[misc]
        assert refusal.code == "not_permitted"
        assert is_sentence(refusal.text)
        assert line.ask("ack", ids=["m-1"])["acked"] == 0
    unproven = house.connect(peer(90, terminal=True), door=api.id)
    for method in ("take", "handed", "release"):
        given = {} if method == "take" else {"ids": []}
        assert refused(lambda method=method, given=given: unproven.ask(method, **given)).code == "not_permitted"  # type: ignore[misc]
    assert unproven.ask("ack", ids=[])["acked"] == 0
    assert refused(lambda: house.human().ask("handed", ids=[])).code == "usage"


def test_an_agents_shell_acknowledges_the_reply_it_waited_for_and_nothing_else(house: House, api: Guest) -> None:
    web = house.join("web")
    line = api.shell()
    asked = line.begin("send", to="web", message="which port?", wait_reply=60)
    (question,) = web.take()
    web.ack(question)
    web.send(None, "8080", reply_to=question["id"])
    web.send(api, "something else")
    reply = line.answer(asked)["reply"]
    (other,) = api.take()
    assert line.ask("ack", ids=[reply["id"], other["id"]])["acked"] == 1
    assert not api.session.noted, "a shell shows no boundary note"
    assert api.ack(other) == 1


def test_a_lease_of_a_shell_in_two_boxes_is_given_back_to_both(house: House, api: Guest) -> None:
    """A link that speaks for a session now and took as a human before."""
    ask_as_human(house, api)
    line = house.connect(peer(5100, 5000, terminal=True))
    line.ask("take")
    late = house.join("late", pid=5000)
    asked = line.begin("send", to=api.id, message="which port?", wait_reply=60)
    (question,) = api.take()
    api.ack(question)
    api.send(None, "8080", reply_to=question["id"])
    reply = line.answer(asked)["reply"]
    own = house.broker.core.human.box
    line.ask("release", ids=[reply["id"], next(iter(own)).id])
    assert (len(own.waiting), len(late.session.box.waiting)) == (1, 1)


# -- mail that is kept -------------------------------------------------------------------------------------------------


def test_mail_is_kept_for_its_conversation(house: House, api: Guest) -> None:
    """L1, 7.5, D4: a clean-up of the session does not touch it, and it comes when the conversation resumes."""
    web = house.join("web", harness_session_id="talk")
    for number in range(3):
        api.send(web, str(number))
    house.kill(web)
    house.pass_time(6 * DAY)
    again = house.join("web", harness_session_id="talk")
    assert again.id == web.id
    assert again.read() == ["0", "1", "2"]
    house.pass_time(2 * DAY)
    assert api.line.ask("take")["receipts"] == []


def test_mail_that_is_not_fetched_expires_after_seven_days(house: House, api: Guest) -> None:
    web = house.join("web", harness_session_id="talk")
    sent = api.send(web, "one")
    house.kill(web)
    house.pass_time(7 * DAY - 1)
    assert api.check(sent)["state"] == "queued"
    house.pass_time(1)
    assert api.check(sent)["state"] == "expired"
    assert len(api.line.ask("take")["receipts"]) == 1
    assert web.session.box.size == 0
    again = house.join("web", harness_session_id="talk")
    assert again.take() == []


def test_mail_to_a_conversation_that_ended_before_is_kept_as_long(house: House, api: Guest) -> None:
    """L8: the time counts from when it could be taken, not from an end long ago."""
    web = house.join("web", harness_session_id="talk")
    house.kill(web)
    house.pass_time(5 * DAY)
    first = api.send("web", "one", when_offline="queue")
    house.pass_time(DAY)
    second = api.send("web", "two", when_offline="queue")
    house.pass_time(6 * DAY)
    assert (api.check(first)["state"], api.check(second)["state"]) == ("expired", "queued")
    house.pass_time(DAY)
    assert api.check(second)["state"] == "expired"


def test_kept_mail_expires_also_when_the_broker_restarted(house: House, api: Guest) -> None:
    web = house.join("web", harness_session_id="talk")
    sent = api.send(web, "one")
    house.kill(web)
    house.pass_time(5 * DAY)
    house.restart()
    api.come_back()
    house.pass_time(2 * DAY)
    assert api.check(sent)["state"] == "expired"


def test_a_jump_of_the_monotonic_clock_alone_expires_nothing(house: House, api: Guest) -> None:
    """P10: a machine that slept; its mail is kept for days that were there."""
    web = house.join("web", harness_session_id="talk")
    sent = api.send(web, "one")
    house.kill(web)
    for _ in range(24 * 8):
        house.mono += 3600
        house.handle(TimePassed())
    assert api.check(sent)["state"] == "queued"
    house.ms += 7 * DAY * 1000
    house.pass_time(3600)
    assert api.check(sent)["state"] == "expired"


def test_the_deadline_of_a_conversation_that_runs_again_means_nothing(house: House, api: Guest) -> None:
    web = house.join("web", harness_session_id="talk")
    api.send(web, "one")
    house.kill(web)
    core = house.broker.core
    again = house.join("web", harness_session_id="talk")
    core.agenda.schedule(("keep", web.id), house.mono)
    house.pass_time(0)
    assert again.read() == ["one"]


def test_a_shell_holds_a_reply_for_a_session_that_ended_and_it_expires_there(house: House, api: Guest) -> None:
    """A lease does not keep a message from its end."""
    house = House(CoreSettings(keep_ms=5_000))
    api, web = house.join("api", harness_session_id="talk"), house.join("web")
    line = api.shell()
    line.begin("send", to="web", message="which port?", wait_reply=60)
    (question,) = web.take()
    web.ack(question)
    house.kill(api)
    sent = web.send(None, "8080", reply_to=question["id"], when_offline="queue")
    house.pass_time(6)
    assert web.check(sent)["state"] == "expired"
    assert line.ask("ack", ids=[sent["id"]])["acked"] == 0


def test_a_message_comes_whole_out_of_the_store(house: House, api: Guest, web: Guest) -> None:
    """Byte for byte what it was before the restart, but for its age."""
    api.send(web, "grüße\u202e\x1b[0m\r\n\t", summary="s", key="k")
    (before,) = web.take()
    house.restart()
    web.come_back()
    (after,) = web.take()
    assert msgspec.json.encode(after) == msgspec.json.encode(before)

"""The limits of number and of cause, at their edges, and who hears of it when one stops something."""

from __future__ import annotations

import pytest

from tests.support.core_house import Answer, Guest, House, Line, Refused, is_sentence, refused
from xsessiond.core.brakes import TOLD_AGAIN_S, TOLD_KEPT
from xsessiond.core.limits import CAUSE_KEPT_S, QUEUE_BYTES_PER_SESSION
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.records import PutMessage

SLOW_S = 20.0
"""A pause after which no exchange is too quick."""


def answer(sender: Guest, receiver: Guest, number: int, *, pause: float = SLOW_S, **params: object) -> int:
    """Sends, and has it read. Returns its hop."""
    sender.house.pass_time(pause)
    sender.send(receiver, f"text {number}", **params)
    (message,) = receiver.take()
    receiver.ack(message)
    return int(message["hop"])


def converse(one: Guest, other: Guest, count: int, *, pause: float = SLOW_S) -> list[int]:
    """One answers the other for so many messages. Returns their hops."""
    return [
        answer(*((one, other) if number % 2 == 0 else (other, one)), number, pause=pause) for number in range(count)
    ]


def turn(guest: Guest, by: str) -> None:
    guest.line.ask("turn", phase="started", by=by)


# -- hops --------------------------------------------------------------------------------------------------------------


def test_sixteen_messages_may_each_be_caused_by_another(house: House, api: Guest, web: Guest) -> None:
    """10.2, 10.3: the first is nobody's answer; the 15th and the 16th hop go, the 17th does not."""
    assert converse(api, web, 17) == list(range(17))
    house.pass_time(SLOW_S)
    before = house.state()
    refusal = refused(lambda: web.send(api, "one more"))
    assert refusal.code == "hop_limit"
    assert refusal.data["detail"]["hop"] == 17
    assert is_sentence(refusal.text)
    assert is_sentence(refusal.hint or "")
    after = house.state()
    for state in (before, after):  # but for what is told about it
        state["store"].pop("receipts")
        state.pop("receipts")
    assert after == before


def test_what_is_over_is_acted_on_no_more(house: House, api: Guest, web: Guest) -> None:
    """10.2: which is nobody's invitation to wait for it."""
    converse(api, web, 17)
    assert refused(lambda: web.send(api, "one more")).data["retry_after_s"] is None
    house.pass_time(CAUSE_KEPT_S - 1)
    assert refused(lambda: web.send(api, "one more")).code == "hop_limit"
    house.pass_time(1)
    assert answer(web, api, 99, pause=0) == 0


def test_a_prompt_of_the_human_begins_anew(house: House, api: Guest, web: Guest) -> None:
    """10.3: nothing else does in a turn, however long it is."""
    turn(web, "mail")
    converse(api, web, 17)
    house.pass_time(CAUSE_KEPT_S * 10)
    assert refused(lambda: web.send(api, "one more")).code == "hop_limit"
    turn(web, "human")
    assert answer(web, api, 99) == 0


def test_the_human_may_bid_an_answer_to_whatever_came_far(house: House, api: Guest, web: Guest) -> None:
    """It is the human's wish, not the message's. What is answered counts in every other turn."""
    converse(api, web, 16)
    far = api.send(web, "the last one")
    web.read()
    house.pass_time(CAUSE_KEPT_S)
    assert refused(lambda: web.send(None, "hm", reply_to=far["id"])).code == "hop_limit"
    turn(web, "other")
    assert refused(lambda: web.send(None, "hm", reply_to=far["id"])).code == "hop_limit"
    turn(web, "human")
    web.send(None, "yes", reply_to=far["id"])
    (message,) = api.take()
    assert (message["hop"], message["reply_to"]) == (0, far["id"])


def test_what_is_answered_counts_after_its_time_too(house: House, api: Guest, web: Guest) -> None:
    """10.2: a reply that names a message is caused by it, however late, and though its acknowledgement was lost."""
    api.send(web, "which port?")
    (question,) = web.take()
    assert answer(web, api, 1, reply_to=question["id"]) == 1
    assert answer(web, api, 2) == 1, "it has read the question, whatever its acknowledgement says"
    house.pass_time(CAUSE_KEPT_S)
    assert answer(web, api, 3) == 0
    assert answer(web, api, 4, reply_to=question["id"]) == 1


def test_no_client_says_how_far_it_is_from_a_human(house: House, api: Guest, web: Guest) -> None:
    """10.2: nor does another name, another link, a shell or a new introduction help it."""
    converse(api, web, 17)
    house.pass_time(SLOW_S)

    def is_stopped(line: Line) -> bool:
        said = {"hop": 0, "cause": None, "thread": "m-1", "by": "human", "kind": "human"}
        return refused(lambda: line.ask("send", to=api.id, message="one more", **said)).code == "hop_limit"

    assert is_stopped(web.line)
    assert is_stopped(web.shell())
    web.line.drop()
    assert web.register()["resumed"]
    assert is_stopped(web.attach())
    for turns in (["ended"], ["mail", "ended"], ["other", "ended"], ["mail", "other", "ended"]):
        for by in turns:
            web.line.ask("turn", phase="ended" if by == "ended" else "started", by=None if by == "ended" else by)
            assert is_stopped(web.line)
    web.line.ask("rename", name="other")
    assert is_stopped(web.line)


def test_a_new_broker_knows_what_was_read_a_while_ago(house: House, api: Guest, web: Guest) -> None:
    """10.2: from what is stored; as long as it would have counted."""
    converse(api, web, 17)
    house.pass_time(100)
    house.restart()
    api.come_back()
    web.come_back()
    house.pass_time(CAUSE_KEPT_S - 101)
    assert refused(lambda: web.send(api, "one more")).code == "hop_limit"
    house.pass_time(1)
    assert answer(web, api, 99, pause=0) == 0


def test_a_process_of_several_sessions_is_as_far_as_the_farthest(house: House, api: Guest) -> None:
    web = house.join("web", pid=api.pid)
    other = house.join("other")
    converse(other, web, 17)
    house.pass_time(SLOW_S)
    assert refused(lambda: api.shell().ask("send", to="other", message="from a shell")).code == "hop_limit"
    assert api.send(other, "on its own link")["state"] == "queued"


def test_a_session_inside_another_acts_on_what_that_acts_on(house: House, api: Guest, web: Guest) -> None:
    """An agent that has another say it, whose prompt looks like a human's, is no nearer to one."""
    converse(api, web, 17)
    inner = house.join("inner", inside=web)
    turn(inner, "human")
    assert refused(lambda: inner.send(api, "from inside")).code == "hop_limit"
    house.pass_time(CAUSE_KEPT_S)
    assert answer(inner, api, 99) == 0
    house.kill(web)
    house.join("else").send(inner, "hello")
    inner.read()
    assert answer(inner, api, 100) == 1


def test_the_human_sends_as_they_like_and_is_written_to(house: House, api: Guest, web: Guest) -> None:
    """10.2: and is reached by those who were stopped."""
    converse(api, web, 17)
    human = house.human()
    human.ask("send", to="web", message="go on")
    (message,) = web.take()
    assert message["hop"] == 0
    web.ack(message)
    for number in range(12):
        web.send(None, f"done {number}", reply_to=message["id"])
    mail = human.ask("take")["messages"]
    assert [found["hop"] for found in mail] == [17] * 12
    human.ask("ack", ids=[found["id"] for found in mail])
    human.ask("send", reply_to=mail[0]["id"], message="thanks")
    assert web.take()[0]["hop"] == 0


def test_the_log_says_what_caused_a_message(house: House, api: Guest, web: Guest) -> None:
    """10.2: beside what it answers by name."""
    converse(api, web, 3)
    entries = house.script().ask("log")["entries"]
    assert [(entry["hop"], entry["cause"]) for entry in entries] == [
        (0, None),
        (1, entries[0]["id"]),
        (2, entries[1]["id"]),
    ]
    assert len({entry["thread"] for entry in entries}) == 3, "a thread is of replies by name"


def test_the_number_of_hops_is_a_setting(house: House, api: Guest, web: Guest) -> None:
    """10.6: in force at once."""
    converse(api, web, 4)
    house.change_settings(pacing=PaceSettings(max_hops=3))
    assert refused(lambda: api.send(web, "one more")).data["detail"]["max_hops"] == 3
    house.change_settings(pacing=PaceSettings(max_hops=4))
    assert answer(api, web, 4) == 4
    assert refused(lambda: web.send(api, "one more")).data["detail"]["max_hops"] == 4


# -- exchange ----------------------------------------------------------------------------------------------------------


def test_ten_caused_messages_go_in_a_minute(house: House, api: Guest, web: Guest) -> None:
    """10.3: either way; the first is nobody's answer, the tenth caused one goes, the eleventh does not."""
    assert converse(api, web, 11, pause=1.0) == list(range(11))
    refusal = refused(lambda: web.send(api, "one more"))
    assert (refusal.code, refusal.data["retry_after_s"]) == ("exchange_limit", 51.0)
    assert is_sentence(refusal.text)
    assert is_sentence(refusal.hint or "")
    assert refused(lambda: web.send(api, "again")).code == "exchange_limit"
    house.pass_time(50.9)
    assert refused(lambda: web.send(api, "again")).data["retry_after_s"] == 0.1
    house.pass_time(0.1)
    assert answer(web, api, 11, pause=0) == 11
    assert refused(lambda: api.send(web, "again")).data["retry_after_s"] == 1.0


def test_what_nothing_caused_is_no_exchange(house: House, api: Guest, web: Guest) -> None:
    """R4: news of one's own goes as fast as the buckets allow, also to somebody who answers too much."""
    other = house.join("other")
    converse(api, web, 11, pause=1.0)
    for number in range(20):
        assert answer(other, api, number, pause=0.1) == 0
    assert refused(lambda: web.send(api, "one more")).code == "exchange_limit"
    assert web.send(other, "to another")["state"] == "queued"
    turn(web, "human")
    assert web.send(api, "my user wants this")["state"] == "queued"


def test_what_was_not_stored_is_no_exchange(house: House, api: Guest, web: Guest) -> None:
    house.failing = lambda ops: any(isinstance(op, PutMessage) for op in ops)
    assert refused(lambda: api.send(web, "lost")).code == "internal"
    house.failing = lambda ops: False
    converse(api, web, 10, pause=1.0)
    house.failing = lambda ops: any(isinstance(op, PutMessage) for op in ops)
    for number in range(3):
        assert refused(lambda n=number: api.send(web, f"lost {n}")).code == "internal"  # type: ignore[misc]
    house.failing = lambda ops: False
    assert answer(api, web, 11, pause=0) == 10


def test_the_pace_of_an_exchange_is_a_setting(house: House, api: Guest, web: Guest) -> None:
    """10.6"""
    converse(api, web, 5, pause=1.0)
    house.change_settings(pacing=PaceSettings(exchange_per_minute=4))
    assert refused(lambda: web.send(api, "one more")).data["detail"]["exchange_per_minute"] == 4
    house.change_settings(pacing=PaceSettings(exchange_per_minute=5))
    assert answer(web, api, 5) == 5


# -- room and buckets --------------------------------------------------------------------------------------------------


def test_so_many_messages_wait_for_one(house: House, api: Guest, web: Guest) -> None:
    """10.5: the 50th waits, the 51st is refused; room comes back with what is read."""
    house.change_settings(pacing=PaceSettings(target_burst=0, sender_burst=0))
    for number in range(50):
        api.send(web, f"{number}")
    refusal = refused(lambda: api.send(web, "50"))
    assert (refusal.code, refusal.data["detail"]) == ("queue_full", {"queued": 50})
    assert is_sentence(refusal.text)
    web.ack(*web.take(max=1))
    api.send(web, "50")
    house.change_settings(pacing=PaceSettings(target_burst=0, sender_burst=0, queue_per_session=51))
    api.send(web, "51")
    assert refused(lambda: api.send(web, "52")).code == "queue_full"


def test_what_is_held_waits_in_no_queue(house: House, api: Guest, web: Guest) -> None:
    """10.5: it has a limit of its own; hops and buckets it has in common with all others."""
    converse(api, web, 2)
    api.change_class("bypass")
    house.join("other").send(web, "all that may wait")
    house.change_settings(pacing=PaceSettings(queue_per_session=1))
    assert api.send(web, "second")["state"] == "held"
    house.change_settings(pacing=PaceSettings(queue_per_session=1, max_hops=1))
    assert refused(lambda: api.send(web, "third")).code == "hop_limit"


def test_so_many_bytes_wait_for_one(house: House, api: Guest, web: Guest) -> None:
    size = 1_000_000
    for number in range(QUEUE_BYTES_PER_SESSION // size):
        api.send(web, f"{number:02}".ljust(size))
    assert refused(lambda: api.send(web, "x" * size)).code == "queue_full"
    assert api.send(web, "small")["state"] == "queued"


def test_buckets_say_which_and_how_long(house: House, api: Guest, web: Guest) -> None:
    """10.1: to one target, and in all."""
    other, third = house.join("other"), house.join("third")
    for target in (web, other):
        for number in range(30):
            api.send(target, f"{number}")
    refusal = refused(lambda: api.send(web, "30"))
    assert (refusal.code, refusal.data["retry_after_s"]) == ("rate_limited", 2.0)
    assert "to web" in refusal.text
    refusal = refused(lambda: api.send(third, "0"))
    assert (refusal.code, refusal.data["retry_after_s"]) == ("rate_limited", 1.0)
    assert "in all" in refusal.text
    house.pass_time(0.75)
    assert refused(lambda: api.send(third, "0")).data["retry_after_s"] == 0.3, "never too short"
    house.pass_time(0.3)
    api.send(third, "0")


# -- who hears of it ---------------------------------------------------------------------------------------------------


def warnings(house: House) -> list[str]:
    found: list[str] = house.script().ask("status")["warnings"]
    return found


def stopped(guest: Guest) -> list[str]:
    """The receipts that say so; the next look is the next step."""
    receipts = guest.line.ask("take", max=0)["receipts"]
    return [receipt["text"] for receipt in receipts if receipt["state"] == "stopped"]


def try_to_send(sender: Guest, receiver: Guest, times: int) -> set[str]:
    codes = set()
    for number in range(times):
        sender.house.pass_time(1)
        try:
            sender.send(receiver, f"try {sender.house.mono} {number}")
        except Refused as refusal:
            codes.add(refusal.code)
            continue
        receiver.read()
    return codes


@pytest.mark.parametrize("code, pause", [("hop_limit", SLOW_S), ("exchange_limit", 1.0)])
def test_both_sides_and_the_human_are_told_once(house: House, api: Guest, web: Guest, code: str, pause: float) -> None:
    """10.3, R1: however often it is tried, by either."""
    converse(api, web, 17 if code == "hop_limit" else 11, pause=pause)
    for _ in range(4):
        assert try_to_send(web, api, 10) == {code}
    (text,) = stopped(api)
    assert text.startswith("web ")
    assert is_sentence(text)
    assert stopped(web) == [], "it was told by the refusal"
    assert len(warnings(house)) == len(house.notified) == 1
    assert is_sentence(warnings(house)[0])
    assert "web" in warnings(house)[0]
    assert "api" in house.notified[0].text


def test_it_is_told_again_when_it_is_something_new(house: House, api: Guest, web: Guest) -> None:
    converse(api, web, 17)
    try_to_send(web, api, 3)
    assert len(stopped(api)) == 1
    turn(web, "human")
    house.pass_time(TOLD_AGAIN_S)
    web.line.tell("turn", phase="ended")
    assert converse(api, web, 17) == list(range(17))
    try_to_send(web, api, 3)
    assert len(stopped(api)) == 1
    assert len(house.notified) == 2
    assert len(warnings(house)) == 1, "one of each is kept"


def test_the_human_hears_of_a_sender_once_and_its_receivers_each(house: House, api: Guest, web: Guest) -> None:
    """Whom it tried to reach with it hears so; the human is not told about every one."""
    others = [house.join() for _ in range(5)]
    converse(api, web, 17)
    for other in others:
        assert refused(lambda to=other: web.send(to, "the same news")).code == "hop_limit"  # type: ignore[misc]
        assert len(stopped(other)) == 1
    assert len(house.notified) == len(warnings(house)) == 1


def test_what_was_told_is_not_remembered_without_end(house: House, api: Guest, web: Guest) -> None:
    brakes = house.broker._brakes
    converse(api, web, 17)
    for number in range(TOLD_KEPT + 1):
        house.broker.core.out = []
        brakes.count(api.session, web.session, "duplicate", house.now)
        brakes._is_news(house.now, "x", str(number))
    assert len(brakes._told) == TOLD_KEPT


def test_what_was_turned_away_is_counted_for_the_human(house: House, api: Guest, web: Guest) -> None:
    """10.1, R4: in the list, in the status, in the log; to sessions of their own only; other refusals are not."""
    other = house.join("other")
    follower = house.human()
    follower.ask("log", follow=True)
    for _ in range(30):
        house.pass_time(0.01)
        api.send(web, f"news {house.mono}")
    for number in range(5):
        house.pass_time(0.01)
        refused(lambda n=number: api.send(web, f"more {n}"))  # type: ignore[misc]
    house.pass_time(2)
    other.send(web, "hello")
    refused(lambda: other.send(web, "hello"))
    refused(lambda: other.send(web, ""))
    refused(lambda: other.send("nobody", "hello"))
    listed = {session["name"]: session["suppressed"] for session in house.listed()}
    assert listed == {"api": 0, "web": 6, "other": 0}
    assert house.script().ask("status")["suppressed"] == 6
    rows = house.script().ask("log")["suppressed"]
    assert [(row["from"]["name"], row["to"]["id"], row["code"], row["count"]) for row in rows] == [
        ("api", web.id, "rate_limited", 5),
        ("other", web.id, "duplicate", 1),
    ]
    assert rows[0]["first_at"] < rows[0]["last_at"]
    assert suppressed_of(web) == [5, 1]
    assert suppressed_of(api) == [5]
    assert suppressed_of(other) == [1]
    told = [params for method, params in follower.notes if method == "suppressed"]
    assert [(row["code"], row["count"]) for row in told] == [("rate_limited", 1), ("duplicate", 1)]
    house.pass_time(TOLD_AGAIN_S)
    other.send(web, "hello")
    refused(lambda: other.send(web, "hello"))
    assert [params["count"] for method, params in follower.notes if method == "suppressed"] == [1, 1, 2]


def suppressed_of(guest: Guest) -> list[int]:
    shell: Line = guest.shell()
    answer: Answer = shell.ask("log")
    return [row["count"] for row in answer["suppressed"]]

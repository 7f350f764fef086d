"""What a client may ask without changing anything; and that what it may not see is unknown to it."""

from __future__ import annotations

import pytest

from tests.support.core_house import Answer, Guest, House, is_sentence, refused
from xsessiond.core.effects import LookedUp, StoreReported
from xsessiond.core.limits import MAX_BODY, PING_AFTER_S
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.policy import CoreSettings, ShownValue

UNPACED = CoreSettings(pacing=PaceSettings(target_burst=0, sender_burst=0, duplicate_window=0, queue_per_session=5000))


# -- the roster --------------------------------------------------------------------------------------------------------


def test_everybody_sees_the_same_roster_and_itself_in_it(house: House, api: Guest, web: Guest) -> None:
    """D9, D13, 1.8, 1.9: A sees B as B sees A; people and scripts are not in it."""
    lines = {"api": api.line, "web": web.line, "shell": web.shell(), "human": house.human(), "script": house.script()}
    lists = {name: line.ask("list") for name, line in lines.items()}
    rows = [[{**row, "last_seen_at": None} for row in answer["sessions"]] for answer in lists.values()]
    assert all(row == rows[0] for row in rows)
    assert [row["name"] for row in rows[0]] == ["api", "web"]
    own = {name: answer["self"] and answer["self"]["name"] for name, answer in lists.items()}
    assert own == {"api": "api", "web": "web", "shell": "web", "human": None, "script": None}
    assert {tuple(answer["incomplete"]) for answer in lists.values()} == {()}


def test_those_who_may_be_resumed_are_listed_when_asked_for(house: House, api: Guest) -> None:
    """11.2: a conversation with an id, or one for which mail waits; nobody else who ended."""
    for name, talk, mail in (("resumable", "t1", False), ("mail", None, True), ("over", None, False)):
        guest = house.join(name, harness_session_id=talk)
        if mail:
            api.send(guest)
        house.kill(guest)
    assert [row["name"] for row in api.line.ask("list")["sessions"]] == ["api"]
    rows = api.line.ask("list", all=True)["sessions"]
    assert [(row["name"], row["state"], row["delivery"], row["queued"]) for row in rows] == [
        ("api", "unknown", "pull", 0),
        ("resumable", "offline", "none", 0),
        ("mail", "offline", "none", 1),
    ]


def test_a_listing_that_does_not_fit_says_how_many_are_missing(house: House) -> None:
    """1.10: it is cut between sessions, never within a frame."""
    for number in range(300):
        house.join(f"g-{number}", cwd="/" + "x" * 4090)
    answer = house.human().ask("list")
    shown, (missing,) = len(answer["sessions"]), answer["incomplete"]
    assert 200 < shown < 300
    assert missing["source"] == "box"
    assert is_sentence(missing["reason"])
    assert str(300 - shown) in missing["reason"]


def test_a_listing_asks_those_who_were_silent(house: House, api: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most so many at once; whoever was heard is not asked."""
    monkeypatch.setattr("xsessiond.core.questions.WONDER_MOST", 2)
    guests = [house.join(f"g-{number}") for number in range(4)]
    house.pass_time(PING_AFTER_S)
    guests[0].line.ask("whoami")
    api.line.ask("list")
    assert [len(guest.line.pings) for guest in guests] == [0, 1, 1, 0]


# -- mail --------------------------------------------------------------------------------------------------------------


def test_looking_into_the_inbox_takes_nothing(house: House, api: Guest, web: Guest) -> None:
    sent = api.send(web, "grüße", summary="s")
    house.pass_time(3)
    for line in (web.line, web.shell()):
        answer = line.ask("inbox")
        assert answer["session"]["name"] == "web"
        (message,) = answer["messages"]
        assert message == {
            "id": sent["id"], "from": api.id, "from_name": "api", "sent_at": "2027-01-15T08:00:00.000Z", "age_s": 3,
            "bytes": 7, "state": "queued", "summary": "s", "reply_to": None,
        }  # fmt: skip
    web.line.ask("handed", ids=[web.take()[0]["id"]])
    assert web.line.ask("inbox")["messages"][0]["state"] == "handed", "leased mail is still in it"
    web.read()
    for line in (house.human(), house.script()):
        assert line.ask("inbox") == {"messages": [], "receipts": [], "session": None}


# -- check -------------------------------------------------------------------------------------------------------------


def history(answer: Answer) -> list[str]:
    return [str(step["state"]) for step in answer["history"]]


def test_a_message_tells_its_life(house: House, api: Guest, web: Guest) -> None:
    """6.5: also after a restart, with the state of its target now."""
    sent = api.send(web, "one", summary="s")
    checked = api.check(sent)
    assert (checked["id"], checked["state"], checked["target_state"]) == (sent["id"], "queued", "unknown")
    assert checked["to"] == {"id": web.id, "ref": web.ref, "name": "web"}
    assert (checked["bytes"], checked["sha256"], checked["summary"], checked["reply_to"]) == (
        3,
        sent["sha256"],
        "s",
        None,
    )
    (message,) = web.take()
    house.pass_time(1)
    web.line.ask("handed", ids=[message["id"]])
    assert history(api.check(sent)) == ["queued", "handed"]
    house.restart()
    api.come_back()
    checked = api.check(sent)
    assert (checked["state"], history(checked)) == ("queued", ["queued", "handed"]), "nobody has it any more"
    web.line.drop()
    house.kill(web)
    assert api.check(sent)["target_state"] == "offline"
    house.broker.core.roster.forget(web.session)
    assert api.check(sent)["to"] == {"id": web.id, "ref": None, "name": "web"}


def test_a_renamed_target_is_shown_by_its_name_now(api: Guest, web: Guest) -> None:
    sent = api.send(web)
    web.line.ask("rename", name="shop")
    assert api.check(sent)["to"]["name"] == "shop"


def test_the_last_sends_newest_first(house: House, web: Guest) -> None:
    house = House(UNPACED)
    api, web, other = house.join("api"), house.join("web"), house.join("other")
    for number in range(1003):
        api.send(web, str(number))
    other.send(web, "not mine")
    messages = api.line.ask("check")["messages"]
    assert len(messages) == 1000
    assert len(messages[0]["id"]) == 34
    assert [message["bytes"] for message in messages] == [4] * 3 + [3] * 900 + [2] * 90 + [1] * 7
    assert house.human().ask("check")["messages"] == []


def test_the_last_sends_fit_into_a_frame() -> None:
    house = House(UNPACED)
    api, web = house.join("api"), house.join("web")
    for number in range(1000):
        api.send(web, str(number), summary="\x01" * 200)
    assert 400 < len(api.line.ask("check")["messages"]) < 1000


@pytest.mark.parametrize("message_id", ["", "m-1", "s-" + "0" * 32, "m-" + "0" * 32, "x" * 100_000])
def test_ids_that_mean_nothing_are_unknown(api: Guest, message_id: str) -> None:
    refusal = refused(lambda: api.check(message_id))
    assert refusal.code == "not_found"
    assert is_sentence(refusal.text)
    assert len(refusal.text) < 200


def test_what_is_not_the_callers_is_unknown(house: House, api: Guest, web: Guest) -> None:
    """6.5: also to the one who got it; a person may see all."""
    sent = api.send(web)
    assert refused(lambda: web.check(sent)).code == "not_found"
    assert house.human().ask("check", message_id=sent["id"])["state"] == "queued"


def test_what_got_further_while_the_store_was_asked_is_asked_again(house: House, api: Guest, web: Guest) -> None:
    """W2: the answer is true when it leaves."""
    sent = api.send(web)
    house.slow = True
    asked = api.line.begin("check", message_id=sent["id"])
    (question,) = house.questions
    old = house.store.find_message(sent["id"])
    house.questions.clear()
    web.read()
    house.handle(LookedUp(question.ticket, old))
    assert not api.line.is_answered(asked)
    house.answer_questions()
    checked = api.line.answer(asked)
    assert (checked["state"], history(checked)) == ("delivered", ["queued", "delivered"])


def test_what_the_store_does_not_know_yet_is_delivered_all_the_same(house: House, api: Guest, web: Guest) -> None:
    """Once more is enough: a broken disk must not make this go on for ever."""
    sent = api.send(web)
    house.failing = lambda ops: True
    web.line.tell("ack", ids=[web.take()[0]["id"]])
    checked = api.check(sent)
    assert (checked["state"], history(checked)) == ("delivered", ["queued"])
    assert api.line.ask("check")["messages"][0]["state"] == "delivered"


def test_what_memory_knows_before_the_store_is_told(house: House, api: Guest, web: Guest) -> None:
    sent = api.send(web)
    (message,) = web.take()
    house.failing = lambda ops: True
    refused(lambda: web.line.ask("handed", ids=[message["id"]]))
    checked = api.check(sent)
    assert (checked["state"], history(checked)) == ("handed", ["queued", "handed"])


# -- log ---------------------------------------------------------------------------------------------------------------


def test_a_person_reads_all_and_a_session_its_own(house: House, api: Guest, web: Guest) -> None:
    other = house.join("other")
    first = api.send(web, "one")
    house.pass_time(60)
    web.send(other, "two")
    web.send(api, "three")

    def read(line: object, **params: object) -> list[str]:
        return [entry["text"] for entry in line.ask("log", **params)["entries"]]  # type: ignore[attr-defined]

    human = house.human()
    assert read(human) == ["one", "two", "three"]
    assert read(human, limit=2) == ["two", "three"]
    assert read(human, limit=-5) == ["three"]
    assert read(human, since="2027-01-15T08:00:30Z") == ["two", "three"]
    assert read(human, thread=first["id"]) == ["one"]
    assert read(api.shell()) == ["one", "three"]
    assert read(other.shell()) == ["two"]


@pytest.mark.parametrize("since", ["yesterday", "", "x" * 100_000])
def test_a_time_that_is_none_is_refused(house: House, since: str) -> None:
    refusal = refused(lambda: house.human().ask("log", since=since))
    assert refusal.code == "usage"
    assert is_sentence(refusal.text)
    assert len(refusal.text) < 200


def test_only_people_follow_the_log(house: House, api: Guest) -> None:
    assert refused(lambda: api.shell().ask("log", follow=True)).code == "not_permitted"
    assert house.script().ask("log", follow=True)["entries"] == []
    assert house.broker.core.followers == 1


def test_the_newest_of_a_long_log_fit_into_a_frame() -> None:
    house = House(UNPACED)
    api, web = house.join("api"), house.join("web")
    for number in range(8):
        api.send(web, f"{number}" * 200_000)
    entries = house.human().ask("log")["entries"]
    assert [entry["text"][0] for entry in entries] == list("34567")


def test_the_longest_entry_fits_into_a_frame() -> None:
    house = House(UNPACED)
    api, web = house.join("api"), house.join("web")
    api.send(web, "x" * MAX_BODY, summary="\x01" * 200)
    (entry,) = house.human().ask("log")["entries"]
    assert len(entry["text"]) == MAX_BODY


# -- the broker --------------------------------------------------------------------------------------------------------


def test_status_has_all_keys_and_needs_no_greeting(house: House, api: Guest, web: Guest) -> None:
    """15.4"""
    api.send(web)
    house.pass_time(2)
    line = house.connect(house.human().peer, hello=False)
    assert line.ask("status") == {
        "broker": {
            "pid": 4711, "version": "0.1.0", "protocol": 1, "instance": "instance", "uptime_s": 2.0, "service": None,
            "started_at": "2027-01-15T08:00:00.000Z", "boot_clock_s": None,
        },
        "sessions": 2, "queued": 1, "held": 0, "suppressed": 0, "store": {"ok": True, "detail": "not checked yet"},
        "config": {"ok": True, "problems": []}, "warnings": [],
    }  # fmt: skip
    line.tell("status")


def test_status_turns_red_and_green_with_the_store(house: House, api: Guest, web: Guest) -> None:
    """D11, L13, 15.5: what `status` says is what a send meets: an error with its kind, or none."""
    house.failing = lambda ops: True
    assert refused(lambda: api.send(web)).code == "internal"
    assert house.human().ask("status")["store"] == {"ok": False, "detail": "The disk is full."}
    house.failing = lambda ops: False
    house.handle(StoreReported(None))
    assert house.human().ask("status")["store"] == {"ok": True, "detail": "The store works again."}
    assert api.send(web)["state"] == "queued"


def test_a_look_at_the_store_says_nothing_of_whether_it_can_be_written(house: House, api: Guest, web: Guest) -> None:
    """15.5: the one that runs after the start may end after the first send failed; nor does a write mend damage."""
    house.failing = lambda ops: True
    assert refused(lambda: api.send(web)).code == "internal"
    house.handle(StoreReported((True, "It is sound.")))
    assert house.human().ask("status")["store"] == {"ok": False, "detail": "The disk is full."}
    house.handle(StoreReported(None))
    house.handle(StoreReported((False, "Page 7 is damaged.")))
    house.handle(StoreReported(None))
    assert house.human().ask("status")["store"] == {"ok": False, "detail": "Page 7 is damaged."}


def test_a_store_that_cannot_be_read_is_told_to_whoever_asked(house: House, api: Guest) -> None:
    house.broken_reads = "The disk is broken."
    for line, method in ((api.line, "check"), (house.human(), "log")):
        refusal = refused(lambda line=line, method=method: line.ask(method))  # type: ignore[misc]
        assert refusal.code == "internal"
        assert is_sentence(refusal.text)
        assert "The disk is broken." in refusal.text


# -- decisions ---------------------------------------------------------------------------------------------------------


def test_the_log_says_what_was_decided(house: House, web: Guest) -> None:
    """5.7, H9: who, when, by which rule; nothing where nothing was."""
    daring = house.join("daring", **{"class": "bypass"})
    approved, denied = daring.send(web, "approved"), daring.send(web, "denied")
    house.pass_time(60)
    house.approve(approved)
    house.deny(denied, reason="not now")
    house.join("other").send(web, "plain")
    entries = house.human().ask("log")["entries"]
    decisions = [[(one["state"], one["by"], one["rule"]) for one in entry["decisions"]] for entry in entries]
    rule = approved["rule"]
    assert decisions == [
        [("held", None, rule), ("queued", "human ann", "approved")],
        [("held", None, rule), ("denied", "human ann", "not now")],
        [],
    ]
    assert [entry["state"] for entry in entries] == ["queued", "denied", "queued"]
    assert entries[0]["decisions"][1]["at"] > entries[0]["sent_at"]


def test_who_follows_hears_of_what_comes_while_the_store_is_looked_at(house: House, api: Guest, web: Guest) -> None:
    """13: else a message that is accepted meanwhile is neither in the answer nor told."""
    line = house.human()
    house.slow = True
    asked = line.begin("log", follow=True)
    sent = api.send(web)
    assert [params["id"] for method, params in line.notes if method == "entry"] == [sent["id"]]
    house.slow = False
    house.answer_questions()
    assert "entries" in line.answer(asked)
    assert house.broker.core.followers == 1


def test_who_follows_hears_of_decisions(house: House, web: Guest) -> None:
    """As they are made: approved, denied, expired, released and refused by a rule."""
    daring = house.join("daring", **{"class": "bypass"})
    line = house.script()
    line.ask("log", follow=True)

    def last() -> tuple[str, str, str | None]:
        method, params = line.notes[-1]
        assert method == "decision"
        return params["id"], params["state"], params["by"]

    sent = [daring.send(web, str(number)) for number in range(4)]
    assert [method for method, _ in line.notes] == ["entry"] * 4
    assert line.notes[0][1]["state"] == "held"
    house.approve(sent[0])
    assert last() == (sent[0]["id"], "queued", "human ann")
    house.deny(sent[1])
    assert last() == (sent[1]["id"], "denied", "human ann")
    web.change_class("bypass")
    assert last() == (sent[3]["id"], "queued", None)


def test_the_settings_in_force_are_shown(house: House) -> None:
    """C5: each with where it was written, and what is wrong with them."""
    shown = ShownValue("inbound.policy", "hold", "user", "config.toml:2")
    house.change_settings(shown=(shown,), config_problems=("A problem.",), config_ok=False)
    answer = house.script().ask("config")
    assert answer == {
        "values": [{"key": "inbound.policy", "value": "hold", "source": "user", "where": "config.toml:2"}],
        "problems": ["A problem."],
        "ok": False,
    }
    assert house.script().ask("status")["config"] == {"ok": False, "problems": ["A problem."]}

"""Notices when a session is idle: one for each two, once, and true when it is told."""

from __future__ import annotations

import pytest

from tests.support.core_house import Answer, Guest, House, Line, is_sentence, refused
from xsessiond.core.limits import (
    GRACE_S,
    IDLE_SETTLE_S,
    LINKS_PER_SESSION,
    PING_AFTER_S,
    PONG_WITHIN_S,
    UNAVAILABLE_AFTER_S,
    WATCH_MS,
    WATCHES_PER_SESSION,
)
from xsessiond.core.policy import CoreSettings
from xsessiond.core.records import DropWatch, PutMessage, PutWatch
from xsessiond.core.watchers import HUMAN_TITLES, SENTENCES

HALF_A_DAY = WATCH_MS / 1000


@pytest.fixture
def web(house: House) -> Guest:
    """One whose harness tells, and that is at work."""
    guest = house.join("web", push=True, delivery="push")
    guest.is_now("busy")
    return guest


def told(guest: Guest) -> list[str]:
    """The outcomes that it was told, each once."""
    return [notice["state"] for notice in guest.notices()]


def is_empty(house: House) -> bool:
    """Whether the broker remembers nobody who asked, and waits for nothing on their behalf."""
    core = house.broker.core
    kinds = {kind for kind, _ in core.agenda._due}
    return not core.watches and not core.stirred and not kinds & {"idle", "watch"} and not house.store.load().watches


# -- asking ------------------------------------------------------------------------------------------------------------


def test_a_session_is_told_once_when_another_has_finished(house: House, api: Guest, web: Guest) -> None:
    """9.1: after a moment in which it stays so; R9: as a receipt, which nobody can reply to."""
    answer = api.watch(web)
    until = "2027-01-15T20:00:00.000Z"
    assert answer == {
        "id": None, "state": None, "to": {"id": web.id, "ref": web.ref, "name": "web"}, "rule": None,
        "expires_at": None, "bytes": None, "sha256": None, "reply": None,
        "notice": "You are told once, when it is idle. Do not ask again.",
        "watch": {"state": "watching", "until": until},
    }  # fmt: skip
    house.pass_time(100)
    web.is_now("idle")
    house.pass_time(IDLE_SETTLE_S - 0.01)
    assert told(api) == []
    house.pass_time(0.01)
    (notice,) = api.notices()
    assert (notice["id"], notice["state"]) == (web.id, "idle")
    assert notice["text"] == f"web [{web.ref}] is idle: it has finished, and nothing waits for it."
    assert is_empty(house)
    web.is_now("busy")
    web.is_now("idle")
    house.pass_time(HALF_A_DAY * 2)
    assert told(api) == []
    assert refused(lambda: api.send(None, "thanks", reply_to=web.id)).code == "not_found"
    assert web.line.pushes == [], "it costs the watched session nothing"


def test_nothing_follows_from_a_notice(house: House, api: Guest, web: Guest) -> None:
    """R9: it wakes its asker, once; it is no mail, has no reply and no receipt. What is sent because of it counts as
    caused, so that it cannot keep a circle going."""
    api.watch(web)
    before = house.state()
    web.is_now("idle")
    house.pass_time(60)
    assert api.line.notes == [("news", {"receipts": 1, "wake": True})]
    assert house.state()["boxes"] == before["boxes"]
    assert house.state()["log"] == before["log"]
    (notice,) = api.notices()
    for reply in ({"reply_to": notice["id"]}, {"to": web.id, "reply_to": notice["id"]}):
        assert refused(lambda reply=reply: api.line.ask("send", message="thanks", **reply)).code == "not_found"  # type: ignore[misc]
    assert api.send(web, "on with it")["state"] == "queued"
    (push,) = web.line.pushes
    assert push["message"]["hop"] == 2
    assert (api.line.notes[1:], web.notices()) == ([], [])


def test_one_that_is_idle_already_is_told_at_once(house: House, api: Guest, web: Guest) -> None:
    """9.1: in the answer itself, so that asking again and again wakes nobody."""
    web.is_now("idle")
    house.pass_time(IDLE_SETTLE_S)
    answer = api.watch(web)
    assert (answer["watch"], answer["notice"]) == ({"state": "idle", "until": None}, None)
    assert is_empty(house)
    assert told(api) == []


def test_one_that_was_heard_of_just_now_is_not_called_idle_yet(house: House, api: Guest, web: Guest) -> None:
    """Its harness may go on by itself right after the end of a turn."""
    web.is_now("idle")
    house.pass_time(IDLE_SETTLE_S / 2)
    assert api.watch(web)["watch"]["state"] == "watching"
    house.pass_time(IDLE_SETTLE_S / 4)
    web.is_now("busy")
    house.pass_time(60)
    assert told(api) == []
    web.is_now("idle")
    house.pass_time(IDLE_SETTLE_S / 2)
    house.join("eve").watch(web)
    house.pass_time(IDLE_SETTLE_S / 2)
    assert told(api) == ["idle"], "another wish does not put it off"


def test_a_wish_that_is_answered_at_once_ends_an_earlier_one(house: House, api: Guest, web: Guest) -> None:
    api.watch(web)
    web.is_now("idle")
    web.session.seen -= IDLE_SETTLE_S  # as if it had said so a while ago, and the moment is not over
    assert api.watch(web)["watch"]["state"] == "idle"
    assert is_empty(house)
    house.pass_time(60)
    assert told(api) == []


def test_a_text_goes_along(house: House, api: Guest, web: Guest) -> None:
    """9.1: and defers the notice until it was read and the turn that it started is over."""
    web.is_now("idle")
    house.pass_time(60)
    sent = api.send(web, "please run the tests", notify_when_idle=True)
    assert (sent["state"], sent["watch"]["state"]) == ("queued", "watching")
    house.pass_time(60)
    assert told(api) == [], "it has mail"
    web.is_now("busy")
    web.ack(sent)
    house.pass_time(60)
    assert told(api) == []
    web.is_now("idle")
    house.pass_time(IDLE_SETTLE_S)
    assert told(api) == ["idle"]
    assert "watch" not in api.send(web, "thanks"), "who does not ask is not told of it"


@pytest.mark.parametrize("how", ["approve", "deny", "expire"])
def test_held_mail_defers_the_notice(how: str) -> None:
    """9.1: it may yet make the session busy."""
    house = House(CoreSettings(hold_expiry_ms=600_000))
    api, web = house.join("api"), house.join("web", delivery="push", **{"class": "bypass"})
    web.is_now("idle")
    house.pass_time(60)
    sent = api.send(web, "rm -rf build", notify_when_idle=True)
    assert sent["state"] == "held"
    web.line.pong()
    house.pass_time(100)
    if how == "approve":
        house.approve(sent)
        house.pass_time(100)
        assert told(api) == ["released"]
        web.read()
    elif how == "deny":
        house.deny(sent)
    else:
        house.pass_time(500)
    house.pass_time(IDLE_SETTLE_S)
    assert [state for state in told(api) if state == "idle"] == ["idle"]


def test_mail_of_others_defers_it_too(house: House, api: Guest, web: Guest) -> None:
    api.watch(web)
    house.join("eve").send(web, "hello")
    web.is_now("idle")
    house.pass_time(60)
    assert told(api) == []
    web.line.tell("ack", upto=1)
    house.pass_time(IDLE_SETTLE_S)
    assert told(api) == ["idle"]


def test_asking_again_is_one_notice_and_the_whole_time_anew(house: House, api: Guest, web: Guest) -> None:
    api.watch(web)
    house.pass_time(HALF_A_DAY - 60)
    assert api.watch(web)["watch"]["until"] == "2027-01-16T07:59:00.000Z"
    house.pass_time(3600)
    assert told(api) == []
    web.is_now("idle")
    house.pass_time(60)
    assert told(api) == ["idle"]


def test_who_answered_may_be_watched_by_its_message(house: House, api: Guest, web: Guest) -> None:
    """8.1: the session that sent it, whatever names do."""
    sent = web.send(api, "I am at it")
    api.read()
    assert api.line.ask("send", reply_to=sent["id"], notify_when_idle=True)["to"]["id"] == web.id
    assert refused(lambda: api.line.ask("send", reply_to="m-0", notify_when_idle=True)).code == "not_found"


def test_a_name_that_changed_is_told(house: House, api: Guest, web: Guest) -> None:
    api.send("web", "hello")
    web.line.ask("rename", name="www")
    answer = api.watch("web")
    assert (
        answer["notice"] == f"web is now called www [{web.ref}]. You are told once, when it is idle. Do not ask again."
    )


def test_a_key_belongs_to_a_message(house: House, api: Guest, web: Guest) -> None:
    """Clients put one into every request. One that comes again with its key has one notice all the same."""
    sent = api.send(web, "hello", key="k")
    assert api.watch(web, key="k")["id"] is None
    assert api.send(web, "hello", key="k")["id"] == sent["id"]


# -- who may ask of whom -----------------------------------------------------------------------------------------------


def test_what_cannot_be_told_is_refused_at_once(house: House, api: Guest, web: Guest) -> None:
    """9.1, 3.6: with a text, too, and then that is not sent either."""
    plain, gone = house.join("plain"), house.join("gone", delivery="push", harness_session_id="t")
    gone.line.ask("end")
    person = house.human()
    question = person.ask("send", to=api.id, message="how far are you?")["id"]
    api.read()
    cases: list[tuple[Line, Answer, str]] = [
        (api.line, {"to": plain.id}, "unsupported_mode"),
        (api.line, {"to": gone.id}, "not_running"),
        (api.line, {"to": api.id}, "self_target"),
        (api.line, {"to": "nobody"}, "not_found"),
        (api.line, {"reply_to": question}, "unsupported_mode"),
        (house.script(), {"to": web.id}, "not_permitted"),
    ]
    cases += [(line, {**params, "message": "hello"}, code) for line, params, code in cases]
    cases.append((api.line, {"to": gone.id, "message": "hello", "when_offline": "queue"}, "not_running"))
    for line, params, code in cases:
        before = house.state()
        refusal = refused(lambda line=line, params=params: line.ask("send", notify_when_idle=True, **params))  # type: ignore[misc]
        assert (refusal.code, is_sentence(refusal.text)) == (code, True)
        assert house.state() == before
    assert is_empty(house)


@pytest.mark.parametrize("delivery, state", [("push", "unknown"), ("turn", "unknown"), ("pull", "busy")])
def test_one_that_tells_or_will_tell_can_be_watched(house: House, api: Guest, delivery: str, state: str) -> None:
    """A session with hooks has said nothing yet right after its start."""
    other = house.join("other", delivery=delivery)
    if state != "unknown":
        other.is_now(state)
    assert api.watch(other)["watch"]["state"] == "watching"
    other.is_now("idle")
    house.pass_time(60)
    assert told(api) == ["idle"]


def test_a_session_waits_for_a_bounded_number_of_others(house: House, api: Guest) -> None:
    """9.2: n - 1, n, n + 1; each asker by itself; asking again is no further one."""
    others = [house.join(f"n{number}", delivery="push") for number in range(WATCHES_PER_SESSION + 1)]
    for other in others[:-1]:
        assert api.watch(other)["watch"]["state"] == "watching"
    before = house.state()
    refusal = refused(lambda: api.watch(others[-1]))
    assert (refusal.code, is_sentence(refusal.text)) == ("queue_full", True)
    assert refused(lambda: api.send(others[-1], "hello", notify_when_idle=True)).code == "queue_full"
    assert house.state() == before
    api.watch(others[0])
    assert others[1].watch(others[-1])["watch"]["state"] == "watching"
    others[0].is_now("idle")
    house.pass_time(60)
    assert told(api) == ["idle"]
    api.watch(others[-1])


def test_several_wait_for_one(house: House, api: Guest, web: Guest) -> None:
    eve = house.join("eve")
    api.watch(web)
    house.pass_time(60)
    eve.watch(web)
    web.is_now("idle")
    house.pass_time(60)
    assert (told(api), told(eve)) == (["idle"], ["idle"])
    assert is_empty(house)


def test_a_person_is_told_on_the_desktop_and_in_the_inbox(house: House, web: Guest) -> None:
    """9.1: the terminal is free at once."""
    person = house.human()
    answer = person.ask("send", to="web", notify_when_idle=True)
    assert answer["watch"]["state"] == "watching"
    assert answer["notice"].endswith("on your desktop if approvals.notify is set, and by xsessionctl inbox.")
    person.drop()
    web.is_now("idle")
    house.pass_time(60)
    (note,) = house.notified
    assert (note.title, note.text) == (
        "web is idle",
        f"web [{web.ref}] is idle: it has finished, and nothing waits for it.",
    )
    person = house.human()
    for _ in range(2):
        (receipt,) = person.ask("inbox")["receipts"]
        assert receipt["state"] == "idle"
    assert person.ask("take")["receipts"] == [receipt]
    person.ask("ack", ids=[])
    assert person.ask("inbox")["receipts"] == []
    assert is_empty(house)


# -- how it ends -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["end", "kill", "lost", "off"])
def test_a_session_that_ends_is_told_as_that(house: House, api: Guest, web: Guest, how: str) -> None:
    """9.1: whatever ended it."""
    other = house.join("other", pid=0, delivery="push") if how == "lost" else web
    api.watch(other)
    if how == "end":
        other.line.ask("end")
    elif how == "kill":
        house.kill(other)
    elif how == "lost":
        other.line.drop()
        house.pass_time(GRACE_S)
    else:
        house.change_project(other, off=True)
    (notice,) = api.notices()
    assert (notice["state"], notice["text"]) == (
        "exited",
        f"{other.name} [{other.ref}] has ended; it will not be idle any more.",
    )
    assert is_empty(house)


def test_it_is_in_vain_after_half_a_day(house: House, api: Guest, web: Guest) -> None:
    """9.1: 12 h of the wall clock, each for itself."""
    eve = house.join("eve")
    api.watch(web)
    house.pass_time(60)
    eve.watch(web)
    house.pass_time(HALF_A_DAY - 60 - 0.01)
    assert told(api) == []
    house.pass_time(0.01)
    (notice,) = api.notices()
    assert (notice["state"], notice["text"].split(" in ")[0]) == ("expired", f"web [{web.ref}] was not idle")
    assert told(eve) == []
    house.pass_time(60)
    assert told(eve) == ["expired"]
    assert is_empty(house)


def test_the_half_day_goes_on_while_the_machine_sleeps(house: House, api: Guest, web: Guest) -> None:
    api.watch(web)
    house.ms += WATCH_MS  # and the monotonic clock stood still
    house.pass_time(3600)
    assert told(api) == ["expired"]


@pytest.mark.parametrize("comes_back", [True, False])
def test_one_whose_door_broke_gets_some_time(house: House, api: Guest, comes_back: bool) -> None:  # noqa: FBT001
    """9.1, W17: then it cannot be told any more."""
    other = house.join("other", delivery="push")
    api.watch(other)
    other.line.ask("update", delivery="pull")
    house.pass_time(UNAVAILABLE_AFTER_S - 0.01)
    assert told(api) == []
    if comes_back:
        other.line.ask("update", delivery="push")
    house.pass_time(0.01)
    assert told(api) == ([] if comes_back else ["unavailable"])
    assert is_empty(house) is not comes_back


def test_a_session_that_does_not_answer_is_not_called_idle(house: House, api: Guest, web: Guest) -> None:
    """1.6: until it is heard of again."""
    house.pass_time(PING_AFTER_S)
    api.watch(web)
    web.session.state = "idle"
    api.line.ask("list")
    house.pass_time(PONG_WITHIN_S)
    assert web.session.unresponsive
    house.pass_time(60)
    assert told(api) == []
    web.line.pong()
    house.pass_time(IDLE_SETTLE_S)
    assert told(api) == ["idle"]


def test_a_broken_link_is_waited_for(house: House, api: Guest, web: Guest) -> None:
    """1.5: what it was before says nothing about now; the last of several links is what counts."""
    web.is_now("idle")
    api.watch(web)
    web.line.drop()
    house.pass_time(10)
    assert told(api) == []
    web.come_back(push=True)
    first = web.line
    for _ in range(LINKS_PER_SESSION - 1):
        web.attach()
    first.drop()
    house.pass_time(IDLE_SETTLE_S)
    assert told(api) == ["idle"]


def test_what_only_looks_idle_for_a_moment_is_not(house: House, api: Guest, web: Guest) -> None:
    """Each change begins the moment anew."""
    api.watch(web)
    for _ in range(5):
        web.is_now("idle")
        house.pass_time(IDLE_SETTLE_S / 2)
        web.is_now("busy")
        house.pass_time(IDLE_SETTLE_S)
    web.is_now("idle")
    house.pass_time(IDLE_SETTLE_S / 2)
    api.send(web, "one more")  # without a word of its harness
    house.pass_time(60)
    assert told(api) == []
    web.line.tell("ack", upto=1)
    house.pass_time(IDLE_SETTLE_S)
    assert told(api) == ["idle"]


def test_who_asks_its_user_something_has_not_finished(house: House, api: Guest, web: Guest) -> None:
    api.watch(web)
    web.is_now("waiting")
    house.pass_time(3600)
    assert told(api) == []


# -- what survives -----------------------------------------------------------------------------------------------------


def test_it_survives_the_broker_and_is_told_once(house: House, api: Guest, web: Guest) -> None:
    """9.2: also if it died right after it was told."""
    api.watch(web)
    house.restart()
    api.come_back()
    web.come_back()
    web.is_now("idle")
    house.pass_time(IDLE_SETTLE_S)
    house.restart()
    api.come_back()
    web.come_back()
    web.is_now("idle")
    assert told(api) == ["idle"]
    house.pass_time(60)
    house.restart()
    api.come_back()
    assert told(api) == []
    assert is_empty(house)


def test_one_that_does_not_come_back_after_a_restart_has_ended(house: House, api: Guest) -> None:
    other = house.join("other", pid=0, delivery="push")
    api.watch(other)
    house.restart()
    api.come_back()
    house.pass_time(GRACE_S)
    assert told(api) == ["exited"]


def test_a_reboot_ends_those_who_were_watched(house: House, api: Guest, web: Guest) -> None:
    """P17: and who asked hears of it when its conversation is back."""
    api = house.join("ann", harness_session_id="talk-1")
    api.watch(web)
    house.restart(boot="boot-2")
    assert is_empty(house)
    back = house.join("ann", harness_session_id="talk-1")
    assert back.id == api.id
    assert told(back) == ["exited"]


def test_half_a_day_is_over_while_there_was_no_broker(house: House, api: Guest, web: Guest) -> None:
    api.watch(web)
    house.ms += WATCH_MS
    house.restart()
    api.come_back()
    house.pass_time(1)
    assert told(api) == ["expired"]


def test_a_watch_of_nobody_is_dropped(house: House, api: Guest, web: Guest) -> None:
    """Which cannot come about, but for a store that was tampered with."""
    api.watch(web)
    house.store._watches[api.id, "s-0"] = house.store._watches[api.id, web.id].__class__(api.id, "s-0", 1, 2)
    house.restart()
    assert [row.target_id for row in house.store.load().watches] == [web.id]
    assert "not known" in house.logs[-1].what


def test_who_asked_and_ended_hears_it_when_it_resumes(house: House, web: Guest) -> None:
    ann = house.join("ann", harness_session_id="talk-1")
    ann.watch(web)
    ann.line.ask("end")
    web.is_now("idle")
    house.pass_time(60)
    back = house.join("ann", harness_session_id="talk-1")
    assert told(back) == ["idle"]


def test_who_asked_and_is_not_known_any_more_hears_nothing(house: House, web: Guest) -> None:
    ann = house.join("ann")
    ann.watch(web)
    ann.line.ask("end")
    house.broker.core.roster.forget(ann.session)
    web.is_now("idle")
    house.pass_time(60)
    assert house.broker.core.receipts == {}
    assert is_empty(house)


def test_a_wish_that_was_not_stored_never_was(house: House, api: Guest, web: Guest) -> None:
    """3.3: its asker heard so. A longer time for an earlier wish is stored later."""
    house.failing = lambda ops: any(isinstance(op, PutWatch) for op in ops)
    assert refused(lambda: api.watch(web)).code == "internal"
    assert refused(lambda: api.send(web, "hello", notify_when_idle=True)).code == "internal"
    assert is_empty(house)
    house.failing = lambda ops: False
    web.come_back()  # it was pushed what never was
    api.watch(web)
    house.pass_time(60)
    house.failing = lambda ops: any(isinstance(op, PutWatch) for op in ops)
    assert refused(lambda: api.watch(web)).code == "internal"
    assert house.broker.core.watches != {}
    house.pay()
    web.is_now("idle")
    house.pass_time(60)
    assert told(api) == ["idle"]


def test_a_notice_that_was_not_stored_is_told_all_the_same(house: House, api: Guest, web: Guest) -> None:
    """And stored when the store works again, with the end of the wish: both or none."""
    api.watch(web)
    house.failing = lambda ops: any(isinstance(op, DropWatch) for op in ops)
    web.is_now("idle")
    house.pass_time(60)
    house.failing = lambda ops: False
    assert {type(op).__name__ for op in house.owed} == {"DropWatch", "PutReceipt"}
    house.pay()
    house.restart()
    api.come_back()
    assert told(api) == ["idle"]
    assert is_empty(house)


def test_only_the_latest_wish_is_forgotten_with_its_event(house: House, api: Guest, web: Guest) -> None:
    """A slow disk: told meanwhile, and asked again, when the first is found to be lost."""
    lost = []
    house.failing = lambda ops: bool(lost.extend(op for op in ops if isinstance(op, PutWatch))) or bool(lost)
    refused(lambda: api.watch(web))
    house.failing = lambda ops: False
    house.pass_time(1)
    api.watch(web)
    assert house.broker._watchers.forget(lost[0].row)
    assert house.broker.core.watches != {}


def test_a_message_that_was_not_stored_takes_its_wish_along(house: House, api: Guest, web: Guest) -> None:
    house.failing = lambda ops: any(isinstance(op, PutMessage) for op in ops)
    assert refused(lambda: api.send(web, "hello", notify_when_idle=True)).code == "internal"
    assert is_empty(house)


@pytest.mark.parametrize("texts", [SENTENCES, HUMAN_TITLES])
def test_every_outcome_has_its_words(texts: dict[str, str]) -> None:
    assert set(texts) == {"idle", "exited", "expired", "unavailable"}
    for text in texts.values():
        assert is_sentence(text.format(name="web [1a2b3c]") + ("" if text.endswith(".") else "."))


# -- what is done then -------------------------------------------------------------------------------------------------


def hop_of_next(api: Guest, house: House, number: int = 0) -> int:
    """The hop of what api says now."""
    api.send(house.join(), f"next {number}")
    entry = house.script().ask("log")["entries"][-1]
    return int(entry["hop"])


def finish(house: House, web: Guest) -> None:
    web.is_now("busy")
    web.is_now("idle")
    house.pass_time(IDLE_SETTLE_S)


def test_what_is_done_on_a_notice_is_caused_by_it(house: House, api: Guest, web: Guest) -> None:
    """10.2, 10.5: as by an answer to what was sent when it was asked for; else it would be a loop without an end."""
    api.send(web, "the first task", notify_when_idle=True)
    web.line.tell("ack", upto=1)
    finish(house, web)
    assert hop_of_next(api, house) == 0, "it has not been told"
    assert told(api) == ["idle"]
    assert hop_of_next(api, house) == 2
    assert house.script().ask("log")["entries"][-1]["cause"] == web.id
    assert api.watch(web)["watch"]["state"] == "idle", "told in the answer: nobody is woken by that"
    web.is_now("busy")
    api.watch(web)
    finish(house, web)
    assert told(api) == ["idle"]
    assert hop_of_next(api, house) == 4
    api.line.ask("turn", phase="started", by="human")
    assert hop_of_next(api, house) == 0


def test_asked_twice_it_comes_from_as_far_as_the_farther(house: House, api: Guest, web: Guest) -> None:
    """Over a restart of the broker too."""
    other = house.join("other")
    other.send(api, "hop 0")
    api.read()
    api.watch(web)
    api.line.ask("turn", phase="started", by="human")
    api.watch(web)
    house.restart()
    for guest in (api, web):
        guest.come_back(push=guest is web)
    house.pass_time(1000)
    finish(house, web)
    house.restart()
    api.come_back()
    assert hop_of_next(api, house) == 0
    assert told(api) == ["idle"]
    assert hop_of_next(api, house) == 3

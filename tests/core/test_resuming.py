"""Conversations that are started again for a message: one attempt for all, and a failure stores nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.core_house import Guest, House, Pending, is_sentence, refused
from xsessiond.core.effects import EndAttempt, StartConversation, StopAsked
from xsessiond.core.limits import RESUME_PAUSE_S, RESUME_WITHIN_S, RESUMES_AT_ONCE
from xsessiond.core.policy import CoreSettings
from xsessiond.core.resuming import last_line

COMMAND = ("codex", "resume", "{harness_session_id}", "--cd", "{cwd}")
SETTINGS = CoreSettings(resume={"codex": COMMAND})


@pytest.fixture
def house() -> House:
    return House(SETTINGS)


@pytest.fixture
def web(house: House) -> Guest:
    """One whose conversation ended."""
    return gone(house)


def gone(house: House, name: str = "web", talk: str = "talk-1", **params: Any) -> Guest:
    guest = house.join(name, harness_session_id=talk, delivery="push", **params)
    guest.line.ask("end")
    return guest


def back(house: House, **params: Any) -> Guest:
    """The conversation is there, as the command brought it about."""
    return house.join(None, harness_session_id="talk-1", **params)


def begin(sender: Guest, to: Guest | str, text: str = "hello", **params: Any) -> int:
    return sender.begin_send(to, text, when_offline="resume", **params)


def is_over(house: House) -> bool:
    """Whether nothing is tried, and nobody waits."""
    return not house.broker._resuming.trying and not [
        key for key in house.broker.core.agenda._due if key[0] == "resume"
    ]


# -- it comes ----------------------------------------------------------------------------------------------------------


def test_the_users_command_is_started_and_the_message_delivered(house: House, api: Guest, web: Guest) -> None:
    """11.1: with the conversation's id and folder as arguments; nothing is accepted before it is there."""
    before = house.state()
    asked = begin(api, web, "please go on")
    assert house.started == [StartConversation(1, ("codex", "resume", "talk-1", "--cd", "/src/app"), "/src/app")]
    assert house.state() == before
    house.pass_time(20)
    assert not api.line.is_answered(asked)
    again = back(house)
    answer = api.line.answer(asked)
    assert (answer["state"], answer["to"]["id"]) == ("queued", web.id)
    assert answer["notice"] == "web was not running; it was resumed for this."
    assert (again.id, again.name, again.read()) == (web.id, "web", ["please go on"])
    assert house.attempts_ended == [EndAttempt(1, arrived=True)]
    assert is_over(house)
    house.end_command()
    house.pass_time(1000)
    assert api.told() == []


def test_registering_is_not_enough(house: House, api: Guest, web: Guest) -> None:
    """It can be reached once its link is there."""
    asked = begin(api, web)
    guest = Guest(house, 77_000, {**web.params, "pid": 77_000})
    guest.register()
    assert not api.line.is_answered(asked)
    guest.attach()
    assert api.line.answer(asked)["state"] == "queued"


def test_a_command_that_starts_it_and_ends_is_waited_for(house: House, api: Guest, web: Guest) -> None:
    """As `tmux new -d` does."""
    asked = begin(api, web)
    house.end_command()
    house.pass_time(RESUME_WITHIN_S - 1)
    assert not api.line.is_answered(asked)
    back(house)
    assert api.line.answer(asked)["state"] == "queued"


def test_a_conversation_that_tells_its_id_late_is_the_one(house: House, api: Guest, web: Guest) -> None:
    """Some harnesses say which conversation it is with the first call: until then it is a session like any other."""
    asked = begin(api, web)
    guest = house.join("fresh")
    assert not api.line.is_answered(asked)
    guest.line.ask("update", harness_session_id="talk-1")
    assert api.line.answer(asked)["to"]["id"] == guest.id
    assert guest.read() == ["hello"]


def test_all_who_wait_share_one_attempt(house: House, api: Guest, web: Guest) -> None:
    """11.1: in the order in which they asked."""
    eve = house.join("eve")
    asked = [(guest, begin(guest, web, f"{guest.name} {number}")) for number in range(3) for guest in (api, eve)]
    assert len(house.started) == 1
    again = back(house)
    assert [guest.line.answer(one)["state"] for guest, one in asked] == ["queued"] * 6
    assert again.read() == ["api 0", "eve 0", "api 1", "eve 1", "api 2", "eve 2"]


def test_one_that_runs_is_not_started(house: House, api: Guest) -> None:
    other = house.join("other", harness_session_id="talk-9")
    assert api.send(other, when_offline="resume")["state"] == "queued"
    assert house.started == []


def test_a_reply_resumes_who_asked(house: House, api: Guest, web: Guest) -> None:
    """8.1: also where the store must be asked for the original, and it is asked again when its sender is there."""
    asker = back(house)
    asker.send(api, "which port?")
    (question,) = api.take()
    asker.line.ask("end")
    asked = api.line.begin("send", reply_to=question["id"], message="8080", when_offline="resume", to="web")
    api.ack(question)
    again = back(house)
    answer = api.line.answer(asked)
    assert (answer["to"]["id"], answer["notice"]) == (web.id, "web was not running; it was resumed for this.")
    (message,) = again.take()
    assert (message["text"], message["reply_to"]) == ("8080", question["id"])


def test_whoever_has_its_name_meanwhile_gets_nothing(house: House, api: Guest, web: Guest) -> None:
    """N1, N10: it is found by what it was when it was asked for."""
    asked = begin(api, "web")
    thief = house.join("web")
    again = back(house)
    assert again.name != "web"
    assert api.line.answer(asked)["to"]["id"] == web.id
    assert (thief.read(), again.read()) == ([], ["hello"])


def test_a_reply_may_be_waited_for_after_that(house: House, api: Guest, web: Guest) -> None:
    asked = begin(api, web, "which port?", wait_reply=60)
    again = back(house)
    assert not api.line.is_answered(asked)
    (message,) = again.take()
    again.send(None, "8080", reply_to=message["id"])
    assert api.line.answer(asked)["reply"]["text"] == "8080"


def test_one_may_ask_to_be_told_too(house: House, api: Guest, web: Guest) -> None:
    asked = begin(api, web, notify_when_idle=True)
    again = back(house, delivery="push")
    assert api.line.answer(asked)["watch"]["state"] == "watching"
    again.read()
    again.is_now("idle")
    house.pass_time(60)
    assert [notice["state"] for notice in api.notices()] == ["idle"]


def test_that_is_refused_once_it_turns_out_to_be_in_vain(house: House, api: Guest, web: Guest) -> None:
    asked = begin(api, web, notify_when_idle=True)
    again = back(house)
    assert refused(lambda: api.line.answer(asked)).code == "unsupported_mode"
    assert again.read() == []


# -- what is checked when ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["refused", "hold_full", "queue_full", "rate_limited", "unsupported_mode"])
def test_what_would_be_refused_starts_nothing(what: str) -> None:
    house = House(SETTINGS)
    house.change_settings(held_per_session=1)
    api = house.join("api")
    if what == "refused":
        web = gone(house, inbound="refuse")
    elif what == "hold_full":
        web = gone(house, inbound="hold")
        api.send(web, "1", when_offline="queue")
    else:
        web = gone(house)
        for number in range({"queue_full": 50, "rate_limited": 30}.get(what, 0)):
            (api if what == "rate_limited" or number < 25 else house.join(f"n{number}")).send(
                web, str(number), when_offline="queue"
            )
    mode = "steer" if what == "unsupported_mode" else "auto"
    assert refused(lambda: api.line.answer(begin(api, web, mode=mode))).code == what
    assert house.started == []


def test_a_held_message_starts_nothing(house: House, api: Guest) -> None:
    """A human decides first. It is kept for the conversation, and the answer says so."""
    web = gone(house, inbound="hold")
    answer = api.line.answer(begin(api, web))
    assert answer["state"] == "held"
    assert "kept for when its conversation resumes" in answer["notice"]
    assert house.started == []


def test_all_is_checked_again_when_it_is_there(house: House, api: Guest, web: Guest) -> None:
    """Its class and its settings are those of now."""
    asked = begin(api, web)
    again = back(house, **{"class": "bypass"})
    answer = api.line.answer(asked)
    assert (answer["state"], answer["rule"][:7]) == ("held", "parity:")
    assert again.read() == []


def test_the_same_text_twice_is_one_message(house: House, api: Guest, web: Guest) -> None:
    first, second = begin(api, web), begin(api, web)
    again = back(house)
    assert api.line.answer(first)["state"] == "queued"
    assert refused(lambda: api.line.answer(second)).code == "duplicate"
    assert again.read() == ["hello"]


def test_the_same_key_twice_is_one_message(house: House, api: Guest, web: Guest) -> None:
    """L3: the client lost its link while the conversation was started, and asks again."""
    lost = api.line
    first = begin(api, web, key="k")
    lost.drop()
    api.come_back()
    second, third = begin(api, web, key="k"), begin(api, web, key="k")
    assert len(house.started) == 1
    again = back(house)
    answers = [api.line.answer(second), api.line.answer(third)]
    assert answers[0]["id"] == answers[1]["id"]
    assert again.read() == ["hello"]
    with pytest.raises(Pending):
        lost.answer(first)


@pytest.mark.parametrize(
    "params", [{"harness": "gemini"}, {"talk": "--dangerous"}, {"talk": "a b"}, {"cwd": "src"}, {"talk": None}]
)
def test_what_cannot_be_resumed_is_refused(house: House, api: Guest, params: dict[str, Any]) -> None:
    """11.1: if the user enabled it for that harness."""
    web = gone(house, **params)
    before = house.state()
    refusal = refused(lambda: api.line.answer(begin(api, web)))
    assert refusal.code == ("not_running" if "talk" in params and params["talk"] is None else "unsupported_mode")
    assert is_sentence(refusal.text)
    assert (house.started, house.state()) == ([], before)


def test_the_listing_says_which_can(house: House, api: Guest, web: Guest) -> None:
    """11.2: of those that do not run. Nothing is listed that has no conversation to go on with."""
    gone(house, "other", "talk-2", harness="gemini")
    gone(house, "none", None)  # type: ignore[arg-type]
    rows = api.line.ask("list", all=True)["sessions"]
    assert {row["name"]: row.get("can_resume") for row in rows} == {"api": None, "web": True, "other": False}
    assert refused(lambda: api.send(web)).hint == (
        "Send with when_offline = resume to start it, or queue to keep it for when it resumes."
    )


# -- it does not come --------------------------------------------------------------------------------------------------


def fail(house: House, how: str) -> str:
    """The attempt fails; why, as its sender is told."""
    if how == "status":
        house.end_command("it ended with 3", "\x1b[31mNo conversation\nfound with that id.\x07\n\n")
        return "it ended with 3: found with that id."
    if how == "silent":
        house.end_command("it ended with 1")
        return "it ended with 1"
    if how == "missing":
        house.end_command("it cannot be started: No such file or directory")
        return "it cannot be started: No such file or directory"
    if how == "in vain":
        house.end_command()
    house.pass_time(RESUME_WITHIN_S)
    return "the conversation did not come within 45 s"


@pytest.mark.parametrize("how", ["status", "silent", "missing", "hangs", "in vain"])
def test_a_failure_is_told_to_all_and_stores_nothing(house: House, api: Guest, web: Guest, how: str) -> None:
    """11.1"""
    eve = house.join("eve")
    before = house.state()
    asked = [(guest, begin(guest, web)) for guest in (api, eve)]
    why = fail(house, how)
    for guest, one in asked:
        refusal = refused(lambda guest=guest, one=one: guest.line.answer(one))  # type: ignore[misc]
        assert refusal.code == "not_running"
        assert refusal.text.startswith("web is not running, and resuming it failed: ")
        assert refusal.data["detail"]["resume"].replace("\\x07", "") == why
        assert [row["id"] for row in refusal.data["candidates"]] == [web.id]
        assert is_sentence(refusal.text)
    assert house.state() == before
    assert house.attempts_ended == [EndAttempt(1, arrived=False)]
    assert is_over(house)
    (warning,) = api.line.ask("status")["warnings"]
    assert warning.startswith("Resuming web with harness.codex.resume failed: ")
    assert house.logs[-1].level == "warning"


def test_a_failure_is_not_repeated_at_once(house: House, api: Guest, web: Guest) -> None:
    """A model that tries again and again starts no harness each time."""
    asked = begin(api, web)
    fail(house, "silent")
    refused(lambda: api.line.answer(asked))
    house.pass_time(3.5)
    refusal = refused(lambda: api.line.answer(begin(api, web)))
    assert (refusal.code, refusal.data["retry_after_s"], len(house.started)) == ("not_running", 7.0, 1)
    assert "it ended with 1" in refusal.text
    house.pass_time(RESUME_PAUSE_S - 3.5)
    asked = begin(api, web)
    assert [one.ticket for one in house.started] == [1, 2]
    back(house)
    assert api.line.answer(asked)["state"] == "queued"


def test_an_attempt_that_works_ends_the_pause(house: House, api: Guest, web: Guest) -> None:
    asked = begin(api, web)
    fail(house, "silent")
    refused(lambda: api.line.answer(asked))
    house.pass_time(RESUME_PAUSE_S)
    begin(api, web)
    again = back(house)
    again.read()
    again.line.ask("end")
    begin(api, web, "more")
    assert len(house.started) == 3


def test_an_older_command_that_ends_ends_nothing(house: House, api: Guest, web: Guest) -> None:
    """It was given up, and its end is heard of when the next is tried."""
    asked = begin(api, web)
    house.pass_time(RESUME_WITHIN_S)
    refused(lambda: api.line.answer(asked))
    house.pass_time(RESUME_PAUSE_S)
    asked = begin(api, web)
    house.end_command("it was ended", number=0)
    assert not api.line.is_answered(asked)
    house.end_command("it ended with 1", number=1)
    assert api.line.is_answered(asked)


def test_only_so_many_failures_are_remembered(house: House, api: Guest) -> None:
    for number in range(70):
        web = gone(house, f"n{number}", f"t-{number}")
        asked = house.human().begin("send", to=web.id, message=f"{number}", when_offline="resume")
        house.end_command("it ended with 1")
        assert asked
        house.pass_time(0.01)
    assert len(house.broker._resuming._failures) == 64


def test_only_so_many_are_tried_at_once(house: House, api: Guest) -> None:
    """n, n + 1; and a further message to one of them is no further attempt."""
    guests = [gone(house, f"n{number}", f"t-{number}") for number in range(RESUMES_AT_ONCE + 1)]
    asked = [begin(api, guest) for guest in guests[:-1]]
    refusal = refused(lambda: api.line.answer(begin(api, guests[-1])))
    assert (refusal.code, refusal.data["retry_after_s"]) == ("rate_limited", RESUME_PAUSE_S)
    begin(api, guests[0], "more")
    assert len(house.started) == RESUMES_AT_ONCE
    house.end_command("it ended with 1", number=0)
    refused(lambda: api.line.answer(asked[0]))
    begin(api, guests[-1])
    assert len(house.started) == RESUMES_AT_ONCE + 1


def test_only_so_many_wait_for_one() -> None:
    house = House(CoreSettings(resume=SETTINGS.resume, pacing=SETTINGS.pacing.__class__(queue_per_session=2)))
    api, web = house.join("api"), gone(house)
    first, second = begin(api, web, "1"), begin(api, web, "2")
    assert refused(lambda: api.line.answer(begin(api, web, "3"))).code == "queue_full"
    back(house)
    assert [api.line.answer(one)["state"] for one in (first, second)] == ["queued", "queued"]


def test_one_that_ended_again_gets_nothing(house: House, api: Guest, web: Guest) -> None:
    """While the store was asked whether the key was used."""
    asked = begin(api, web, key="k")
    house.slow = True
    again = back(house)
    again.line.ask("end")
    house.answer_questions()
    refusal = refused(lambda: api.line.answer(asked))
    assert refusal.code == "not_running"
    assert refusal.text == "web was resumed, and has ended again. Nothing was sent."
    assert is_over(house)


# -- who gives up ------------------------------------------------------------------------------------------------------


def test_whoever_gives_up_sends_nothing(house: House, api: Guest, web: Guest) -> None:
    """8.2's like: the attempt goes on for the others."""
    kept, given_up = begin(api, web, "1"), begin(api, web, "2")
    api.line.ask("cancel", id=given_up)
    assert refused(lambda: api.line.answer(given_up)).code == "timeout"
    again = back(house)
    assert api.line.answer(kept)["state"] == "queued"
    assert again.read() == ["1"]


@pytest.mark.parametrize("how", ["link", "session"])
def test_whoever_is_gone_sends_nothing(house: House, api: Guest, web: Guest, how: str) -> None:
    line = api.line if how == "link" else api.shell()
    line.begin("send", to=web.id, message="hello", when_offline="resume")
    if how == "link":
        api.line.drop()
        assert house.broker._resuming._attempts[web.id].waiting == []
    else:
        house.kill(api)
    again = back(house)
    assert again.read() == []
    assert is_over(house)


def test_a_link_that_fails_with_the_attempt_hears_nothing(house: House, api: Guest, web: Guest) -> None:
    begin(api, web)
    house.broker.core.wires.pop(api.line.link)  # as if it were cut in this very moment
    house.end_command("it ended with 1")
    assert is_over(house)


def test_nobody_waits_for_a_broker_that_stops(house: House, api: Guest, web: Guest) -> None:
    asked = begin(api, web)
    house.handle(StopAsked("x"))
    assert refused(lambda: api.line.answer(asked)).code == "no_broker"
    assert house.attempts_ended == [EndAttempt(1, arrived=False)]
    assert is_over(house)


def test_a_bug_costs_one_request(house: House, api: Guest, web: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bytes:
        raise ZeroDivisionError

    asked = begin(api, web)
    guest = Guest(house, 77_000, {**web.params, "pid": 77_000})
    guest.register()
    with monkeypatch.context() as patch:
        patch.setattr(house.broker.core, "entropy", broken)
        guest.attach()
    assert refused(lambda: api.line.answer(asked)).code == "internal"
    assert guest.read() == []


def test_a_notification_is_never_answered(house: House, api: Guest, web: Guest) -> None:
    api.line.tell("send", to=web.id, message="hello", when_offline="resume")
    house.end_command("it ended with 1")
    assert api.line.errors == []
    assert is_over(house)


# -- what commands say -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said, shown",
    [
        ("", ""),
        (" \n\t\n", ""),
        ("one\ntwo\n", "two"),
        ("one\r\n  two  \r\n\r\n", "two"),
        ("x" * 500, "x" * 199 + "…"),
        ("\x1b[2J\u202egone", "\\x1b[2J\\u202egone"),
    ],
)
def test_of_what_it_said_the_last_line_is_repeated(said: str, shown: str) -> None:
    """12.5: as what acts on no terminal."""
    assert last_line(said) == shown

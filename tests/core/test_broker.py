"""One event in, its effects out: the handshake, the two kinds of socket, deadlines, restarts, the end, our own bugs."""

from __future__ import annotations

import pytest

from tests.support.core_house import House, Line, Pending, Refused, is_sentence, peer, refused
from xsessiond.core import jsonrpc
from xsessiond.core.effects import (
    FrameReceived,
    LinkClosed,
    LookedUp,
    Restored,
    StopAsked,
    StoreReported,
    TimePassed,
)
from xsessiond.core.limits import FIRST_FRAME_S, RESUME_PAUSE_S, RESUME_WITHIN_S, WATCH_MS
from xsessiond.core.link import LinkState
from xsessiond.core.state import CoreSettings
from xsessiond.core.wire import decode_frame

RENDEZVOUS_ONLY = ("register", "log")
PRIVATE_ONLY = ("attach", "handed", "update", "end")
BOTH = (
    "hello",
    "list",
    "whoami",
    "send",
    "check",
    "inbox",
    "take",
    "ack",
    "release",
    "rename",
    "cancel",
    "status",
    "stop",
    "restart",
)
PARAMS: dict[str, dict[str, object]] = {
    "hello": {"protocol": 1},
    "attach": {"token": ""},
    "send": {"to": "nobody", "message": "x"},
    "ack": {"ids": []},
    "handed": {"ids": []},
    "release": {"ids": []},
    "rename": {"name": "x"},
    "cancel": {"id": 1},
}


def stranger(house: House) -> Line:
    return house.connect(peer(90, terminal=True), hello=False)


def outcome(line: Line, method: str) -> str:
    try:
        line.ask(method, **PARAMS.get(method, {}))
    except Refused as refusal:
        return f"{refusal.code}: {refusal.text}"
    return "ok"


# -- the handshake -----------------------------------------------------------------------------------------------------


def test_a_link_begins_with_hello(house: House) -> None:
    line = stranger(house)
    assert line.ask("hello", protocol=1, client="x") == {
        "protocol": 1,
        "broker": {"version": "0.1.0", "instance": "instance", "pid": 4711},
    }
    assert line.ask("hello", protocol=1)["protocol"] == 1, "and may say it again"
    assert line.ask("list")["sessions"] == []


UNGREETED = {"hello", "status", "stop", "restart"}


@pytest.mark.parametrize("method", sorted({*RENDEZVOUS_ONLY, *PRIVATE_ONLY, *BOTH} - UNGREETED))
def test_before_it_there_are_only_status_and_stop(house: House, method: str) -> None:
    """Anything else is answered and the connection closed."""
    line = stranger(house)
    request = line.begin(method, **PARAMS.get(method, {}))
    refusal = refused(lambda: line.answer(request))
    assert (refusal.code, refusal.text) == ("usage", "Say hello first.")
    assert not line.open
    assert house.closed_for[line.link] == "no hello"


def test_a_client_of_another_version_hears_which_is_spoken(house: House) -> None:
    """P9, 15.4: and may still ask for status and stop."""
    line = stranger(house)
    refusal = refused(lambda: line.ask("hello", protocol=2))
    assert (refusal.code, refusal.data["detail"]) == ("version_mismatch", {"version": "0.1.0", "protocol": 1})
    assert is_sentence(refusal.text)
    assert "protocol 1" in refusal.text
    assert "protocol 2" in refusal.text
    assert line.ask("status")["broker"]["protocol"] == 1
    assert line.open
    house.pass_time(60)
    assert line.open
    assert line.ask("hello", protocol=1)["protocol"] == 1


@pytest.mark.parametrize("first", ["nothing", "bad frame", "half a frame"])
@pytest.mark.parametrize("seconds, there", [(FIRST_FRAME_S - 0.001, True), (FIRST_FRAME_S, False)])
def test_the_first_frame_comes_in_time(house: House, first: str, seconds: float, there: bool) -> None:  # noqa: FBT001
    """13.3: what is no request does not count."""
    line = stranger(house)
    if first == "bad frame":
        line.write(b'{"jsonrpc":"2.0","id":1,"method":"nonsense"}\n')
        assert line.code(1) == jsonrpc.METHOD_NOT_FOUND
    elif first == "half a frame":
        line.write(b'{"jsonrpc":"2.0"')
    house.pass_time(seconds)
    assert line.open == there
    if not there:
        assert house.closed_for[line.link] == "no hello in time"


def test_after_it_a_link_may_be_silent(house: House) -> None:
    line = house.human()
    house.pass_time(24 * 3600)
    assert line.open
    assert house.broker.next_due() is None


def test_a_link_that_is_gone_has_no_deadline(house: House) -> None:
    line = stranger(house)
    line.drop()
    assert house.broker.next_due() is None
    house.handle(LinkClosed(line.link))
    house.handle(FrameReceived(line.link, decode_frame(jsonrpc.request(1, "status", {}))))


# -- what is no request ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line_sent", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\n", b"[]\n", b"\xff\n"])
def test_what_is_not_the_protocol_closes_the_link_without_a_word(house: House, line_sent: bytes) -> None:
    """S1, 13.3: and without effect."""
    before = house.state()
    line = stranger(house)
    line.write(line_sent + jsonrpc.request(1, "stop", {}))
    assert not line.open
    assert line.errors == []
    assert house.state() == before
    assert house.stopped is None


@pytest.mark.parametrize(
    "line_sent, code, refusal, stays",
    [
        (b"{\n", jsonrpc.PARSE_ERROR, "usage", False),
        (b'{"a":1}\n', jsonrpc.INVALID_REQUEST, "usage", True),
        (b"x" * (1 << 20) + b"\n", jsonrpc.REFUSED, "too_large", True),
        (b"x" * (17 << 20), jsonrpc.INVALID_REQUEST, "too_large", False),
    ],
)
def test_after_the_handshake_it_is_answered(
    house: House,
    line_sent: bytes,
    code: int,
    refusal: str,
    stays: bool,  # noqa: FBT001
) -> None:
    """3.5"""
    line = house.human()
    line.write(line_sent)
    (error,) = line.errors
    assert (error["code"], error["data"]["code"]) == (code, refusal)
    assert is_sentence(error["data"]["text"])
    assert line.open == stays


def test_faults_of_a_request_have_their_codes(house: House) -> None:
    line = house.human()
    for number, (sent, code, refusal) in enumerate(
        [
            ({"method": "nonsense"}, jsonrpc.METHOD_NOT_FOUND, "usage"),
            ({"method": "rename", "params": {}}, jsonrpc.INVALID_PARAMS, "usage"),
            ({"method": "send", "params": {}}, jsonrpc.REFUSED, "usage"),
            ({"method": "send", "params": {"to": "x", "message": None}}, jsonrpc.REFUSED, "not_text"),
            ({"method": "send", "params": {"to": "x", "message": {}}}, jsonrpc.REFUSED, "not_text"),
        ],
        100,
    ):
        line.write(jsonrpc.encode({"jsonrpc": "2.0", "id": number, **sent}))
        assert line.code(number) == code
        assert refused(lambda number=number: line.answer(number)).code == refusal  # type: ignore[misc]


def test_an_answer_that_nobody_asked_for_means_nothing(house: House) -> None:
    line = house.human()
    line.write(jsonrpc.result("ping-x", {}))
    assert line.open
    assert line.errors == []


# -- the two kinds of socket -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*RENDEZVOUS_ONLY, *PRIVATE_ONLY, *BOTH])
def test_each_method_has_its_socket(house: House, method: str) -> None:
    api = house.join("api")
    rendezvous, private = house.human(), house.connect(api.peer, door=api.id)
    elsewhere = "usage: This method is for"
    assert outcome(rendezvous, method).startswith(elsewhere) == (method in PRIVATE_ONLY)
    if method != "stop":
        assert outcome(private, method).startswith(elsewhere) == (method in RENDEZVOUS_ONLY)


def test_a_notification_is_answered_by_nothing(house: House) -> None:
    line = house.human()
    answers = dict(line._answers)
    for method in (*RENDEZVOUS_ONLY, *PRIVATE_ONLY, *BOTH):
        line.tell(method, **PARAMS.get(method, {}))
    assert line._answers == answers
    assert line.errors == []


# -- restart -----------------------------------------------------------------------------------------------------------


def test_a_restart_in_the_middle_is_not_seen(house: House) -> None:
    """3.3, D6, P17: roster, mail, pins, receipts and numbers are as before; only leases and links are gone."""
    api, web, gone = house.join("api"), house.join("web"), house.join("gone", harness_session_id="talk")
    house.join("unwatched", pid=0).line.drop()
    for number in range(5):
        api.send("web", str(number), key=f"k-{number}")
    messages = web.take(max=4)
    web.ack(messages[0])
    web.line.ask("handed", ids=[messages[1]["id"]])
    web.send(None, "reply", reply_to=messages[2]["id"])
    api.send("gone", "kept")
    house.kill(gone)
    for line in (api.line, web.line):
        line.drop()
    before = house.state()
    house.restart()
    after = house.state()
    assert after["boxes"][web.id] == [(messages[1]["id"], "queued", None), *before["boxes"][web.id][1:]]
    handed = before["boxes"][web.id][0]
    assert handed == (messages[1]["id"], "queued", None)
    assert after == before
    api.come_back()
    web.come_back()
    assert web.read() == ["1", "3", "4"]
    assert api.read() == ["reply"]


def test_a_message_whose_receiver_is_lost_is_reported(house: House) -> None:
    api, web = house.join("api"), house.join("web")
    api.send(web)
    snapshot = house.store.load()
    broken = type(snapshot)([row for row in snapshot.sessions if row.id != web.id], snapshot.messages, [], [], 2, [])
    broker = House().broker
    effects = broker.handle(Restored(broken, "boot-1"), house.now)
    assert [effect.what for effect in effects if hasattr(effect, "what")] == ["a message has no receiver"]
    assert broker.core.messages == {}


def test_what_is_stored_of_those_who_are_gone_breaks_nothing(house: House) -> None:
    """Pins and numbers of a sender that pruning took."""
    api, web = house.join("api"), house.join("web")
    api.send("web")
    snapshot = house.store.load()
    web_only = [row for row in snapshot.sessions if row.id == web.id]
    broken = type(snapshot)(web_only, snapshot.messages, snapshot.pins, snapshot.receipts, 2, snapshot.pair_seqs)
    broker = House().broker
    broker.handle(Restored(broken, "boot-1"), house.now)
    (message,) = broker.core.messages.values()
    assert b'"ref":null' in bytes(message.origin)


def test_pins_of_a_session_that_a_reboot_ended_are_dropped(house: House) -> None:
    api = house.join("api", harness_session_id="talk")
    old = house.join("x")
    api.send("x", "one")
    house.restart(boot="boot-2")
    new = house.join("x")
    again = house.join(harness_session_id="talk")
    house.restart()
    again.come_back()
    new.come_back()
    assert again.id == api.id
    assert again.send("x", "two")["to"]["id"] == new.id != old.id


# -- containers --------------------------------------------------------------------------------------------------------


def test_what_comes_through_a_granted_socket_acts_as_its_session_only(house: House) -> None:
    """13.4, S20: after the token as that session, before it as nobody; until its time is over."""
    given = house.human().ask("grant", name="box", directory="/d", cwd="/", for_s=60)
    line = house.connect(peer(5), given["session"]["id"])
    for method in ("list", "log"):
        refusal = refused(lambda method=method: line.ask(method))  # type: ignore[misc]
        assert (refusal.code, refusal.hint) == ("not_permitted", "Attach with its token first.")
    line.ask("attach", token=given["token"])
    assert line.ask("list")["self"]["name"] == "box"
    refusal = refused(lambda: line.ask("log"))
    assert (refusal.code, refusal.hint) == ("not_permitted", "Its human does that outside.")
    house.pass_time(60)
    assert not line.open


# -- the end -----------------------------------------------------------------------------------------------------------


def test_who_comes_while_it_stops_may_ask_how_it_is(house: House) -> None:
    """15.5"""
    house.handle(StopAsked("x"))
    late = stranger(house)
    assert refused(lambda: late.ask("list")).code == "no_broker"
    assert late.ask("status")["sessions"] == 0


def test_a_question_to_the_store_is_refused_when_it_comes_too_late(house: House) -> None:
    api = house.join("api")
    house.slow = True
    asked = api.line.begin("check")
    house.handle(StopAsked("x"))
    house.answer_questions()
    assert refused(lambda: api.line.answer(asked)).code == "no_broker"


def test_a_closed_link_cannot_be_stopped(house: House) -> None:
    """The machine of a link says so, should the shell ever hand over one that it has closed."""
    line = house.human()
    line.protocol.step("close")
    assert line.protocol.state is LinkState.CLOSED
    with pytest.raises(KeyError, match="drain"):
        house.handle(StopAsked("x"))


# -- every event and every deadline reaches its part -------------------------------------------------------------------


def test_a_day_in_the_life_of_the_broker() -> None:
    """What each part does with it, its own tests show."""
    house = House(CoreSettings(keep_ms=100_000))
    api, web = house.join("api"), house.join("web", harness_session_id="talk")
    follower = house.human()
    follower.ask("log", follow=True)
    follower.drop()
    api.send("web", "one")
    (message,) = web.take()
    web.line.ask("handed", ids=[message["id"]])
    house.pass_time(60)  # stalled
    assert api.line.ask("take")["receipts"][0]["state"] == "stalled"
    house.human().ask("list")  # asks web, which does not answer
    house.pass_time(2)
    assert web.session.unresponsive
    web.line.pong()
    assert not web.session.unresponsive
    web.line.drop()  # may come back, and does
    house.pass_time(29)
    web.register(resume=True)
    web.attach(push=True)
    web.line.ask("release", ids=[web.line.pushes[0]["message"]["id"]])  # comes again in a second
    house.pass_time(1)
    assert len(web.line.pushes) == 2
    house.kill(web)  # its harness dies; its mail is kept, for a while
    house.pass_time(100)
    assert api.check(message)["state"] == "expired"
    lost = house.join("lost", pid=0)
    lost.line.drop()
    house.pass_time(30)
    assert house.names() == ["api"]
    asked = api.begin_send(lost.id, "x", wait_reply=1, when_offline="queue")
    assert refused(lambda: api.line.answer(asked)).code == "not_running"
    other = house.join("other")
    asked = api.begin_send(other, "x", wait_reply=1)
    house.pass_time(1)
    assert "not replied yet" in api.line.answer(asked)["notice"]
    house.handle(StoreReported((False, "It is slow.")))
    assert house.human().ask("status")["store"] == {"ok": False, "detail": "It is slow."}


# -- our own bugs ------------------------------------------------------------------------------------------------------


def broken(*_: object) -> None:
    raise ZeroDivisionError("of all things")


@pytest.mark.parametrize("where", ["at once", "after the store"])
def test_a_bug_costs_one_request(house: House, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """It is answered, logged, shown; nobody else notices."""
    api, web = house.join("api"), house.join("web")
    monkeypatch.setattr(house.broker.core, "entropy", broken)
    key = "k" if where == "after the store" else None
    refusal = refused(lambda: api.send(web, "one", key=key))
    assert refusal.code == "internal"
    assert is_sentence(refusal.text)
    assert "of all things" not in refusal.text
    monkeypatch.undo()
    assert house.logs[-1].what == "a bug"
    assert "ZeroDivisionError" in str(house.logs[-1].facts["trace"])
    (warning,) = house.human().ask("status")["warnings"]
    assert is_sentence(warning)
    assert api.send(web, "two")["state"] == "queued"


def test_a_deadline_that_nobody_knows_is_a_bug(house: House) -> None:
    api = house.join("api")
    house.broker.core.agenda.schedule(("nonsense", api.id), house.mono)
    with pytest.raises(ValueError, match="nonsense"):
        house.handle(TimePassed())


def test_deadlines_of_what_is_gone_mean_nothing(house: House) -> None:
    for key in (("stalled", "m-1"), ("grace", "s-1"), ("wait", "m-1")):
        house.broker.core.agenda.schedule(key, house.mono)
    before = house.state()
    house.handle(TimePassed())
    assert house.state() == before


def test_receipts_and_refusals_come_out_of_the_store_too() -> None:
    house = House(CoreSettings(keep_ms=1000))
    api, web = house.join("api"), house.join("web", harness_session_id="talk")
    api.send(web)
    house.kill(web)
    house.pass_time(2)
    house.restart()
    api.come_back()
    assert [receipt["state"] for receipt in api.line.ask("take")["receipts"]] == ["expired"]
    assert refused(lambda: api.check("m-" + "0" * 32)).code == "not_found"
    house.broken_reads = "The disk is broken."
    assert refused(lambda: api.line.ask("check")).code == "internal"


def test_an_answer_of_the_store_to_a_link_that_is_gone_means_nothing(house: House) -> None:
    api = house.join("api")
    house.slow = True
    asked = api.line.begin("check")
    (question,) = house.questions
    api.line.drop()
    house.handle(LookedUp(question.ticket, []))
    with pytest.raises(Pending):
        api.line.answer(asked)
    assert house.broker.core.asked == {}


def test_who_waits_for_a_session_is_told_when_it_is_time(house: House) -> None:
    """9.1: after the event that it depends on, of whatever kind; and not what the store did not take."""
    api, web = house.join("api"), house.join("web", delivery="push")
    house.failing = lambda ops: True
    assert refused(lambda: api.watch(web)).code == "internal"
    house.failing = lambda ops: False
    house.owed.clear()
    assert house.broker.core.watches == {}
    for way, outcome in (("idle", "idle"), ("late", "expired"), ("gone", "exited")):
        api.watch(web)
        if way == "idle":
            web.is_now("idle")
            house.pass_time(60)
            web.is_now("busy")
        elif way == "late":
            house.pass_time(WATCH_MS / 1000)
        else:
            house.kill(web)
        assert [notice["state"] for notice in api.notices()] == [outcome]


def test_a_request_that_waits_for_a_conversation_goes_on_when_it_is_there() -> None:
    """11.1: after the event that brought it, or fails with its command, with its time or with the broker."""
    house = House(CoreSettings(resume={"codex": ("codex", "resume", "{harness_session_id}")}))
    api, web = house.join("api"), house.join("web", harness_session_id="talk")
    for way in ("there", "fails", "late", "given up", "stops"):
        house.kill(web)
        house.pass_time(RESUME_PAUSE_S)
        asked = api.begin_send("web", way, when_offline="resume")
        if way == "there":
            web = house.join(None, harness_session_id="talk")
            assert api.line.answer(asked)["state"] == "queued"
            continue
        if way == "fails":
            house.end_command("it ended with 1")
        elif way == "late":
            house.pass_time(RESUME_WITHIN_S)
        elif way == "given up":
            api.line.ask("cancel", id=asked)
            house.end_command("it ended with 1")
        else:
            house.handle(StopAsked("SIGTERM"))
        code = {"given up": "timeout", "stops": "no_broker"}.get(way, "not_running")
        assert refused(lambda asked=asked: api.line.answer(asked)).code == code  # type: ignore[misc]

"""What was sent before and comes again: the same key is the same message, the same text is refused for a moment."""

from __future__ import annotations

import pytest

from tests.support.core_house import Guest, House, Pending, is_sentence, refused
from xsessiond.core import limits, repeats
from xsessiond.core.effects import LookedUp
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.state import CoreSettings

# -- keys --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("meanwhile", ["nothing", "taken", "handed", "delivered", "replied", "restart", "expired"])
def test_the_same_key_is_the_same_message(meanwhile: str) -> None:
    """L3, 3.4: whatever became of it; the answer has its state now."""
    house = House(CoreSettings(keep_ms=1000))
    api, web = house.join("api"), house.join("web", harness_session_id="talk")
    first = api.send(web, "one", key="k")
    state = "queued"
    if meanwhile in ("taken", "handed", "delivered", "replied"):
        (message,) = web.take()
    if meanwhile == "handed":
        web.line.ask("handed", ids=[message["id"]])
        state = "handed"
    elif meanwhile == "delivered":
        web.ack(message)
        state = "delivered"
    elif meanwhile == "replied":
        web.send(None, "two", reply_to=message["id"])
        state = "replied"
    elif meanwhile == "restart":
        house.restart()
        api.come_back()
    elif meanwhile == "expired":
        house.kill(web)
        house.pass_time(2)
        state = "expired"
    count = house.broker.core.next_seq
    again = api.send(web.id, "one", key="k")
    assert (again["id"], again["state"], again["to"]["name"]) == (first["id"], state, "web")
    assert (again["bytes"], again["sha256"], again["rule"]) == (first["bytes"], first["sha256"], first["rule"])
    assert "not again" in again["notice"]
    assert house.broker.core.next_seq == count


@pytest.mark.parametrize("live", [True, False])
def test_the_same_key_with_another_text_is_refused(house: House, api: Guest, web: Guest, live: bool) -> None:  # noqa: FBT001
    first = api.send(web, "one", key="k")
    if not live:
        web.read()
    before = house.state()
    refusal = refused(lambda: api.send(web, "two", key="k"))
    assert (refusal.code, refusal.data["detail"]) == ("key_reused", {"id": first["id"]})
    assert is_sentence(refusal.text)
    assert house.state() == before


def test_a_key_belongs_to_its_sender(house: House, api: Guest, web: Guest) -> None:
    other = house.join("other")
    ids = {
        api.send(web, "one", key="k")["id"],
        other.send(web, "one", key="k")["id"],
        house.human().ask("send", to="web", message="one", key="k")["id"],
        house.script().ask("send", to="web", message="one", key="k")["id"],
    }
    assert len(ids) == 4
    assert house.human().ask("send", to="web", message="one", key="k")["id"] in ids


def test_a_retry_says_where_it_went_even_if_that_is_forgotten(house: House, api: Guest, web: Guest) -> None:
    first = api.send(web, "one", key="k")
    web.read()
    house.kill(web)
    house.broker.core.roster.forget(web.session)
    again = api.send("somebody else", "one", key="k")
    assert (again["id"], again["to"]) == (first["id"], {"id": web.id, "ref": None, "name": "web"})


def test_two_at_once_under_one_key_are_one_message(house: House, api: Guest, web: Guest) -> None:
    """Both were asked about before either was accepted; also where the first was read before the second went on."""
    for meanwhile in (False, True):
        house.slow = True
        one, two = (api.begin_send(web, f"one {meanwhile}", key=f"k {meanwhile}") for _ in range(2))
        (first_asked, second_asked), house.questions = house.questions, []
        house.handle(LookedUp(first_asked.ticket, None))
        if meanwhile:
            assert web.read() == ["one True"]
        house.handle(LookedUp(second_asked.ticket, None))
        first, second = api.line.answer(one), api.line.answer(two)
        assert first["id"] == second["id"]
        assert second["state"] == ("delivered" if meanwhile else "queued")
        if not meanwhile:
            assert web.read() == ["one False"]
    assert web.read() == []


def test_a_key_of_a_message_that_was_not_stored_is_free(house: House, api: Guest, web: Guest) -> None:
    house.failing = lambda ops: True
    assert refused(lambda: api.send(web, "one", key="k")).code == "internal"
    house.failing = lambda ops: False
    assert api.send(web, "two", key="k")["state"] == "queued"
    assert web.read() == ["two"]


def test_a_store_that_cannot_be_read_refuses_rather_than_sends_twice(house: House, api: Guest, web: Guest) -> None:
    first = api.send(web, "one", key="k")
    web.read()
    house.broken_reads = "The disk is broken."
    refusal = refused(lambda: api.send(web, "one", key="k"))
    assert refusal.code == "internal"
    assert "The disk is broken." in refusal.text
    house.broken_reads = None
    assert api.send(web, "one", key="k")["id"] == first["id"]


def test_keys_are_remembered_without_their_texts_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REMEMBERED_KEYS", 3)
    house = House(CoreSettings(pacing=PaceSettings(target_burst=0, sender_burst=0)))
    api, web = house.join("api"), house.join("web")
    ids = [api.send(web, f"text {number}", key=str(number))["id"] for number in range(5)]
    web.read()
    known = house.broker._sending._repeats._keys
    assert [key for _, key in known] == ["2", "3", "4"]
    assert "text" not in repr(list(known.values()))
    assert [api.send(web, f"text {number}", key=str(number))["id"] for number in range(5)] == ids


def test_a_link_that_is_gone_meanwhile_sends_nothing(house: House, api: Guest, web: Guest) -> None:
    house.slow = True
    asked = api.begin_send(web, "one", key="k")
    api.line.drop()
    house.answer_questions()
    with pytest.raises(Pending):
        api.line.answer(asked)
    assert web.read() == []


# -- texts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds, again", [(0, False), (29.999, False), (30, True)])
def test_the_same_text_to_the_same_target_is_a_repeat_for_a_while(
    house: House,
    api: Guest,
    web: Guest,
    seconds: float,
    again: bool,  # noqa: FBT001
) -> None:
    """10.4, R5: it names the first and its state, and says not to repeat it."""
    first = api.send(web, "one")
    house.pass_time(seconds)
    before = house.state()
    if again:
        assert api.send(web, "one")["id"] != first["id"]
        return
    refusal = refused(lambda: api.send(web, "one"))
    assert (refusal.code, refusal.data["detail"]) == ("duplicate", {"id": first["id"], "state": "queued"})
    assert first["id"] in refusal.text
    assert is_sentence(refusal.text)
    assert house.state() == before


@pytest.mark.parametrize("state", ["handed", "delivered", "replied"])
def test_a_repeat_is_told_what_became_of_the_first(house: House, api: Guest, web: Guest, state: str) -> None:
    """W2: in one of the words that there are."""
    first = api.send(web, "one")
    (message,) = web.take()
    if state == "handed":
        web.line.ask("handed", ids=[message["id"]])
    elif state == "delivered":
        web.ack(message)
    else:
        web.send(None, "two", reply_to=message["id"])
    refusal = refused(lambda: api.send(web, "one"))
    assert refusal.data["detail"] == {"id": first["id"], "state": state}
    assert f"it is {state}." in refusal.text
    assert web.read() == []


def test_a_repeat_of_what_the_store_has_lost_is_still_a_repeat(
    house: House, api: Guest, web: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.send(web, "one")
    web.read()
    monkeypatch.setattr(house.store, "find_message", lambda message_id: None)
    assert refused(lambda: api.send(web, "one")).data["detail"]["state"] == "delivered"


def test_what_is_no_repeat(house: House, api: Guest, web: Guest) -> None:
    """Another text, another target, another sender; or the first was refused, or was not stored."""
    other = house.join("other")
    api.send(web, "one")
    api.send(web, "One")
    api.send(other, "one")
    other.send(web, "one")
    assert refused(lambda: api.send("nobody", "two")).code == "not_found"
    api.send(web, "two")
    house.failing = lambda ops: True
    refused(lambda: api.send(web, "three"))
    house.failing = lambda ops: False
    api.send(web, "three")
    assert web.read() == ["one", "One", "one", "two", "three"]


def test_a_window_of_nothing_repeats_everything() -> None:
    house = House(CoreSettings(pacing=PaceSettings(duplicate_window=0)))
    api, web = house.join("api"), house.join("web")
    api.send(web, "one")
    api.send(web, "one")
    assert web.read() == ["one", "one"]


def test_the_module_knows_no_body() -> None:
    assert set(repeats.Keyed.__struct_fields__) == {"message_id", "digest", "target_id", "target_name", "rule"}

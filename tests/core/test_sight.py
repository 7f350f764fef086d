"""What a caller may see of mail that is not its own."""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.support.core_house import Guest, House, Line, peer, refused
from xsessiond.core.mailbox import TRANSITIONS
from xsessiond.core.sight import WITHHELD, find_own, may_read

STATES = {state for pair in TRANSITIONS for state in (pair[0], TRANSITIONS[pair])}


@pytest.fixture
def api(house: House) -> Guest:
    return house.join("api", pid=5000)


def own(house: House, line: Line) -> frozenset[str] | None:
    return find_own(house.broker.core, house.broker.core.wires[line.link])


def marked(house: House, *, terminal: bool) -> Line:
    """A process that an agent left behind: nothing above it is known."""
    return house.connect(structs.replace(peer(90, 80, terminal=terminal), marks=frozenset({"CLAUDECODE"})))


def test_whose_mail_is_whose(house: House, api: Guest) -> None:
    assert own(house, house.human()) is None
    assert own(house, house.script()) is None
    assert own(house, api.line) == own(house, api.shell()) == {api.id}
    for terminal in (True, False):
        assert own(house, marked(house, terminal=terminal)) == set()
    other = house.join("other", pid=5000, cwd="/other")
    assert own(house, house.connect(peer(5100, 5000))) == {api.id, other.id}


@pytest.mark.parametrize("state", sorted(STATES))
def test_a_receiver_reads_what_it_was_given(state: str) -> None:
    """S7, 5.2: or is on its way to it, never what was kept from it."""
    assert may_read(frozenset({"s-b"}), "s-a", "s-b", state) is (state not in WITHHELD)
    assert may_read(frozenset({"s-a"}), "s-a", "s-b", state), "a sender knows what it wrote"
    assert may_read(None, "s-a", "s-b", state), "and so may the human"
    assert not may_read(frozenset({"s-c"}), "s-a", "s-b", state)
    assert not may_read(frozenset(), None, "human", state)
    assert {"held", "denied", "expired", "refused", "discarded"} == WITHHELD


def test_the_log_tells_a_receiver_nothing_that_is_kept_from_it(house: House, api: Guest) -> None:
    """S7, 5.2: of what is held or was turned away, neither the text nor its summary; its sender sees both."""
    daring = house.join("daring", **{"class": "bypass"})
    sent = daring.send(api, "a secret text", summary="a secret summary")
    for _ in ("held", "denied"):
        (entry,) = api.shell().ask("log")["entries"]
        assert (entry["id"], entry["text"], entry["summary"]) == (sent["id"], None, None)
        (entry,) = daring.shell().ask("log")["entries"]
        assert (entry["text"], entry["summary"]) == ("a secret text", "a secret summary")
        house.deny(sent)
    approved = daring.send(api, "approved", summary="seen")
    house.approve(approved)
    assert api.shell().ask("log", thread=approved["id"])["entries"][0]["summary"] == "seen"


def test_what_an_agent_left_behind_sees_nothing(house: House, api: Guest) -> None:
    """5.2: neither the log, nor the queue, nor what became of a message, but of what it sent itself."""
    web = house.join("web")
    sent = api.send(web, "secret")
    house.join("daring", **{"class": "bypass"}).send(web, "held secret")
    line = marked(house, terminal=True)
    assert line.ask("log")["entries"] == []
    assert line.ask("hold_queue") == {"held": [], "left_out": 0}
    assert refused(lambda: line.ask("check", message_id=sent["id"])).code == "not_found"
    assert refused(lambda: line.ask("log", follow=True)).code == "not_permitted"
    own_send = line.ask("send", to=web.id, message="mine")
    assert line.ask("check", message_id=own_send["id"])["state"] == "queued"


def test_below_several_sessions_all_of_theirs_is_seen(house: House, api: Guest) -> None:
    web = house.join("web")
    two = house.join("two", pid=5000, cwd="/other")
    sent = [api.send(web, "1"), two.send(web, "2")]
    house.join("third").send(web, "3")
    line = house.connect(peer(5100, 5000))
    assert [entry["text"] for entry in line.ask("log")["entries"]] == ["1", "2"]
    assert [line.ask("check", message_id=one["id"])["state"] for one in sent] == ["queued"] * 2
    assert refused(lambda: line.ask("log", follow=True)).code == "not_permitted"

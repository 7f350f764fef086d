"""What a human says about held messages, and what nobody else may say."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from tests.support.core_house import Answer, Guest, House, is_sentence, peer, refused
from xsessiond.core import limits
from xsessiond.core.effects import PassphraseChecked, Peer
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.policy import CoreSettings

PERSON = peer(90, 80, terminal=True)


@pytest.fixture
def house() -> House:
    return House(CoreSettings(pacing=PaceSettings(target_burst=0, sender_burst=0)))


@pytest.fixture
def api(house: House) -> Guest:
    """Acts without asking, so that what it sends to `web` is held."""
    return house.join("api", **{"class": "bypass"})


def outcome(decided: list[Answer]) -> list[tuple[str | None, str | None]]:
    """State and error of each."""
    return [(one["state"], one["error"] and one["error"]["code"]) for one in decided]


# -- approve and deny --------------------------------------------------------------------------------------------------


def test_what_is_approved_is_delivered(house: House, api: Guest, web: Guest) -> None:
    """H1, 5.1: from any terminal; the sender hears by whom, and so does the history."""
    sent = api.send(web)
    house.pass_time(7)
    assert house.approve(sent) == [{"id": sent["id"], "state": "queued", "error": None, "trust": None}]
    assert web.read() == ["hello"]
    assert api.told() == [f"{sent['id']} to web was released (approved by human ann) and is on its way."]
    steps = [(step["state"], step["rule"], step["by"]) for step in api.check(sent)["history"]]
    assert steps == [("held", sent["rule"], None), ("queued", "approved", "human ann"), ("delivered", None, None)]


def test_where_the_human_sat_is_remembered(house: House, api: Guest, web: Guest) -> None:
    """H9, 5.7"""
    sent = api.send(web)
    line = house.connect(structs.replace(PERSON, tty="pts/3"))
    line.ask("decide", verdict="approve", ids=[sent["id"]])
    assert api.check(sent)["history"][-1]["by"] == "human ann (pts/3)"


def test_what_is_denied_is_over(house: House, api: Guest, web: Guest) -> None:
    """H2: both sides hear of it; the receiver without the text."""
    sent = api.send(web, "secret")
    assert house.deny(sent, reason="Not in this\x1b[2J\nrepository.") == [
        {"id": sent["id"], "state": "denied", "error": None, "trust": None}
    ]
    assert web.line.ask("inbox")["messages"] == []
    (text,) = api.told()
    assert text.startswith(f"{sent['id']} to web was denied by the receiver's user: Not in this")
    assert "\x1b" not in text
    assert "\n" not in text
    assert web.told() == ["1 held message from api was denied by your user."]
    (step,) = [step for step in api.check(sent)["history"] if step["state"] == "denied"]
    assert step["by"] == "human ann"
    assert step["rule"].startswith("Not in this")


def test_a_denial_needs_no_reason_and_a_long_one_is_cut(house: House, api: Guest, web: Guest) -> None:
    first, second = api.send(web, "1"), api.send(web, "2")
    house.deny(first)
    house.deny(second, reason="x" * 10_000)
    assert api.check(first)["history"][-1]["rule"] == "no reason given"
    assert api.check(second)["history"][-1]["rule"] == "x" * limits.MAX_REASON


def test_all_of_them_in_one_go(house: House, api: Guest, web: Guest) -> None:
    other = house.join("other", **{"class": "bypass"})
    sent = [api.send(web, "1"), other.send(web, "2"), api.send(web, "3")]
    decided = house.approve(all=True)
    assert [one["id"] for one in decided] == [one["id"] for one in sent]
    assert web.read() == ["1", "2", "3"]
    assert house.approve(all=True) == []


def test_each_id_has_its_own_answer(house: House, api: Guest, web: Guest) -> None:
    """5.8: approved twice, denied before, expired, delivered, never held, unknown; in the order asked, each once."""
    short = house.join("short", **{"class": "bypass"})
    expired = short.send(web, "short")
    house.pass_time(3600)
    approved, denied, waits = api.send(web, "1"), api.send(web, "2"), api.send(web, "3")
    delivered = api.send(web, "4")
    house.approve(delivered)
    web.read()
    house.approve(approved)
    house.deny(denied)
    plain = house.join("other").send(web)
    asked = [expired, approved, denied, delivered, plain, waits, "m-" + "0" * 32, "nonsense", approved]
    decided = house.approve(*asked)
    assert outcome(decided) == [
        ("expired", "expired"),
        ("queued", "already_decided"),
        ("denied", "already_decided"),
        ("delivered", "already_decided"),
        ("queued", "already_decided"),
        ("queued", None),
        (None, "not_found"),
        (None, "not_found"),
    ]
    assert all(is_sentence(one["error"]["text"].replace("m-", "M-")) for one in decided if one["error"])
    assert web.read() == ["1", "3", "hello"]


def test_deciding_twice_delivers_once(house: House, api: Guest, web: Guest) -> None:
    """5.8: also while the store is asked about one of them: all of a request is decided when it is answered."""
    sent = api.send(web)
    house.slow = True
    one, two = house.human(), house.human()
    first = one.begin("decide", verdict="approve", ids=[sent["id"], "m-none"])
    second = two.begin("decide", verdict="deny", ids=[sent["id"]])
    house.slow = False
    house.answer_questions()
    assert outcome(two.answer(second)["decided"]) == [("denied", None)], "it was the first that could be answered"
    assert outcome(one.answer(first)["decided"]) == [("denied", "already_decided"), (None, "not_found")]
    assert web.read() == []


@pytest.mark.parametrize(
    "params, says",
    [
        ({"verdict": "approve"}, "No message is named."),
        ({"verdict": "deny", "all": True, "trust": "pair"}, "Trust goes with an approval."),
        ({"verdict": "approve", "all": True, "for_s": 5}, "A time goes with trust"),
        ({"verdict": "approve", "all": True, "trust": "once", "for_s": 5}, "A time goes with trust"),
        ({"verdict": "approve", "ids": [f"m-{number}" for number in range(1001)]}, "1000 messages at most"),
    ],
)
def test_what_makes_no_sense_is_refused_as_a_whole(
    house: House, api: Guest, web: Guest, params: Answer, says: str
) -> None:
    api.send(web)
    before = house.state()
    refusal = refused(lambda: house.human().ask("decide", **params))
    assert refusal.code == "usage"
    assert says in refusal.text
    assert house.state() == before


def test_who_asks_to_watch_is_told_from_then_on(house: House, api: Guest, web: Guest) -> None:
    """5.1"""
    human = house.human()
    assert human.ask("hold_queue", watch=True) == {"held": [], "left_out": 0}
    sent = api.send(web)
    assert [hold["id"] for hold in human.notes[-1][1]["held"]] == [sent["id"]]


# -- who may -----------------------------------------------------------------------------------------------------------

CALLERS: dict[str, Callable[[Guest], Peer]] = {
    "its own shell": lambda guest: peer(guest.pid + 7, guest.pid, 2),
    "its own shell in a terminal": lambda guest: peer(guest.pid + 7, guest.pid, 2, terminal=True),
    "below several sessions": lambda guest: peer(5100, 5000, terminal=True),
    "with a harness's mark": lambda guest: structs.replace(PERSON, marks=frozenset({"CLAUDECODE"})),
    "with ancestors that are hidden": lambda guest: structs.replace(PERSON, complete=False),
    "below something unreadable": lambda guest: structs.replace(PERSON, unseen="sh (pid 7)"),
    "without a terminal": lambda guest: peer(70, 60),
    "nobody": lambda guest: peer(),
}


@pytest.mark.parametrize("who", CALLERS)
@pytest.mark.parametrize(
    "method, params",
    [
        ("decide", {"verdict": "approve", "all": True}),
        ("decide", {"verdict": "deny", "all": True}),
        ("decide", {"verdict": "approve", "all": True, "trust": "pair"}),
        ("revoke_trust", {"id": "t-1"}),
    ],
)
def test_nobody_but_a_human_decides(
    house: House, api: Guest, web: Guest, who: str, method: str, params: Answer
) -> None:
    """5.2, S7: nothing changes, and the attempt is logged and shown."""
    house.join("one", pid=5000)
    house.join("two", pid=5000, cwd="/other")
    api.send(web)
    before = house.state()
    line = house.connect(CALLERS[who](api))
    refusal = refused(lambda: line.ask(method, **params))
    assert refusal.code == "not_permitted"
    assert house.state() == before
    assert any(log.level == "warning" and log.what == "refused: not a human" for log in house.logs)
    assert any("was refused" in warning for warning in house.script().ask("status")["warnings"])


def test_an_attempt_stands_in_the_history_once(house: House, api: Guest, web: Guest) -> None:
    """5.2: of each message that it named, with who it was."""
    sent = api.send(web)
    for _ in range(3):
        refused(lambda: api.shell().ask("decide", verdict="approve", ids=[sent["id"], "m-none"]))
    refused(lambda: house.script().ask("decide", verdict="deny", ids=[sent["id"]]))
    house.approve(sent)
    refused(lambda: web.shell().ask("decide", verdict="deny", ids=[sent["id"]]))
    steps = [(step["state"], step["by"], step["rule"]) for step in api.check(sent)["history"][1:]]
    assert steps == [
        ("held", f"session api [{api.ref}]", "tried to approve, refused: only a human decides"),
        ("held", "no human", "tried to deny, refused: only a human decides"),
        ("queued", "human ann", "approved"),
    ]


def test_attempts_that_are_remembered_have_a_bound(
    house: House, api: Guest, web: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xsessiond.core.deciding.ATTEMPTS_MOST", 1)
    sent = [api.send(web, str(number)) for number in range(2)]
    for one in (*sent, sent[0]):
        refused(lambda: api.shell().ask("decide", verdict="approve", ids=[one["id"]]))  # noqa: B023
    assert len(api.check(sent[0])["history"]) == 3


def test_the_user_may_allow_what_has_no_terminal(house: House, api: Guest, web: Guest) -> None:
    """5.2: a script outside every session; nothing below one."""
    house.change_settings(without_terminal=True)
    sent = api.send(web)
    assert refused(lambda: api.shell().ask("decide", verdict="approve", all=True)).code == "not_permitted"
    decided = house.script().ask("decide", verdict="approve", ids=[sent["id"]])["decided"]
    assert outcome(decided) == [("queued", None)]


# -- passphrase --------------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(house: House, api: Guest, web: Guest) -> House:
    """One held message, and a passphrase that is wanted at each decision."""
    house.passphrase = "open sesame"
    house.change_settings(passphrase=True)
    api.send(web)
    return house


def test_a_passphrase_is_asked_for(guarded: House) -> None:
    """5.2: said so that a client knows to ask for it."""
    for passphrase in (None, ""):
        refusal = refused(lambda: guarded.approve(all=True, passphrase=passphrase))  # noqa: B023
        assert (refusal.code, refusal.data["detail"]) == ("not_permitted", {"passphrase": True})
    assert len(guarded.queue()) == 1


def test_a_wrong_one_decides_nothing_and_is_shown(guarded: House) -> None:
    refusal = refused(lambda: guarded.approve(all=True, passphrase="open barley"))
    assert (refusal.code, refusal.data["detail"]) == ("not_permitted", {"passphrase": True})
    assert len(guarded.queue()) == 1
    assert "A decision was tried with a wrong passphrase." in guarded.script().ask("status")["warnings"]
    assert "barley" not in repr([log.facts for log in guarded.logs])


def test_why_it_could_not_be_checked_is_said(guarded: House) -> None:
    """Then asking again for it would be no help."""
    line = guarded.human()
    core = guarded.broker.core
    core.out = []
    core.check_passphrase(core.wires[line.link], 7, "open sesame", lambda wire, now: None)
    (ticket,) = core.proving
    guarded.handle(PassphraseChecked(ticket, ok=False, problem="Too many wrong ones: wait 30 s."))
    refusal = refused(lambda: line.answer(7))
    assert (refusal.code, refusal.text, refusal.data["detail"]) == (
        "not_permitted",
        "Too many wrong ones: wait 30 s.",
        None,
    )


def test_without_one_that_is_set_nobody_decides(guarded: House) -> None:
    """Nothing fails open; how to mend it is said."""
    guarded.change_settings(passphrase_is_set=False)
    refusal = refused(lambda: guarded.approve(all=True, passphrase="open sesame"))
    assert refusal.code == "not_permitted"
    assert "none is set" in refusal.text
    assert guarded.human().ask("config", to_change=True)["ok"], "which begins with changing the settings"
    assert len(guarded.queue()) == 1


def test_the_right_one_decides(guarded: House, web: Guest) -> None:
    assert outcome(guarded.approve(all=True, passphrase="open sesame")) == [("queued", None)]
    assert web.read() == ["hello"]


def test_trust_is_revoked_with_it_too(guarded: House) -> None:
    (decided,) = guarded.approve(all=True, trust="pair", passphrase="open sesame")
    human = guarded.human()
    assert refused(lambda: human.ask("revoke_trust", id=decided["trust"])).data["detail"] == {"passphrase": True}
    assert human.ask("revoke_trust", id=decided["trust"], passphrase="open sesame") == {"revoked": decided["trust"]}


def test_who_has_gone_meanwhile_has_not_decided(guarded: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check takes its time; the answer of a link that is gone changes nothing."""
    line = guarded.human()
    wire = guarded.broker.core.wires[line.link]
    original = guarded.broker.core.check_passphrase

    def slow(*args: object) -> None:
        original(*args)  # type: ignore[arg-type]
        del guarded.broker.core.wires[wire.link]

    monkeypatch.setattr(guarded.broker.core, "check_passphrase", slow)
    line.begin("decide", verdict="approve", all=True, passphrase="open sesame")
    monkeypatch.undo()
    assert len(guarded.queue()) == 1


def test_a_bug_behind_the_passphrase_is_answered(guarded: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(type(guarded.broker._holding), "release", broken)
    refusal = refused(lambda: guarded.approve(all=True, passphrase="open sesame"))
    assert refusal.code == "internal"


def test_a_decision_that_could_not_be_stored_is_not_told_as_one(house: House, api: Guest, web: Guest) -> None:
    """3.3: also where the store had to be asked about another one first."""
    sent = api.send(web)
    house.failing = lambda ops: True
    assert refused(lambda: house.deny(sent, "m-none")).code == "internal"

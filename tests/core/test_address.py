"""Addresses: every form, one meaning, never a guess."""

from __future__ import annotations

import pytest

from tests.support.core_house import Guest, House, Refused, is_sentence, refused
from xsessiond.core.address import split_address
from xsessiond.core.ids import SessionId
from xsessiond.core.roster import Session


def talk_of(guest: Guest) -> str:
    return str(guest.params["harness_session_id"])


@pytest.mark.parametrize(
    "form", ["name", "NAME", " name ", "name [ref]", "NAME [REF]", "old [ref]", "ref", "digits", "id", "talk"]
)
def test_every_form_reaches_its_session(house: House, form: str) -> None:
    """D10, N4, N13, 2.3."""
    api, web = house.join("api"), house.join("Web", harness_session_id="01HZX-9-talk")
    house.join("web2")
    digits = web.id[2:]
    address = {
        "name": "Web", "NAME": "WEB", " name ": "  web\n", "name [ref]": f"Web [{web.ref}]",
        "NAME [REF]": f"wEB  [ {web.ref.upper()} ]", "old [ref]": f"former [{web.ref}]", "ref": web.ref,
        "digits": digits[:12], "id": web.id, "talk": talk_of(web),
    }[form]  # fmt: skip
    assert api.send(address)["to"] == {"id": web.id, "ref": web.ref, "name": "Web"}


def test_all_verbs_share_the_resolver(house: House) -> None:
    """N4: a human's rename takes each form that send takes."""
    web = house.join("web", harness_session_id="talk-1")
    human = house.human()
    for number, address in enumerate(["web", f"x [{web.ref}]", web.ref, web.id, "talk-1"]):
        human.ask("rename", of=address, name=f"name-{number}")
        web.name = f"name-{number}"
        assert house.names() == [web.name]


@pytest.mark.parametrize(
    "address, code",
    [
        ("nobody", "not_found"),
        ("we", "ambiguous"),
        ("web-", "ambiguous"),
        ("wbe", "not_found"),
        ("s-" + "0" * 32, "not_found"),
        ("web [000000]", "not_found"),
        ("web [0000]", "not_found"),
        ("000000", "not_found"),
        ("web []", "not_found"),
        ("[abcdef]", "not_found"),
        ("web [xyz]", "not_found"),
        ("x" * 100_000, "not_found"),
        ("\x1b[31mweb", "not_found"),
        ("human", "not_found"),
        ("script", "not_found"),
        ("*", "not_found"),
    ],
)
def test_what_means_nobody_is_refused_and_changes_nothing(house: House, address: str, code: str) -> None:
    """N6, N7, N12, 2.4, 2.5: nothing is stored, nobody is made up, a prefix is no name, viewers have no address."""
    api = house.join("api")
    house.join("web-1")
    house.join("web-2")
    before = house.state()
    refusal = refused(lambda: api.send(address))
    assert refusal.code == code
    assert is_sentence(refusal.text)
    assert is_sentence(refusal.hint or "")
    assert len(refusal.text) < 600
    assert house.state() == before
    for candidate in refusal.data["candidates"]:
        assert set(candidate) == {"name", "ref", "id", "cwd", "state", "machine", "age_s"}


def test_near_names_are_named_and_never_chosen(house: House) -> None:
    """N8: capped, with id, folder and age."""
    api = house.join("api")
    for number in range(10, 30):
        house.join(f"builder-{number}")
    house.pass_time(65)
    for line in house.lines.values():
        line.pong()
    refusal = refused(lambda: api.send("bulider-11"))
    assert refusal.code == "not_found"
    (near, *_) = refusal.data["candidates"]
    assert "builder-11" in refusal.text
    assert near["age_s"] >= 65
    assert len(refusal.data["candidates"]) <= 8
    assert "Running: " in refused(lambda: api.send("something-else")).text


def test_where_nobody_runs_that_is_said(house: House) -> None:
    assert "none is running" in refused(lambda: house.human().ask("send", to="web", message="x")).text


def test_the_asker_is_no_candidate(house: House) -> None:
    """N8: what is named can be written to."""
    api = house.join("api")
    assert refused(lambda: api.send("apy")).text.startswith('No session is called "apy": no other is running.')
    web = house.join("web")
    for address in ("apy", "nobody", f"nobody [{'0' * 6}]", "s-" + "0" * 32, "x" * 1000):
        refusal = refused(lambda address=address: api.send(address))  # type: ignore[misc]
        assert [candidate["id"] for candidate in refusal.data["candidates"]] == [web.id]


def test_a_name_with_a_wrong_ref_is_near_to_that_name(house: House) -> None:
    """N8."""
    api = house.join("api")
    for name in ("one", "web", "two"):
        house.join(name)
    assert 'No session is called "web [000000]". Close to it: web [' in refused(lambda: api.send("web [000000]")).text


def test_known_but_not_running_is_another_answer(house: House) -> None:
    """2.5; and L4: the hint is honest about what may be kept."""
    api, web, once = house.join("api"), house.join("web", harness_session_id="talk"), house.join("once")
    house.kill(web)
    house.kill(once)
    for address in ("web", "WEB", web.ref, web.id, f"web [{web.ref}]", "talk"):
        refusal = refused(lambda address=address: api.send(address))  # type: ignore[misc]
        assert refusal.code == "not_running"
        assert refusal.data["candidates"][0]["id"] == web.id
        assert refusal.data["candidates"][0]["state"] == "offline"
    assert "queue" in (refused(lambda: api.send("web")).hint or "")
    assert "queue" not in (refused(lambda: api.send("once")).hint or "")


def test_of_several_that_ended_the_last_is_meant(house: House) -> None:
    api = house.join("api")
    ids = []
    for _ in range(3):
        web = house.join("web")
        ids.append(web.id)
        house.pass_time(1)
        house.kill(web)
    assert refused(lambda: api.send("web")).data["candidates"][0]["id"] == ids[-1]


def add(house: House, digits: str, name: str, talk: str | None = None) -> Session:
    """A running session with an id of our choice."""
    roster = house.broker.core.roster
    session_id = SessionId("s-" + digits.ljust(32, "0"))
    session = Session(session_id, roster.choose_ref(session_id), name)
    session.harness_session_id = talk
    roster.add(session)
    return session


def test_the_ref_that_is_shown_is_exact_even_where_another_begins_with_it(house: House) -> None:
    """2.4: exact match first."""
    api = house.join("api")
    one, two = add(house, "abcdef1", "one"), add(house, "abcdef2", "two")
    assert (one.ref, two.ref) == ("abcdef", "abcdef2")
    assert api.send("abcdef", "1")["to"]["id"] == one.id
    assert api.send("one [abcdef]", "2")["to"]["id"] == one.id
    assert api.send("abcdef2", "3")["to"]["id"] == two.id
    house.broker.core.roster.end(one, 1)
    assert refused(lambda: api.send("abcdef")).code == "not_running"


def test_digits_that_several_begin_with_are_ambiguous(house: House) -> None:
    api = house.join("api")
    one = add(house, "abcdef1", "one")
    two, three = add(house, "abcdef22", "two"), add(house, "abcdef23", "three")
    assert (two.ref, three.ref) == ("abcdef2", "abcdef23")
    four, five = add(house, "bcdefa1", "four"), add(house, "bcdefa2", "five")
    four.ref = "bcdefa1"  # as if a third had been known when it came
    for address in ("bcdefa", "four [bcdefa]"):
        refusal = refused(lambda address=address: api.send(address))  # type: ignore[misc]
        assert refusal.code == "ambiguous"
        assert {c["id"] for c in refusal.data["candidates"]} == {four.id, five.id}
    house.broker.core.roster.end(five, 1)
    assert api.send("bcdefa")["to"]["id"] == four.id
    assert one.running


def test_a_conversation_that_runs_twice_is_ambiguous(house: House) -> None:
    api = house.join("api")
    one, two = house.join("one", harness_session_id="talk-x"), house.join("two", harness_session_id="talk-x")
    refusal = refused(lambda: api.send("talk-x"))
    assert refusal.code == "ambiguous"
    assert "conversation id" in refusal.text
    house.kill(one)
    assert api.send("talk-x")["to"]["id"] == two.id


def test_a_name_comes_before_what_only_looks_like_another_form(house: House) -> None:
    """N13: exact lookup precedes any rule of thumb."""
    api = house.join("api")
    first = house.join("talk-7")
    house.join("other", harness_session_id="talk-7")
    assert api.send("talk-7")["to"]["id"] == first.id


# -- pins --------------------------------------------------------------------------------------------------------------


def test_a_name_that_was_used_never_means_another_session(house: House) -> None:
    """N5, 2.6: refused with both refs; naming the ref means the new one from then on."""
    api, old = house.join("api"), house.join("x")
    api.send("x", "one")
    house.kill(old)
    new = house.join("x")
    before = house.state()
    refusal = refused(lambda: api.send("x", "two"))
    assert refusal.code == "name_moved"
    assert old.ref in refusal.text
    assert new.ref in refusal.text
    assert [candidate["id"] for candidate in refusal.data["candidates"]] == [old.id, new.id]
    assert house.state() == before
    assert api.send(f"x [{new.ref}]", "three")["to"]["id"] == new.id
    assert api.send("x", "four")["to"]["id"] == new.id


def test_a_name_that_a_reply_reached_means_that_session_from_then_on(house: House) -> None:
    """N5, 2.6: a reply goes by its id; the name that stood beside it was right, and was used."""
    api, old = house.join("api"), house.join("x")
    old.send("api", "which port?")
    (question,) = api.take()
    api.ack(question)
    api.send("x", "8080", reply_to=question["id"])
    old.line.ask("rename", name="y")
    assert api.send("x", "two")["notice"] == f"x is now called y [{old.ref}]."
    house.join("x")
    assert refused(lambda: api.send("x", "three")).code == "name_moved"


def test_a_renamed_session_is_reported_as_renamed(house: House) -> None:
    """2.6: and it stays reachable under the name that this sender knows, until another has it."""
    api, x = house.join("api"), house.join("x")
    api.send("x", "one")
    x.line.ask("rename", name="y")
    answer = api.send("x", "two")
    assert (answer["to"]["id"], answer["notice"]) == (x.id, f"x is now called y [{x.ref}].")
    assert refused(lambda: house.join("z").send("x")).code == "not_found", "others never knew it by that name"
    other = house.join("x")
    assert refused(lambda: api.send("x", "three")).code == "name_moved"
    assert api.send(f"x [{x.ref}]", "four")["notice"] == f"x is now called y [{x.ref}]."
    assert refused(lambda: api.send("x", "five")).code == "name_moved", "x still means the renamed one to this sender"
    assert api.send(f"X [{other.ref}]", "six")["to"]["id"] == other.id
    assert api.send("x", "seven")["to"]["id"] == other.id


def test_a_pinned_session_that_ended_is_not_running(house: House) -> None:
    api, x = house.join("api"), house.join("x")
    api.send("x", "one")
    x.line.ask("rename", name="y")
    house.kill(x)
    assert refused(lambda: api.send("x", "two")).code == "not_running"


def test_a_pin_outlives_all_that_is_known_of_its_session(house: House) -> None:
    api, x = house.join("api"), house.join("x")
    api.send("x", "one")
    x.read()
    house.kill(x)
    house.broker.core.roster.forget(house.broker.core.roster.known[x.id])
    assert refused(lambda: api.send("x", "two")).code == "not_found"
    new = house.join("x")
    refusal = refused(lambda: api.send("x", "three"))
    assert refusal.code == "name_moved"
    assert x.id[2:8] in refusal.text
    assert [candidate["id"] for candidate in refusal.data["candidates"]] == [new.id]


def test_pins_are_kept_over_a_restart_and_end_with_the_conversation(house: House) -> None:
    api, x = house.join("api", harness_session_id="talk"), house.join("x")
    api.send("x", "one")
    house.restart()
    api.come_back()
    house.pass_time(31)  # x did not come back in time, though its harness lives
    assert house.broker.core.roster.known[x.id].unresponsive
    house.kill(x)
    house.join("x")
    assert refused(lambda: api.send("x", "two")).code == "name_moved"
    house.kill(api)
    api.pid += 500
    api.params["pid"] = api.pid
    api.register()
    api.attach()
    assert api.send("x", "three")["state"] == "queued"


def test_an_id_pins_nothing_and_is_not_moved_by_names(house: House) -> None:
    """N10: an id stays that session, whatever names do."""
    api, x = house.join("api"), house.join("x")
    api.send(x.id, "one")
    x.line.ask("rename", name="y")
    other = house.join("x")
    assert api.send(x.id, "two")["to"]["id"] == x.id
    assert api.send("x", "three")["to"]["id"] == other.id
    house.kill(x)
    assert refused(lambda: api.send(x.id, "four")).code == "not_running"


def test_a_human_has_no_pins(house: House) -> None:
    human, old = house.human(), house.join("x")
    human.ask("send", to="x", message="one")
    house.kill(old)
    new = house.join("x")
    assert human.ask("send", to="x", message="two")["to"]["id"] == new.id


@pytest.mark.parametrize(
    "text, parts",
    [
        ("web", ("web", None)),
        ("web [abc123]", ("web", "abc123")),
        ("web[ABC123]", ("web", "abc123")),
        ("we b [ abc123 ]", ("we b", "abc123")),
        ("web [xyz]", ("web [xyz]", None)),
        ("web []", ("web []", None)),
        ("[abc123]", ("[abc123]", None)),
        ("web]", ("web]", None)),
        ("", ("", None)),
    ],
)
def test_an_address_falls_into_a_name_and_a_ref(text: str, parts: tuple[str, str | None]) -> None:
    assert split_address(text) == parts


def test_nothing_that_is_typed_breaks_the_resolver(house: House) -> None:
    api = house.join("api")
    for text in [
        "]",
        "[",
        "[]",
        "[[]]",
        "\u202e",
        "s-",
        "m-" + "0" * 32,
        "а" * 64,
        "\0",
        "🙂",
        "-",
        "--help",
        "s-" + "g" * 32,
    ]:
        with pytest.raises(Refused):
            api.send(text)

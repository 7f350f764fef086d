"""xsessionctl.held: ids as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from xsessionctl.client import ClientError
from xsessionctl.held import complete_id, find_messages, find_trust, held_of, shorten_ids, wants_passphrase

A, B, C = "m-5f0c" + "0" * 28, "m-5f0c" + "1" * 28, "m-abcd" + "2" * 28
QUEUE: dict[str, Any] = {
    "held": [{"id": name, "from": {"name": "web"}, "to": {"name": "api"}} for name in (A, B, C)],
    "left_out": 0,
}


def refuse(words: list[str], queue: dict[str, Any] = QUEUE) -> ClientError:
    with pytest.raises(ClientError) as caught:
        find_messages(words, queue, 1.0)
    return caught.value


@pytest.mark.parametrize("word", ["m-abcd", "abcd", "M-ABCD2", " abcd22 ", C])
def test_a_beginning_that_means_one_message_is_enough(word: str) -> None:
    """5.8, as with git: with or without the prefix, in any case."""
    assert find_messages([word], QUEUE, 1.0) == [C]


def test_a_message_that_is_named_twice_is_meant_once() -> None:
    assert find_messages(["abcd", C, "5f0c1"], QUEUE, 1.0) == [C, B]


def test_what_could_mean_two_is_refused_with_both() -> None:
    """Nothing is guessed where a decision hangs on it."""
    problem = refuse(["abcd", "5f0c"])
    assert (problem.code, problem.exit_code) == ("ambiguous", 4)
    assert [candidate["id"] for candidate in problem.candidates if isinstance(candidate, dict)] == [A, B]


@pytest.mark.parametrize("word", ["", "m-", "abc", "m-abc", "xyzw", "m-abcg", "a" * 33, "t-abcd", "api"])
def test_what_is_no_id_is_a_usage_error(word: str) -> None:
    assert refuse([word]).code == "usage"


def test_a_whole_id_is_taken_as_it_is() -> None:
    """The broker knows what became of it."""
    other = "m-" + "9" * 32
    assert find_messages([other], QUEUE, 1.0) == [other]


def test_a_queue_that_is_not_whole_takes_whole_ids_only() -> None:
    """One that is not shown could begin the same."""
    assert refuse(["abcd"], {**QUEUE, "left_out": 3}).code == "usage"
    assert find_messages([C], {**QUEUE, "left_out": 3}, 1.0) == [C]


def test_of_any_message_a_beginning_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with held ones; what could be no id is left to the broker."""
    monkeypatch.setattr("xsessionctl.held.ask", lambda *_: {"entries": QUEUE["held"]})
    assert complete_id("ABCD", 1.0) == C
    assert complete_id(A, 1.0) == A
    for word in ("nonsense", "m-ffff", "m-1", ""):
        assert complete_id(word, 1.0) == word
    with pytest.raises(ClientError) as caught:
        complete_id("m-5f0c", 1.0)
    assert (caught.value.code, len(caught.value.candidates)) == ("ambiguous", 2)


def test_a_trust_is_found_by_its_beginning() -> None:
    trusts: dict[str, Any] = {"trusts": [{"id": "t-1a2b" + "0" * 12}, {"id": "t-1a2c" + "0" * 12}]}
    assert find_trust("1a2b", trusts) == "t-1a2b" + "0" * 12
    assert find_trust("t-ffff", trusts) == "t-ffff"
    assert find_trust("t-ffff", {}) == "t-ffff"
    with pytest.raises(ClientError, match="too short"):
        find_trust("1a2", trusts)
    with pytest.raises(ClientError, match="begin with t-1a2b"):
        find_trust("1a2b", {"trusts": [{"id": "t-1a2b0"}, {"id": "t-1a2b1"}]})


def test_a_shown_id_is_as_short_as_its_neighbours_allow() -> None:
    assert shorten_ids([A, B, C]) == {A: "m-5f0c00", B: "m-5f0c11", C: "m-abcd22"}
    near = ["m-abcdef0", "m-abcdef1", "m-abcde"]
    assert shorten_ids(near) == {"m-abcdef0": "m-abcdef0", "m-abcdef1": "m-abcdef1", "m-abcde": "m-abcde"}
    assert shorten_ids([]) == {}


def test_an_answer_of_another_version_holds_nothing() -> None:
    assert held_of({}) == held_of({"held": None}) == held_of({"held": [5]}) == {}


@pytest.mark.parametrize("detail, wanted", [({"passphrase": True}, True), ({}, False), (None, False), ("x", False)])
def test_a_passphrase_is_asked_for_where_the_broker_says_so(detail: object, *, wanted: bool) -> None:
    assert wants_passphrase(ClientError("not_permitted", "No.", detail=detail)) is wanted

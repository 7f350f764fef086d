"""Who holds what: every charge stands with whoever caused it, and is gone when it is given back."""

from __future__ import annotations

import pytest

from tests.support.core_house import Answer, House
from xsessiond.core import limits


def charges(house: House) -> dict[str, Answer]:
    line = house.script()
    try:
        return {row["name"]: row for row in line.ask("charges")["charges"]}
    finally:
        line.drop()


def test_what_a_session_holds(house: House) -> None:
    """F1, 13.3: its links, what waits for it, what it waits for."""
    api, web = house.join("api"), house.join("web", push=True)
    bold = house.join("bold", **{"class": "bypass"})
    api.send(web, "four")
    bold.send(api, "eleven char")
    api.begin_send(bold, "wait", wait_reply=30)
    second = api.attach()
    rows = charges(house)
    assert {key: rows["web"][key] for key in ("links", "pushed", "queued", "queued_bytes")} == {
        "links": 1, "pushed": 1, "queued": 1, "queued_bytes": 4,
    }  # fmt: skip
    assert {key: rows["api"][key] for key in ("links", "held", "held_bytes", "kind", "ref")} == {
        "links": 2, "held": 1, "held_bytes": 11, "kind": "session", "ref": api.ref,
    }  # fmt: skip
    second.drop()
    assert charges(house)["api"]["links"] == 1


def test_what_is_given_back_is_charged_to_nobody(house: House) -> None:
    api, web = house.join("api"), house.join("web")
    api.send(web)
    web.read()
    assert (charges(house)["web"]["queued"], charges(house)["web"]["queued_bytes"]) == (0, 0)
    house.kill(web)
    assert "web" not in charges(house)


def test_a_wait_and_a_watch_are_whose_they_are(house: House) -> None:
    api, web = house.join("api"), house.join("web")
    web.line.ask("update", state="busy")
    api.line.ask("send", to="web", notify_when_idle=True)
    api.begin_send(web, "and tell me", wait_reply=30)
    row = charges(house)["api"]
    assert (row["waits"], row["watches"]) == (1, 1)
    assert charges(house)["web"]["watches"] == 0


def test_what_a_peer_has_not_read_is_charged_to_it(house: House) -> None:
    api, web = house.join("api"), house.join("web")
    house.broker.core.wires[api.line.link].protocol.unsent = 70
    house.broker.core.wires[api.attach().link].protocol.unsent = 7
    line = house.script()
    house.broker.core.wires[line.link].protocol.unsent = 5
    answer = line.ask("charges")
    assert {row["name"]: row["unsent_bytes"] for row in answer["charges"]} == {"api": 77, web.name: 0}
    assert answer["strangers"]["unsent_bytes"] == 5
    assert answer["total"]["unsent_bytes"] == 77


def test_the_human_strangers_and_the_sum(house: House) -> None:
    house.join("api")
    house.human()
    line = house.script()
    answer = line.ask("charges")
    assert {row["kind"]: (row["id"] is None, row["links"]) for row in answer["charges"]} == {
        "session": (False, 1),
        "human": (True, 1),
    }
    assert answer["strangers"] == {"links": 1, "unsent_bytes": 0}
    assert answer["total"]["links"] == 2
    assert answer["limits"]["links"] == limits.LINKS_PER_SESSION
    assert answer["left_out"] == 0


def test_the_heaviest_are_told(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHARGES_MOST", 1)
    api = house.join("api")
    house.join("web")
    api.attach()
    answer = house.script().ask("charges")
    assert [row["name"] for row in answer["charges"]] == ["api"]
    assert answer["left_out"] == 1

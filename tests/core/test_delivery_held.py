"""How what was held reaches its receiver."""

from __future__ import annotations

from tests.support.core_house import House


def test_what_was_held_says_so_when_it_is_taken(house: House) -> None:
    """12.1, H3: in the envelope too."""
    daring, web = house.join("daring", **{"class": "bypass"}), house.join("web")
    sent = daring.send(web)
    house.pass_time(90)
    house.approve(sent)
    (message,) = web.take(render=True)
    assert message["held"]["held_s"] == 90
    assert 'held="1m 30s, approved by human ann at ' in message["envelope"]


def test_what_is_held_for_a_conversation_has_its_own_time(house: House) -> None:
    """7.5: what was let go counts from then, what waits for a human from its hold, if that has an end."""
    daring = house.join("daring", **{"class": "bypass"})
    web = house.join("web", harness_session_id="talk")
    house.kill(web)
    sent = daring.send(web.id, when_offline="queue")
    message = house.broker.core.messages[sent["id"]]
    delivery = house.broker._delivery
    assert delivery.kept_until(web.session, message) is None
    house.pass_time(1800)
    house.approve(sent)
    assert delivery.kept_until(web.session, message) == house.ms + house.settings.keep_ms


def test_several_that_arrive_together_are_one_notice(house: House) -> None:
    """7.3: and replies among them go to who waits."""
    daring, web = house.join("daring", **{"class": "bypass"}), house.join("web")
    for number in range(3):
        daring.send(web, str(number))
    web.change_class("bypass")
    assert web.line.notes == [("mail", {"queued": 3})]

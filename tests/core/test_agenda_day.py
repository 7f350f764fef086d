"""A day in which nothing happens: how often the core wants to be woken."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.support.core_house import House
from xsessiond.core.effects import TimePassed

DAY_S = 24 * 3600.0
SETTLED_S = 120.0
"""By then what was just done has come to its end: settle times, pings, grace."""


def wakings(house: House, seconds: float) -> list[float]:
    """Times, since now, at which a deadline fell due."""
    begun, found = house.mono, []
    while (due := house.broker.next_due()) is not None and due <= begun + seconds:
        house._move(max(due, house.mono))
        found.append(house.mono - begun)
        house.handle(TimePassed())
    house._move(begun + seconds)
    return found


def test_fifty_idle_sessions_need_nothing_all_day() -> None:
    """F1, D7, 1.6, 15.6: no timer without need, and all are still listed."""
    house = House()
    guests = [house.join(f"s{number}", push=number % 2 == 0) for number in range(50)]
    guests[0].send(guests[2])
    guests[2].read()
    house.pass_time(SETTLED_S)
    assert wakings(house, DAY_S) == []
    assert len(house.names()) == 50


@pytest.mark.parametrize("state", ["busy", "idle"])
def test_what_waits_for_something_is_looked_at_seldom(state: str) -> None:
    """F1: a held message, a wish to be told, mail that nobody takes: none faster than every 30 s."""
    house = House()
    api, web = house.join("api", **{"class": "bypass"}), house.join("web")
    other = house.join("other")
    web.line.ask("update", state="busy")
    api.send(web, "held")
    other.send(web, "waits")
    other.line.ask("send", to="web", notify_when_idle=True)
    web.line.ask("update", state=state)
    house.pass_time(SETTLED_S)
    times = wakings(house, DAY_S)
    assert len(times) <= DAY_S / 30
    gaps = [after - before for before, after in pairwise(times) if after - before > 1e-6]
    assert all(gap >= 29.9 for gap in gaps), sorted(gaps)[:5]

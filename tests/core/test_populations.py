"""Populations that do not know when to stop: each ends, and those that are no loop are left alone.

The numbers are what it costs until then; docs/pace.md shows them.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.support.populations import (
    DOCUMENT,
    POPULATIONS,
    QUICK,
    SLOW,
    Population,
    World,
    answer_in_other_words,
    make_lines,
    pair,
    ring,
    star,
    tell_all_others,
    watch,
)
from xsessiond.core.limits import EXCHANGE_PER_MINUTE, EXCHANGE_WINDOW_S, MAX_HOPS

IN_A_ROW = MAX_HOPS + 1
"""The first, which nobody caused, and as many as may each be caused by another."""
FAST = EXCHANGE_PER_MINUTE + 1
NAMES = {population.name: population for population in POPULATIONS}

COSTS: dict[str, tuple[int, int, set[str]]] = {
    "two that send back what they read within seconds": (2, 2, {"duplicate"}),
    "two that send back what they read after half a minute": (IN_A_ROW, IN_A_ROW, {"hop_limit"}),
    "two that always answer, in other words, within seconds": (FAST, FAST, {"exchange_limit"}),
    "two that always answer, in other words, after half a minute": (IN_A_ROW, IN_A_ROW, {"hop_limit"}),
    "two that always answer, and try again when a refusal says so": (
        IN_A_ROW,
        IN_A_ROW,
        {"exchange_limit", "hop_limit"},
    ),
    "two that always answer, and whose human asks again every hour, eight times": (
        8 * IN_A_ROW,
        8 * IN_A_ROW,
        {"hop_limit"},
    ),
    "a ring of three that passes on": (IN_A_ROW, IN_A_ROW, {"hop_limit"}),
    "a ring of nine that passes on": (IN_A_ROW, IN_A_ROW, {"hop_limit"}),
    "a ring of three, each of which is told other news every ten seconds": (IN_A_ROW, IN_A_ROW, {"hop_limit"}),
    "a ring of three, while the broker is killed every ten seconds": (IN_A_ROW, IN_A_ROW, {"hop_limit"}),
    "a star of eight, whose middle answers each": (124, 88, {"hop_limit", "exchange_limit"}),
    "a star of eight, whose middle tells all others": (88, 88, {"exchange_limit"}),
    "one that gives another its next task whenever it is told that that is idle": (
        MAX_HOPS // 2 + 1,
        0,
        {"hop_limit", "unsupported_mode"},
    ),
    "one that speaks of itself, and writes to itself": (1, 1, {"self_target"}),
    "one that tells twenty others something every ten minutes, for eight hours": (960, 960, set()),
    "one that reports every minute, for eight hours": (480, 480, set()),
    "one that says twelve things at once": (12, 12, set()),
}
"""Messages delivered among sessions that tell of their turns, and among plain clients; what may stop them."""


@pytest.mark.parametrize("reports", [True, False], ids=["turns", "plain"])
@pytest.mark.parametrize("name", COSTS)
def test_each_ends_as_it_must(name: str, *, reports: bool) -> None:
    """R1, R2, R3, R4, R7, 10.1 to 10.4: pairs, rings and stars are stopped, also those that paraphrase, mix in other
    news or outlive a broker; honest reporters, broadcasters and bursts are not."""
    world = watch(NAMES[name], reports=reports)
    turns, plain, codes = COSTS[name]
    assert world.delivered == (turns if reports else plain)
    assert set(world.refused) <= codes
    assert bool(world.refused) == bool(codes)


def test_all_populations_have_their_costs() -> None:
    assert list(NAMES) == list(COSTS)
    assert sum(watch(one, reports=reports).steps for one in POPULATIONS for reports in (True, False)) > 10_000


LOOPS = [
    Population("pair", pair(answer_in_other_words, QUICK)),
    Population("slow pair", pair(answer_in_other_words, SLOW)),
    Population("stubborn pair", pair(answer_in_other_words, QUICK, stubborn=True), 2),
    Population("star", star(answer_in_other_words, 5)),
    Population("loud star", star(tell_all_others, 5)),
    *(Population(f"ring of {size}", ring(size)) for size in (2, 4, 7)),
    Population("restarts", ring(3, restart_s=30.0)),
]


@pytest.mark.parametrize("reports", [True, False], ids=["turns", "plain"])
@pytest.mark.parametrize("population", LOOPS, ids=lambda population: population.name)
def test_however_they_dawdle(population: Population, *, reports: bool) -> None:
    """10.3: whatever the seed, no message comes too far, no two say too much to each other, it ends, and everybody is
    told of it, once."""
    for seed in range(2, 6):
        world = watch(population, reports=reports, seed=seed)
        assert world.refused
        assert max(world.hops) <= MAX_HOPS
        check_exchanges(world)
        assert world.ended_s < 20 * 60 < population.hours * 3600, "it ended long ago"
        check_told(world)


def check_exchanges(world: World) -> None:
    """Never more than so many caused messages between two in any minute."""
    spoken: dict[frozenset[str | None], list[int]] = defaultdict(list)
    for row in world.house.store.read_log(limit=100_000, since_ms=None, thread=None):
        if row.cause is not None:
            spoken[frozenset({row.sender_id, row.target_id})].append(row.sent_at)
    for times in spoken.values():
        for late, early in zip(times[EXCHANGE_PER_MINUTE:], times, strict=False):
            assert late - early >= EXCHANGE_WINDOW_S * 1000


def check_told(world: World) -> None:
    """R1: to a receiver no two are alike, nor to the human: each names who was stopped, and by which limit."""
    told = [[receipt["text"] for receipt in actor.told if receipt["state"] == "stopped"] for actor in world.actors]
    told.append([notice.text for notice in world.house.notified])
    assert all(len(set(texts)) == len(texts) for texts in told)
    assert told[-1]
    assert any(told[:-1])


def test_the_document_shows_what_it_costs() -> None:
    assert DOCUMENT.put(make_lines()) == DOCUMENT.read(), "run: python -m tests.support.populations"

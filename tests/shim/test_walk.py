"""Mail through hooks and doors against a plain model, over random walks with lost links, answers and conversations.

W9, 6.1, 6.2: what is acknowledged stands in the context of the conversation that it is for, whatever is lost on the way
there; and when all goes well again, all that waits arrives.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.shim.walk import Walk
from xsessionctl.shim import courier, hooks, supply

SEEDS = 1000
STEPS = 80


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    for module in (courier, hooks, supply):
        monkeypatch.setattr(module, "monotonic", lambda: now[0])
    return now


def walk(seed: int, clock: list[float]) -> Walk:
    """A walk; one that fails tells its seed and its last steps."""
    one = Walk(seed, clock)
    try:
        for _ in range(STEPS):
            one.step()
        one.finish()
    except Exception as problem:
        raise AssertionError(f"seed {seed}: {' '.join(one.steps[-40:])}") from problem
    return one


@pytest.mark.slow
def test_what_is_acknowledged_was_read_where_it_belongs(clock: list[float]) -> None:
    """80,000 steps in all."""
    walks = [walk(seed, clock) for seed in range(SEEDS)]
    counts = sum((one.counts for one in walks), Counter[str]())
    assert len(counts) == 10
    assert min(counts.values()) > 1000
    assert sum(len(box.read) for one in walks for box in one.boxes.values()) > 2000


@pytest.mark.slow
def test_it_was_in_long_walks_too(clock: list[float]) -> None:
    for seed in range(10_000, 20_000):
        walk(seed, clock)

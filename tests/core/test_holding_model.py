"""Holding against a plain model of it, over long random walks.

5.1, 5.5, 5.6, 5.8: after each step the queue, the boxes, the trusts and the store are what the rules say, whatever was
approved, denied, trusted, revoked, expired, changed, stored or lost; nobody reads what is held, and each sender sees
what became of its messages.
"""

from __future__ import annotations

import pytest

from tests.support.holding_model import HoldingWalk

SEEDS = 12
STEPS = 400


def walk(seed: int, steps: int) -> HoldingWalk:
    """A walk; one that fails tells its seed and its last steps."""
    one = HoldingWalk(seed)
    try:
        for _ in range(steps):
            one.step()
        one.finish_walk()
    except Exception as problem:
        story = "\n  ".join(one.story[-25:])
        raise AssertionError(f"seed {seed}, step {len(one.story)}:\n  {story}") from problem
    return one


@pytest.mark.parametrize("seed", range(SEEDS))
def test_holding_agrees_with_a_plain_model(seed: int) -> None:
    walk(seed, STEPS)


def test_a_walk_does_everything() -> None:
    """So that agreement means something."""
    one = walk(SEEDS, 1500)
    assert min(one.counts.values()) > 0
    assert len(one.counts) == 11
    assert set(one.ends) == {"delivered", "denied", "expired", "refused"}
    assert len(one.mail) > 200


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_it_does_for_long(seed: int) -> None:
    walk(seed, 3000)

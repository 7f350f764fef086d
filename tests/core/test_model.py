"""The broker against a plain model of itself, over long random walks with crashes, full disks and sleeping laptops.

D6: after each step the roster is exactly who has a link, may still come back, or is verified alive. L6, L12, W9, W10,
N11: each accepted message is in exactly one place and is read exactly once, in order, whatever dies. N7: what is
refused changed nothing. N10: an id is that session, whatever names do.
"""

from __future__ import annotations

import pytest

from tests.support.core_model import Walk

SEEDS = 24
STEPS = 500


def walk(seed: int, steps: int) -> Walk:
    """A walk; one that fails tells its seed and its last steps."""
    one = Walk(seed)
    try:
        for _ in range(steps):
            one.step()
        one.finish()
    except Exception as problem:
        story = "\n  ".join(one.done_what[-25:])
        raise AssertionError(f"seed {seed}, step {len(one.done_what)}:\n  {story}") from problem
    return one


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_broker_agrees_with_a_plain_model(seed: int) -> None:
    """D6, L6, L12: 12,000 steps in all; `list` is the links that are there, and nothing is lost or read twice."""
    walk(seed, STEPS)


def test_a_walk_does_everything() -> None:
    """So that agreement means something."""
    one = walk(SEEDS, 2500)
    assert min(one.counts.values()) > 0
    assert len(one.counts) == 19
    states = {mail.state for mail in one.mail.values()}
    assert {"delivered", "replied", "expired"} <= states
    assert len(one.mail) > 200


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1000, 1040))
def test_it_does_for_long(seed: int) -> None:
    walk(seed, 3000)

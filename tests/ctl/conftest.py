"""A broker that runs, for the tests that ask it something."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member


@pytest.fixture
def running(broker: PrivateBroker) -> PrivateBroker:
    """A private broker that accepts."""
    broker.start()
    return broker


@pytest.fixture
def api(running: PrivateBroker) -> Iterator[Member]:
    """A session called api."""
    with Member(running.rendezvous, "api", cwd="/src/api") as member:
        yield member

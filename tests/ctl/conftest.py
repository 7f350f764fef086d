"""A broker that runs, for the tests that ask it something."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.private_broker import PrivateBroker, private_broker
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


@pytest.fixture(scope="module")
def shared() -> Iterator[PrivateBroker]:
    """A broker that accepts, with a session called api, for all tests of a file that change nothing."""
    with private_broker() as place:
        place.start()
        with Member(place.rendezvous, "api", cwd="/src/api"):
            yield place

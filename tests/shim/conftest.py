"""Every shim that a test started ends with the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.shim.process import finish_all
from tests.support.private_broker import PrivateBroker


@pytest.fixture(autouse=True)
def _no_shim_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    if "broker" in request.fixturenames:
        place: PrivateBroker = request.getfixturevalue("broker")
        assert place.root.exists()  # so that this fixture is undone first
    yield
    finish_all()

"""What most tests of the core begin with: a broker with nothing around it, and two sessions. A file that needs another
house makes its own; the sessions join that."""

from __future__ import annotations

import pytest

from tests.support.core_house import Guest, House


@pytest.fixture
def house() -> House:
    """A broker as a fresh installation has it."""
    return House()


@pytest.fixture
def api(house: House) -> Guest:
    """A session that asks before it acts."""
    return house.join("api")


@pytest.fixture
def web(house: House) -> Guest:
    """Another."""
    return house.join("web")

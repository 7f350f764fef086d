"""What the tests of the service start from: a booted system, its user with the product, the service installed.

Each test has a system of its own, which takes a second to boot; the product in it is a wheel, built once a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.installed import build_wheel, dependencies, install_wheel
from tests.support.private_broker import remove_directory, short_temporary_directory
from tests.support.systemd_rig.service import Installed
from tests.support.systemd_rig.world import World, booted_world, why_not

__all__ = ["PREFIX", "environment", "in_a_real_systemd", "service", "user", "world"]

PREFIX = "/opt/xsessiond"
"""Where the product is installed inside."""

in_a_real_systemd = [
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.skipif(why_not() is not None, reason=f"a real systemd: {why_not()}"),
    pytest.mark.xdist_group("systemd"),
]


@pytest.fixture(scope="module")
def environment() -> Iterator[Path]:
    """A virtual environment with the product's wheel, and nothing of this repository."""
    place = short_temporary_directory()
    try:
        install_wheel(build_wheel(place), place / "venv", seen_as=PREFIX)
        yield place / "venv"
    finally:
        remove_directory(place)


@pytest.fixture
def world(environment: Path) -> Iterator[World]:
    """A system that was just booted. Nobody is logged in."""
    with booted_world({environment: PREFIX, dependencies(): f"{PREFIX}-dependencies"}) as booted:
        yield booted


@pytest.fixture
def user(world: World) -> Installed:
    """Its user, with the product and without the service."""
    return Installed(world, Path(PREFIX, "bin"))


@pytest.fixture
def service(user: Installed) -> Iterator[Installed]:
    """The user logged in, with the service installed and running."""
    with user.world.logged_in():
        user.ctl("service", "install")
        yield user

"""What every test has: a private place, bounded time, reproducible examples, and no way to the user's own broker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.human import below_agent, can_be_outside
from tests.support.outside import VARIABLE, run_outside
from tests.support.private_broker import PrivateBroker, private_broker, remove_directory, short_temporary_directory

# A shared machine stalls for longer than any deadline per example; a hang is caught by the timeout per test instead.
# Under CI the examples are the same in every run, so that a change is judged by itself and not by luck.
settings.register_profile(
    "default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

INHERITED = ("XSESSIOND_", "XDG_", "CLAUDE", "CODEX_", "GEMINI_", "OPENCODE")
"""Prefixes of variables that change what our programs do: those of the session or shell that runs the tests."""

KEPT = ("XSESSIOND_TEST_",)
"""Prefixes of those that speak to the tests themselves."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Hand over to a run that no agent started, where one did."""
    if VARIABLE in os.environ or not below_agent() or not can_be_outside():
        return None
    return run_outside(config.invocation_params.args, str(config.invocation_params.dir))


@pytest.fixture(scope="session", autouse=True)
def _nowhere_near_the_users_own() -> Iterator[None]:
    """Point this process, and all that it starts without saying where, at an empty place that is removed at the end."""
    before = dict(os.environ)
    for name in before:
        if name.startswith(INHERITED) and not name.startswith(KEPT):
            del os.environ[name]
    with private_broker() as place:
        os.environ.update(place.directories())
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


@pytest.fixture
def broker() -> Iterator[PrivateBroker]:
    """Yield a private broker's place, not started; every process started there is ended afterwards."""
    with private_broker() as place:
        yield place


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """Yield a private directory whose path is short enough for a Unix socket, unlike pytest's `tmp_path`."""
    path = short_temporary_directory()
    try:
        yield path
    finally:
        remove_directory(path)

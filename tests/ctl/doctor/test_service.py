"""What the doctor makes of a service manager's account; the accounts themselves are tried in a real systemd."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.private_broker import PrivateBroker
from xsessionctl.doctor.examination import AREAS
from xsessionctl.doctor.service import judge

BROKER = {"pid": 7, "service": "systemd"}


def account(**changes: Any) -> dict[str, object]:
    """A service that is well, but for this."""
    service = {"state": "active", "detail": "running", "result": "success", "pid": 7, "restarts": 0}
    return {
        "installed": True,
        "files": files("current", "current"),
        "problem": None,
        "enabled": True,
        "why_not": None,
        "socket": {"state": "active", "detail": "running"},
        "service": {**service, **changes.pop("service", {})},
        **changes,
    }  # fmt: skip


def levels(found: dict[str, object], broker: dict[str, object] = BROKER) -> dict[str, list[str]]:
    told: dict[str, list[str]] = {}
    for finding in judge("systemd", found, broker):
        assert finding.area == "service"
        assert finding.what.endswith(".")
        assert finding.level != "problem" or finding.mend
        told.setdefault(finding.level, []).append(finding.what)
    return told


def files(*states: str) -> list[dict[str, str]]:
    return [{"path": f"/u/{number}", "state": state} for number, state in enumerate(states)]


def test_all_is_well() -> None:
    assert levels(account()) == {"ok": ["systemd runs the broker (pid 7)."]}
    resting = account(service={"state": "inactive", "pid": None})
    assert levels(resting, {}) == {"ok": ["systemd starts the broker for the first client."]}


def test_nothing_is_installed() -> None:
    for states in (("missing", "missing"), ("foreign", "missing")):
        assert levels(account(files=files(*states), enabled=False)) == {
            "ok": ["systemd runs no broker here; the first client starts it."]
        }


@pytest.mark.parametrize(
    "changes, level, text",
    [
        ({"files": files("current", "missing")}, "problem", "/u/1 is gone"),
        ({"files": files("differs", "current")}, "note", "of another version"),
        ({"problem": "The socket would be elsewhere."}, "problem", "would be elsewhere"),
        ({"enabled": False}, "note", "not there after the next login"),
        ({"why_not": "nobody is logged in", "socket": None, "service": {}}, "note", "nobody is logged in"),
        ({"socket": {"state": "failed", "detail": "failed"}}, "problem", "does not listen (failed)"),
        ({"service": {"state": "failed", "result": "exit-code"}}, "problem", "could not be started (exit-code)"),
        ({"service": {"restarts": 4}}, "problem", "again 4 times"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], level: str, text: str) -> None:
    told = levels(account(**changes))
    assert any(text in what for what in told[level])
    assert ("ok" in told) == (level != "problem")


def test_a_broker_beside_the_service_is_mentioned() -> None:
    told = levels(account(), {"pid": 9, "service": None})
    assert told["note"] == ["The broker that runs (pid 9) was started by a client, not by systemd."]


def test_it_is_one_of_the_areas(broker: PrivateBroker) -> None:
    assert "service" in AREAS
    assert "service" in broker.ctl("doctor").stdout

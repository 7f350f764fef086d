"""All areas, one after the other.

Laws: an area that fails is a finding of its own and keeps no other from being looked at. Refuses to know: what the
areas look at.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module

from xsessionctl.client import ClientError
from xsessionctl.doctor.findings import Finding, Look, tell_nobody
from xsessiond.paths import PathError, Paths, recorded_runtime_dir, resolve_paths

AREAS = (
    "paths", "directories", "lock", "program", "service", "store", "machine", "settings", "mail", "grants",
    "harnesses",
)  # fmt: skip
"""Modules beside this one, in the order in which they are shown. Each has `examine(look)`."""


def examine_all(
    deadline: float, *, try_doors: bool = False, tell: Callable[[str], None] = tell_nobody
) -> dict[str, object]:
    """The document of `xsessionctl doctor`. deadline: on the monotonic clock. try_doors, tell: see `Look`."""
    try:
        rule = resolve_paths()
        look = Look(rule, _find_broker(rule), deadline, try_doors, tell)
    except PathError as problem:
        found = [Finding("paths", "problem", problem.reason, "Without a place for its files no broker can run.", None)]
        return make_document(found, {})
    found = [finding for area in AREAS for finding in _examine(area, look)]
    return make_document(found, look.broker())


def _find_broker(rule: Paths) -> Paths:
    """The paths at which a broker runs, or would."""
    elsewhere = recorded_runtime_dir(rule)
    if elsewhere is None or not os.path.exists(elsewhere + "/broker.sock"):
        return rule
    return rule.at_runtime_dir(elsewhere, "where the broker started")


def make_document(found: list[Finding], broker: dict[str, object]) -> dict[str, object]:
    """ok: there is no problem. broker: as in `status`, or null."""
    return {
        "ok": not any(finding.level == "problem" for finding in found),
        "broker": broker or None,
        "findings": [finding.to_json() for finding in found],
    }


def _examine(area: str, look: Look) -> Iterator[Finding]:
    try:
        yield from import_module(f"xsessionctl.doctor.{area}").examine(look)
    except ClientError as problem:
        yield Finding(area, "problem", f"This could not be looked at: {problem.text}", None, problem.hint)
    except Exception as problem:  # our own bug; the other areas tell all the same
        yield Finding(area, "problem", f"This could not be looked at: {type(problem).__name__}: {problem}.")

"""Asking the doctor, and what it said."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.support.private_broker import PrivateBroker


class Diagnosis(NamedTuple):
    """What `xsessionctl doctor --json` answered, and its exit code."""

    code: int
    document: dict[str, Any]

    def problems(self, area: str | None = None) -> list[dict[str, Any]]:
        """The problems, of one area or of all."""
        return self.of("problem", area)

    def of(self, level: str, area: str | None = None) -> list[dict[str, Any]]:
        """The findings of a level."""
        found: list[dict[str, Any]] = self.document["findings"]
        return [one for one in found if one["level"] == level and area in (None, one["area"])]


def examine(place: PrivateBroker, **extra: str) -> Diagnosis:
    """Ask the doctor of this place."""
    done = place.ctl("doctor", "--json", within_s=60.0, **extra)
    assert done.stderr == ""
    return Diagnosis(done.returncode, json.loads(done.stdout))


def find_problem(place: PrivateBroker, area: str, **extra: str) -> dict[str, Any]:
    """Ask the doctor, who must find this one problem and nothing else wrong."""
    found = examine(place, **extra)
    (problem,) = found.problems()
    assert (found.code, found.document["ok"], problem["area"]) == (1, False, area)
    assert problem["mend"], "a problem has its way out"
    return problem

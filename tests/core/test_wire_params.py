"""What a request may carry: every default, once, and what has a word of its own on the wire."""

from __future__ import annotations

import msgspec
import pytest

from xsessiond.core import wire_params as p

NEEDED: dict[str, dict[str, object]] = {
    "HelloParams": {"protocol": 1},
    "Resume": {"id": "s-1", "token": "t"},
    "AttachParams": {"token": "t"},
    "IdsParams": {"ids": []},
    "RenameParams": {"name": "web"},
    "TurnParams": {"phase": "started"},
    "CancelParams": {"id": 1},
    "DecideParams": {"verdict": "approve"},
    "RevokeTrustParams": {"id": "t-1"},
    "GrantParams": {"name": "box", "directory": "/d", "cwd": "/"},
    "RevokeGrantParams": {"of": "box"},
    "ExplainParams": {"sender": "web", "receiver": "api"},
}
"""What cannot be left out."""

KINDS = [
    kind
    for kind in vars(p).values()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__module__ == p.__name__
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_needed_is_enough_and_less_is_not(kind: type[msgspec.Struct]) -> None:
    needed = NEEDED.get(kind.__name__, {})
    assert isinstance(msgspec.convert(needed, kind), kind)
    for name in needed:
        with pytest.raises(msgspec.ValidationError, match=name):
            msgspec.convert({key: value for key, value in needed.items() if key != name}, kind)


@pytest.mark.parametrize("kind", [p.RegisterParams, p.UpdateParams, p.GrantParams])
def test_the_class_is_called_so_on_the_wire(kind: type[msgspec.Struct]) -> None:
    given = {**NEEDED.get(kind.__name__, {}), "class": "bypass"}
    assert msgspec.to_builtins(msgspec.convert(given, kind))["class"] == "bypass"
    with pytest.raises(msgspec.ValidationError, match="class"):
        msgspec.convert({"class": "root"}, kind)


@pytest.mark.parametrize("for_s", [0, -1, 1e10, float("nan")])
def test_a_trust_lasts_for_a_time_that_there_is(for_s: float) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"verdict": "approve", "for_s": for_s}, p.DecideParams)


@pytest.mark.parametrize("verdict", ["", "yes", "APPROVE", None, True])
def test_there_are_two_verdicts(verdict: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"verdict": verdict}, p.DecideParams)

"""Refusals: the closed list of codes, and their exit codes. That their texts are sentences: test_refusals.py."""

from __future__ import annotations

import ast
from pathlib import Path

from xsessiond.core import errors
from xsessiond.core.errors import CODES, EXIT_CODES, Refusal, not_stored

ROOT = Path(__file__).parents[2]

CONTRACT = """
    not_found not_running ambiguous name_moved self_target refused hold_full queue_full rate_limited duplicate
    hop_limit exchange_limit too_large not_text empty unsupported_mode key_reused expired already_decided not_permitted
    no_broker timeout bad_config bad_token bad_name name_taken feature_off internal
"""


def test_the_codes_are_those_of_the_contract_and_two_of_the_wire() -> None:
    assert CODES[:28] == CONTRACT.split()
    assert CODES[28:] == ["version_mismatch", "usage"]
    assert len(set(CODES)) == len(CODES)


def test_every_code_has_an_exit_code_of_the_contract() -> None:
    assert set(EXIT_CODES) == set(CODES)
    assert set(EXIT_CODES.values()) <= {1, 2, 3, 4, 5, 7, 8, 9, 10, 11}


def test_no_code_is_used_that_is_not_in_the_list() -> None:
    """In all of both packages: the first argument of a Refusal, or of what is made of one."""
    used = set()
    for path in [*ROOT.glob("xsessiond/**/*.py"), *ROOT.glob("xsessionctl/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                first = node.args[0]
                if node.func.id in ("Refusal", "ClientError", "BadBody") and isinstance(first, ast.Constant):
                    used.add(first.value)
    assert "not_found" in used
    assert used <= set(CODES)


def test_a_refusal_is_the_error_object_of_the_contract() -> None:
    refusal = Refusal("not_found", "Nobody is there.", "Look again.", candidates=[{"name": "web"}], retry_after_s=1.5)
    assert refusal.to_json() == {
        "code": "not_found",
        "text": "Nobody is there.",
        "hint": "Look again.",
        "candidates": [{"name": "web"}],
        "retry_after_s": 1.5,
        "detail": None,
    }
    bare = Refusal("internal", "It broke.", detail={"n": 1}).to_json()
    assert (bare["hint"], bare["candidates"], bare["retry_after_s"], bare["detail"]) == (None, [], None, {"n": 1})
    assert refusal.args == ("not_found", "Nobody is there.")


def test_what_the_store_refused_is_told_with_its_reason() -> None:
    refusal = not_stored("The disk is full.")
    assert (refusal.code, refusal.hint) == ("internal", "See xsessionctl status.")
    assert refusal.text == "The store did not take it: The disk is full. Nothing was stored."


def test_types_are_named_without_an_import() -> None:
    """Every client reads this module, also those that start in a hook."""
    assert errors.TYPE_CHECKING is False


def test_what_somebody_wrote_does_no_more_than_be_looked_at() -> None:
    refusal = Refusal("not_found", "There is no \u202e\x1b[1m.", "Try \x07.")
    assert (refusal.text, refusal.hint) == ("There is no \\u202e\\x1b[1m.", "Try \\x07.")
    assert Refusal("not_found", "No.").hint is None

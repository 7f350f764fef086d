"""docs/harnesses.md says what the program does with each harness."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import fields

import pytest

from tests.support.generate_harness_reference import DOCUMENT as TABLES
from tests.support.generate_harness_reference import DOORS, make_lines
from tests.support.harness.install import PACKAGES
from tests.support.harness.shown import E2E, OLDER, SHOWN
from xsessionctl.harness.base import Doors
from xsessionctl.harness.entries import is_our_server
from xsessionctl.harness.known import HARNESSES
from xsessiond.core.setting_keys import resume_command

ROOT = TABLES.path.parents[1]
DOCUMENT = TABLES.read()


def test_the_table_is_the_one_that_the_program_has() -> None:
    assert TABLES.put(make_lines()) == DOCUMENT, "run: python -m tests.support.generate_harness_reference"


def test_every_door_that_is_claimed_is_shown_by_a_test_of_the_real_program() -> None:
    doors = {(name, door.name) for name in HARNESSES for door in fields(Doors)}
    assert SHOWN.keys() == doors | {(name, "subagents") for name, one in HARNESSES.items() if one.subagents}
    assert DOORS.keys() == {door.name for door in fields(Doors)}
    for path, test in {one for tests in SHOWN.values() for one in tests}:
        tree = ast.parse((ROOT / E2E / path).read_text(encoding="utf-8"))
        assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, path
        marks = [ast.unparse(node.value) for node in tree.body if isinstance(node, ast.Assign)]
        assert any("pytest.mark.harness" in mark for mark in marks), f"{path} drives no real program"
    assert all(SHOWN.values())


def test_what_was_seen_of_an_older_version_is_told_as_that() -> None:
    """Its tests are those of the class that opens it."""
    for path in {path for path, _ in OLDER}:
        tree = ast.parse((ROOT / E2E / path).read_text(encoding="utf-8"))
        [older] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "TestOlder"]
        assert '-older"' in ast.unparse(older).replace("'", '"')
        theirs = {(path, node.name) for node in ast.walk(older) if isinstance(node, ast.FunctionDef)}
        shown = {one for tests in SHOWN.values() for one in tests}
        assert shown & theirs == OLDER


@pytest.mark.parametrize("name", HARNESSES)
def test_the_versions_that_are_claimed_are_those_that_are_tested(name: str) -> None:
    """W21"""
    harness = HARNESSES[name]
    ran = [tuple(map(int, one.version.split("."))) for one in PACKAGES.values() if one.command == harness.program]
    assert (min(ran), max(ran)) == harness.tested


def test_every_harness_has_a_section() -> None:
    sections = re.findall(r"^## (.*)$", DOCUMENT, re.MULTILINE)
    assert [one.title for one in HARNESSES.values() if one.title not in sections] == []


@pytest.mark.parametrize("text", re.findall(r"```json\n(.*?)```", DOCUMENT, re.DOTALL))
def test_what_is_to_be_copied_is_whole(text: str) -> None:
    value = json.loads(text)
    [servers] = value.values()
    assert is_our_server(servers["xsession"])


@pytest.mark.parametrize("name", HARNESSES)
def test_the_command_that_goes_on_with_a_conversation_can_be_set(name: str) -> None:
    assert resume_command(list(HARNESSES[name].resume)) == HARNESSES[name].resume

"""docs/harnesses.md says what the program does with each harness."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.generate_harness_reference import TARGET, make_table, put_table
from xsessionctl.harness.entries import is_our_server
from xsessionctl.harness.known import HARNESSES
from xsessiond.core.setting_keys import resume_command

DOCUMENT = TARGET.read_text(encoding="utf-8")


def test_the_table_is_the_one_that_the_program_has() -> None:
    assert make_table() in DOCUMENT
    assert put_table(DOCUMENT) == DOCUMENT, "run: python -m tests.support.generate_harness_reference"


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

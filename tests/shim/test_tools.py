"""What a model sees of the tools, and what it is told when its arguments are wrong."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from xsessionctl.shim.protocol import REVISIONS
from xsessionctl.shim.tools import INSTRUCTIONS, check_arguments, list_tools
from xsessiond.core.errors import CODES, Refusal
from xsessiond.core.limits import MAX_BODY

LATEST = {str(tool["name"]): tool for tool in list_tools("2026-07-28")}


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_schema_is_a_schema(revision: str) -> None:
    for tool in list_tools(revision):
        for key in ("inputSchema", "outputSchema"):
            schema = tool.get(key, {"type": "object"})
            assert isinstance(schema, dict)
            Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"


@pytest.mark.parametrize("name", LATEST)
def test_an_error_fits_the_output_schema_of_every_tool(name: str) -> None:
    """The official TypeScript client checks results that are errors too."""
    schema = LATEST[name]["outputSchema"]
    assert isinstance(schema, dict)
    Draft202012Validator(schema).validate({"error": {"code": "not_found", "text": "No."}})


def test_the_texts_teach_the_manners_in_few_words() -> None:
    """F5, and behaviour 8.4: send once, do not poll, do not acknowledge; all of it in less than a page of context."""
    told = INSTRUCTIONS + json.dumps(list_tools("2024-11-05"))
    for words in ("Send once", "never poll", "never send the same thing again", "do not acknowledge", "no consent"):
        assert words in INSTRUCTIONS
    assert len(told) < 5000


def test_the_argument_list_is_that_of_the_contract() -> None:
    schema = LATEST["send_message"]["inputSchema"]
    assert isinstance(schema, dict)
    assert list(schema["properties"]) == (
        "to message summary reply_to mode wait_reply notify_when_idle when_offline key".split()
    )


@pytest.mark.parametrize(
    "tool, arguments, params",
    [
        ("list_agents", {}, {}),
        ("list_agents", {"all": True, "unheard_of": 1}, {"all": True}),
        ("list_agents", {"all": None}, {}),
        (
            "send_message",
            {"to": "web", "message": "x", "mode": "steer"},
            {"to": "web", "message": "x", "mode": "steer"},
        ),
        ("send_message", {"reply_to": "m-1", "message": "x"}, {"reply_to": "m-1", "message": "x"}),
        (
            "send_message",
            {"to": "a", "message": "x", "wait_reply": 999},
            {"to": "a", "message": "x", "wait_reply": 120},
        ),
        ("send_message", {"to": "a", "message": "", "summary": ""}, {"to": "a", "message": "", "summary": ""}),
        ("send_message", {"to": "a", "notify_when_idle": True}, {"to": "a", "notify_when_idle": True}),
        ("read_messages", {"max": 3.0}, {"max": 3}),
        ("read_messages", {"max": 1000}, {"max": 50}),
        ("check_delivery", {}, {}),
        ("rename_session", {"name": "api"}, {"name": "api"}),
    ],
)
def test_good_arguments_become_params(tool: str, arguments: dict[str, object], params: dict[str, object]) -> None:
    assert check_arguments(tool, arguments) == params


@pytest.mark.parametrize(
    "tool, arguments, code, words",
    [
        ("list_agents", {"all": "yes"}, "usage", "`all` must be true or false, not a string."),
        ("list_agents", {"all": 1}, "usage", "`all` must be true or false, not a number."),
        ("send_message", {"to": "web"}, "usage", "send_message needs `message`, and it is missing."),
        (
            "send_message",
            {"to": "web", "notify_when_idle": False},
            "usage",
            "send_message needs `message`, and it is missing.",
        ),
        ("send_message", {"notify_when_idle": True}, "usage", "send_message needs `to`, and it is missing."),
        ("send_message", {"message": "x"}, "usage", "send_message needs `to`, and it is missing."),
        ("send_message", {"to": 7, "message": "x"}, "usage", "`to` must be a string, not a number."),
        ("send_message", {"to": "a", "message": {"a": 1}}, "not_text", "`message` must be a string, not an object."),
        ("send_message", {"to": "a", "message": ["a"]}, "not_text", "`message` must be a string, not a list."),
        ("send_message", {"to": "a", "message": True}, "not_text", "`message` must be a string, not a boolean."),
        ("send_message", {"to": "a", "message": "\ud800"}, "not_text", "half a surrogate pair"),
        (
            "send_message",
            {"to": "a", "message": "x" * (MAX_BODY + 1)},
            "too_large",
            f"{MAX_BODY + 1} bytes; the most is {MAX_BODY}",
        ),
        (
            "send_message",
            {"to": "a", "message": "x", "mode": "shout"},
            "unsupported_mode",
            "one of auto, followup, inject, steer",
        ),
        ("send_message", {"to": "a", "message": "x", "when_offline": "x"}, "usage", "one of refuse, queue, resume"),
        ("send_message", {"to": "a", "message": "x", "wait_reply": "1"}, "usage", "a number of seconds, not a string"),
        (
            "send_message",
            {"to": "a", "message": "x", "wait_reply": True},
            "usage",
            "a number of seconds, not a boolean",
        ),
        ("send_message", {"to": "a", "message": "x", "wait_reply": -1}, "usage", "at least 0"),
        ("send_message", {"to": "a", "message": "x", "wait_reply": float("nan")}, "usage", "at least 0"),
        ("read_messages", {"max": 0}, "usage", "at least 1"),
        ("read_messages", {"max": 1.5}, "usage", "a whole number"),
        ("read_messages", {"max": float("inf")}, "usage", "a whole number"),
        ("rename_session", {}, "usage", "rename_session needs `name`, and it is missing."),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(
    tool: str, arguments: dict[str, object], code: str, words: str
) -> None:
    with pytest.raises(Refusal) as caught:
        check_arguments(tool, arguments)
    assert caught.value.code == code
    assert caught.value.code in CODES
    assert words in caught.value.text
    assert caught.value.text.endswith(".")

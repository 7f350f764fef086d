"""The list of settings: each holds to its type, and every default is a value that it may have."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsessiond.core import limits
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.setting_keys import (
    AT_ONCE,
    GUARDED,
    KEYS,
    NOT_YET,
    SECTIONS,
    BadValue,
    Key,
    command,
    count,
    duration,
    duration_or_never,
    find_key,
    number,
    one_of,
    resume_command,
    yes_or_no,
)

NAMES = [key.name for key in KEYS]
ANYTHING = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.lists(st.text(max_size=9))
    | st.just({})
)


def test_the_settings_are_those_of_the_contract() -> None:
    assert NAMES == [
        "inbound.policy",
        "inbound.hold_expiry",
        "inbound.scope",
        "outbound.policy",
        "harness.NAME.assume_class",
        "harness.NAME.resume",
        "approvals.without_terminal",
        "approvals.passphrase",
        "approvals.elicitation",
        "approvals.notify",
        "pacing.target_burst",
        "pacing.target_per_second",
        "pacing.sender_burst",
        "pacing.sender_per_second",
        "pacing.duplicate_window",
        "pacing.queue_per_session",
        "pacing.held_per_session",
        "pacing.max_hops",
        "pacing.exchange_per_minute",
        "offline.default",
        "offline.keep",
        "store.durability",
        "sessions.off",
    ]


@pytest.mark.parametrize("key", KEYS, ids=NAMES)
def test_every_default_may_be_written(key: Key) -> None:
    if key.default is not None:
        key.check(key.default)
    assert key.meaning.endswith(".")
    assert key.may_be


def test_defaults_are_those_of_the_limits() -> None:
    defaults = {key.path[-1]: key.check(key.default) for key in SECTIONS["pacing"]}
    pace = PaceSettings()
    assert {name: getattr(pace, name) for name in PaceSettings.__struct_fields__} == {
        name: defaults[name] for name in PaceSettings.__struct_fields__
    }
    assert defaults["held_per_session"] == limits.HELD_PER_SESSION
    for path, value in {("inbound", "hold_expiry"): limits.HOLD_EXPIRY_MS, ("offline", "keep"): limits.KEEP_MS}.items():
        key = find_key(path)
        assert key is not None
        assert key.check(key.default) == value


@given(ANYTHING, st.sampled_from(KEYS))
def test_a_check_takes_a_value_or_says_what_it_must_be(value: object, key: Key) -> None:
    """C4: nothing is turned into something else."""
    try:
        meant = key.check(value)
    except BadValue as wrong:
        said = str(wrong)
    else:
        said = "must be nothing else"
        assert not key.words or meant == value in key.words
    assert said.startswith(("must b", "must have {harness_session_id}"))


@pytest.mark.parametrize("value", ["", "Accept", "accept ", True, 0, None, ["accept"], {}, "auto"])
def test_no_word_is_coerced(value: object) -> None:
    """C4."""
    with pytest.raises(BadValue, match='must be "accept", "hold" or "refuse"'):
        one_of("accept", "hold", "refuse")(value)


@pytest.mark.parametrize(
    "value, ms",
    [("60s", 60_000), ("5m", 300_000), ("10m", 600_000), ("1h", 3_600_000), ("7d", 604_800_000), (0.2, 200), (3, 3000)],
)
def test_durations(value: object, ms: int) -> None:
    assert duration(value) == ms
    assert duration_or_never(value) == ms


@pytest.mark.parametrize(
    "value", ["", "s", "5", "5 m", "-5m", "0s", "٣m", "5w", "9999d", True, 0, -1, math.inf, math.nan, [], None]
)
def test_what_is_no_duration(value: object) -> None:
    with pytest.raises(BadValue, match="must be a time"):
        duration(value)
    with pytest.raises(BadValue, match='or "never"'):
        duration_or_never(value)


def test_never() -> None:
    assert duration_or_never("never") is None


@pytest.mark.parametrize("value", [True, "1", -1, math.nan, math.inf, 1e7, None])
def test_what_is_no_number(value: object) -> None:
    with pytest.raises(BadValue):
        number(value)
    with pytest.raises(BadValue):
        count(value)


def test_numbers() -> None:
    assert number(0) == 0.0
    assert number(0.5) == 0.5
    assert count(1) == 1
    for value in (0, 1.0):
        with pytest.raises(BadValue):
            count(value)


@pytest.mark.parametrize("value", ["true", 1, 0, None, []])
def test_yes_or_no_is_a_bool(value: object) -> None:
    assert yes_or_no(True) is True
    with pytest.raises(BadValue):
        yes_or_no(value)


@pytest.mark.parametrize("value", ["notify-send", [], [1], ["a\0"], ["x"] * 65, ["x" * 4097], [""], None])
def test_what_is_no_command(value: object) -> None:
    assert command(["notify-send", ""]) == ("notify-send", "")
    with pytest.raises(BadValue):
        command(value)


@pytest.mark.parametrize(
    "value, said",
    [
        ("gemini --resume {harness_session_id}", "must be a command as a list of texts, such as"),
        ([], "must be a command as a list of texts, such as"),
        (["gemini", "--resume"], "must have {harness_session_id} in one of its arguments"),
        (["gemini", "--cd={cwd}"], "must have {harness_session_id} in one of its arguments"),
        (["{harness_session_id}"], "must begin with a program of yours"),
        (["{cwd}/run", "{harness_session_id}"], "must begin with a program of yours"),
    ],
)
def test_a_command_that_resumes_names_a_program_and_the_conversation(value: object, said: str) -> None:
    """11.1: an argument vector, never a string for a shell; what a session says chooses no program."""
    good = ["tmux", "new", "-d", "-c", "{cwd}", "gemini --resume={harness_session_id}", "{other}"]
    assert resume_command(good) == tuple(good)
    with pytest.raises(BadValue, match=re.escape(said)):
        resume_command(value)


def test_keys_are_found_by_their_path() -> None:
    found = find_key(("harness", "anything.at all", "assume_class"))
    assert found is not None
    assert found.guard
    for path in (
        (),
        ("harness",),
        ("harness", "x"),
        ("harness", "x", "y"),
        ("inbound",),
        ("inbound", "policy", "x"),
        ("no", "x"),
    ):
        assert find_key(path) is None


def test_what_decides_is_guarded() -> None:
    """14.2: in these tables everything is a guard."""
    assert {key.path[0] for key in KEYS if key.guard} == {*GUARDED, "harness"}
    assert all(key.guard for name in GUARDED for key in SECTIONS[name])
    assert [key.name for key in KEYS if key.guard and key.applies != AT_ONCE] == ["approvals.elicitation"]
    assert {key.name for key in KEYS if key.applies == NOT_YET} == {"approvals.elicitation"}

"""One settings file: what it says, what is wrong with it and where, and that nothing that is wrong loosens anything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from xsessiond.core.setting_keys import KEYS
from xsessiond.core.settings_text import (
    DECISIONS,
    MAX_LINE,
    MAX_TEXT,
    MOST_PROBLEMS,
    NOT_USED,
    FileSettings,
    Problem,
    broken_settings,
    read_settings,
)
from xsessiond.core.toml_spots import Spot

GOOD = """\
# mine
[inbound]
policy = "hold"
hold_expiry = "never"
scope = "project"
[outbound]
policy = "refuse"
[harness.gemini]
assume_class = "prompting"
[approvals]
without_terminal = true
notify = ["notify-send", "{title}"]
[pacing]
target_burst = 3
[offline]
keep = "1d"
[store]
durability = "normal"
[sessions]
off = true
"""


def read(text: str, *, project: bool = False) -> FileSettings:
    return read_settings(text, "f", project=project)


def only_problem(text: str, *, project: bool = False) -> Problem:
    (problem,) = read(text, project=project).problems
    return problem


def raw_values(file: FileSettings) -> dict[str, object]:
    return {".".join(path): written.raw for path, written in file.values.items()}


def test_a_good_file_means_what_it_says() -> None:
    file = read(GOOD)
    assert file.ok
    assert not file.broken
    assert file.problems == ()
    assert file.unclear == {}
    assert raw_values(file) == {
        "inbound.policy": "hold",
        "inbound.hold_expiry": "never",
        "inbound.scope": "project",
        "outbound.policy": "refuse",
        "harness.gemini.assume_class": "prompting",
        "approvals.without_terminal": True,
        "approvals.notify": ["notify-send", "{title}"],
        "pacing.target_burst": 3,
        "offline.keep": "1d",
        "store.durability": "normal",
        "sessions.off": True,
    }
    assert file.values["inbound", "hold_expiry"].meant is None
    assert file.values["harness", "gemini", "assume_class"].spot == (9, 1)


def test_an_empty_file_says_nothing() -> None:
    assert read("") == FileSettings("f")


@pytest.mark.parametrize(
    "text",
    [
        "inbound.policy = 'hold'",
        "inbound = {policy = 'hold'}",
        "[inbound]\n'policy' = '''hold'''",
        '["inbound"]\n"policy" = "hold"',
    ],
)
def test_all_ways_to_write_it_are_one(text: str) -> None:
    assert raw_values(read(text)) == {"inbound.policy": "hold"}


# -- what is wrong, where, and what was meant --------------------------------------------------------------------------

IN, APPROVALS, ALL = {"inbound", "scope"}, {"inbound", "scope", "approvals"}, set(DECISIONS)
POLICY = 'inbound.policy must be "accept", "hold" or "refuse"'
CLASS = 'harness.gemini.assume_class must be "bypass" or "prompting"'
OUT = "it is left out."
RESUME = "harness.x.resume must have {harness_session_id} in one of its arguments, to say which conversation; "
FULL = 'store.durability must be "full" or "normal"; did you mean "full"? It is left out.'
TIGHTEN = "does nothing in a project's file, which can only tighten."
HELD = "What comes for your sessions is held until this is mended."
ERRORS: list[tuple[str, int, int, str, set[str]]] = [
    ("[inbound]\npolicy = 'hodl'", 2, 1, POLICY + '; did you mean "hold"?', IN),
    ("[inbound]\npolicy = 'auto'", 2, 1, POLICY + ".", IN),
    ("[inbound]\n  polcy = 'hold'", 2, 3, 'inbound.polcy is unknown; did you mean "policy"?', IN),
    ("[inbound]\nx = 1", 2, 1, "inbound.x is unknown.", IN),
    ("[inbound]\nscope = 'repo'", 2, 1, 'inbound.scope must be "machine" or "project".', IN),
    ("inbound.hold_expiry = '1y'", 1, 9, 'inbound.hold_expiry must be a time such as', IN),
    ("inbound = 'hold'", 1, 1, "inbound must be a table: write [inbound] and below it policy = …", IN),
    ("[[inbound]]\npolicy = 'hold'", 1, 3, "inbound must be a table", IN),
    ("[inbound.policy]\nx = 'hold'", 1, 10, "inbound.policy must be", IN),
    ("x = 1\n[approvals]\npassphrase = 'yes'", 3, 1, "approvals.passphrase must be true or false.", APPROVALS),
    ("[approvals]\nwithout_tty = true", 2, 1, "approvals.without_tty is unknown", APPROVALS),
    ("[sessions]\noff = 'true'", 2, 1, "sessions.off must be true or false.", IN),
    ("[harness.gemini]\nassume_clas = 'bypass'", 2, 1, 'harness.gemini.assume_clas is unknown; did you', IN),
    ("[harness.gemini]\nassume_class = 'bypas'", 2, 1, CLASS + '; did you mean "bypass"?', IN),
    ("[harness]\nassume_class = 'bypass'", 2, 1, "[harness] has a table for each harness", IN),
    ("harness = 1", 1, 1, "harness must be a table", IN),
    ("[inbond]\npolicy = 'hold'", 1, 2, 'inbond is unknown; did you mean "inbound"?', ALL),
    ("[auth]\nx = 1", 1, 2, 'auth is unknown; did you mean "approvals"?', ALL),
    ("policy = 'hold'", 1, 1, 'policy is unknown; did you mean "policy" in [inbound] or "policy" in', ALL),
    ("[pacing]\npolicy = 'hold'", 2, 1, 'pacing.policy is unknown; did you mean "policy" in [inbound]', ALL),
    ("[store]\nhold-expiry = '1h'", 2, 1, 'store.hold-expiry is unknown; did you mean "hold_expiry" in [', ALL),
    ("assume_class = 'bypass'", 1, 1, 'assume_class is unknown; did you mean "assume_class" in [', ALL),
    ("[harness.gemini.assume_class]\nx = 'bypass'", 1, 17, "harness.gemini.assume_class must be", IN),
    ("[harness]\nresume.x.y = 1\nassume_class.x.y = 'bypass'", 3, 14, 'harness.assume_class.x is unknown', IN),
    ("harness.x.y.assume_class = 'bypass'", 1, 11, "harness.x.y is unknown", IN),
    ("[harness.assume_class]\ngemini = 'bypass'", 2, 1, "harness.assume_class.gemini is unknown", IN),
    ("[tool.xsessiond.inbound]\npolicy = 'hold'", 1, 2, "tool is unknown", ALL),
    ("x = [[1, {y.policy = 'hold'}]]", 1, 1, "x is unknown", ALL),
    ("[inbound.policy2.x]\ny = 1", 1, 10, 'inbound.policy2 is unknown; did you mean "policy"?', IN),
]  # fmt: skip


@pytest.mark.parametrize("text, line, column, said, unclear", ERRORS, ids=[row[0] for row in ERRORS])
def test_where_a_guard_stands_or_was_meant_it_is_an_error_that_holds(
    text: str, line: int, column: int, said: str, unclear: set[str]
) -> None:
    """C3, C4, 14.2: also mis-nested and misspelled ones."""
    file = read(text)
    problem = next(one for one in file.problems if one.level == "error")
    assert (problem.line, problem.column) == (line, column)
    assert problem.text.startswith(said)
    assert problem.text.endswith(HELD)
    assert str(problem) == f"f:{line}:{column}: error: {problem.text}"
    assert file.unclear == dict.fromkeys(unclear, Spot(line, column))
    assert not file.ok
    assert not file.broken


def test_what_is_wrong_with_outbound_holds_that() -> None:
    file = read("[outbound]\npolicy = 'held'")
    assert file.unclear == {"outbound": Spot(2, 1)}
    assert file.problems[0].text.endswith("What your sessions send is held until this is mended.")


@pytest.mark.parametrize(
    "text, line, column, said",
    [
        ("[pacing]\nmax_hop = 3", 2, 1, 'pacing.max_hop is unknown; did you mean "max_hops"? It is left out.'),
        ("[pacing]\nfoo = 3", 2, 1, "pacing.foo is unknown; it is left out."),
        ("[pacing]\ntarget_burst = -1", 2, 1, "pacing.target_burst must be a number from 0 to 1000000; " + OUT),
        ("pacing = 1", 1, 1, "pacing must be a table: write [pacing] and below it target_burst = …; it is left out."),
        ("[pacin]\nx = 1", 1, 2, 'pacin is unknown; did you mean "pacing"? It is left out.'),
        ("x = 1", 1, 1, "x is unknown; it is left out."),
        ("[remote]\nx = 1", 1, 2, "[remote] has no effect in this version."),
        ("[remot]\nx = 1", 1, 2, 'remot is unknown; did you mean "remote"? It is left out.'),
        ("[pacing]\nmax_hops = 0", 2, 1, "pacing.max_hops must be a whole number from 1 to 1000000; " + OUT),
        ("[approvals]\nelicitation = true", 2, 1, "approvals.elicitation has no effect in this version."),
        ("[harness.x]\nresume = ['x']", 2, 1, RESUME + OUT),
        ("[harness.cluade]\n", 1, 10, 'No harness is known as "cluade"; did you mean "claude"?'),
        ("[store]\ndurability = 'Full'", 2, 1, FULL),
        ("[harness.x]\nresum = ['x']", 2, 1, 'harness.x.resum is unknown; did you mean "resume"? It is left out.'),
        ("[x]\nharness = 3\n", 1, 2, "x is unknown; it is left out."),
    ],
)  # fmt: skip
def test_elsewhere_it_is_a_warning(text: str, line: int, column: int, said: str) -> None:
    """C3, 14.2."""
    problem = only_problem(text)
    assert problem == Problem("warning", "f", line, column, said)
    assert read(text).ok
    assert read(text).unclear == {}


def test_a_harness_of_another_name_is_nobody_elses_business() -> None:
    assert read("[harness.my-own]\nassume_class = 'bypass'").problems == ()


def test_long_names_are_cut() -> None:
    assert f"{'x' * 63}… is unknown" in only_problem("x" * 500 + " = 1").text


# -- texts that cannot be used -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, line, column, said",
    [
        ("[inbound]\npolicy = \n", 2, 10, "The file cannot be parsed: Invalid value."),
        ("[inbound", 1, 9, "The file cannot be parsed: Expected ']'"),
        ("x = 1" + "0" * 1999, 1, MAX_LINE + 1, f"The file has more than {MAX_LINE} characters in this line."),
        ("# x\n" * (MAX_TEXT // 4 + 1), 1, 1, f"The file has more than {MAX_TEXT} characters, and was not read."),
        (("x = " + "[" * 900 + "\n" + "[" * 900), 1, 1, "The file cannot be parsed: it is nested too deeply."),
    ],
)  # fmt: skip
def test_a_text_that_cannot_be_parsed_leaves_everything_unclear(text: str, line: int, column: int, said: str) -> None:
    """C1."""
    file = read(text)
    (problem,) = file.problems
    assert (problem.level, problem.line, problem.column) == ("error", line, column)
    assert problem.text.startswith(said)
    assert problem.text.endswith(NOT_USED)
    assert file.broken
    assert set(file.unclear) == set(DECISIONS)
    assert file.values == {}


def test_a_number_of_thousands_of_digits_is_no_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> dict[str, Any]:
        raise ValueError("Exceeds the limit (4300 digits) for integer string conversion")

    monkeypatch.setattr("tomllib.loads", refuse)
    assert read("x = 1").problems[0].text.startswith("The file cannot be parsed: Exceeds the limit")


def test_a_broken_file_may_be_told_by_others_too() -> None:
    file = broken_settings("f", "is not UTF-8.", Spot(3, 4))
    assert str(file.problems[0]) == f"f:3:4: error: The file is not UTF-8. {NOT_USED}"


def test_too_many_problems_hold_what_was_not_looked_at() -> None:
    text = "".join(f"x{number} = 1\n" for number in range(1000)) + "[inbound]\npolicy = 'refuse'\n"
    file = read(text)
    assert len(file.problems) == MOST_PROBLEMS + 1
    assert not file.ok
    assert set(file.unclear) == set(DECISIONS)


# -- projects ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, said",
    [
        ("[inbound]\npolicy = 'accept'", 'inbound.policy = "accept" ' + TIGHTEN),
        ("[inbound]\nscope = 'machine'", 'inbound.scope = "machine" ' + TIGHTEN),
        ("[sessions]\noff = false", "sessions.off = false does nothing in a project's file, which can only tighten."),
        ("[approvals]\nwithout_terminal = true", "approvals.without_terminal does nothing in a project's file."),
        ("[inbound]\nhold_expiry = 'never'", "inbound.hold_expiry does nothing in a project's file."),
        ("[harness.x]\nassume_class = 'bypass'", "harness.x.assume_class does nothing in a project's file."),
        ("[pacing]\nmax_hops = 3", "pacing.max_hops does nothing in a project's file."),
    ],
)  # fmt: skip
def test_a_projects_file_that_loosens_does_nothing_and_is_told(text: str, said: str) -> None:
    """H10, 14.1."""
    problem = only_problem(text, project=True)
    assert problem == Problem("warning", "f", 2, 1, said)
    assert read(text, project=True).values == {}


def test_a_projects_file_tightens() -> None:
    text = "[inbound]\npolicy = 'hold'\nscope = 'project'\n[outbound]\npolicy = 'refuse'\n[sessions]\noff = true\n"
    file = read(text, project=True)
    assert file.problems == ()
    assert len(file.values) == 4


def test_garbage_in_a_projects_file_holds() -> None:
    """H10."""
    assert "inbound" in read("\x01", project=True).unclear
    assert "inbound" in read("[inbound]\npolicy = 3", project=True).unclear


# -- anything ----------------------------------------------------------------------------------------------------------

NEARLY = st.sampled_from(
    [
        *"[]{}=.,\"'#\n\t 1x",
        *(part for key in KEYS for part in key.path if part != "*"),
        '"hold"',
        '"accept"',
        '"refuse"',
        "true",
    ]
)
GARBAGE = st.text(max_size=80) | st.lists(NEARLY, max_size=30).map("".join)


@given(GARBAGE, st.booleans())
@example("[inbound]\npolicy=", False)
def test_anything_is_read_without_raising(text: str, project: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    file = read(text, project=project)
    lines = text.split("\n")
    for problem in file.problems:
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= max(len(line.replace("\r\n", "\n")) for line in lines) + 2
    assert file.broken <= (set(file.unclear) == set(DECISIONS))
    assert file.ok == (not file.unclear)
    for path, written in file.values.items():
        assert not project or written.raw not in ("accept", "machine", False), path


@given(GARBAGE)
def test_garbage_below_a_setting_leaves_it_or_is_told(garbage: str) -> None:
    """C1, C3: whatever is written below `policy = "hold"` and `refuse`, what is read is no looser, or unclear."""
    file = read(f'inbound.policy = "hold"\noutbound.policy = "refuse"\n{garbage}')
    for path in (("inbound", "policy"), ("outbound", "policy")):
        written = file.values.get(path)
        assert path[0] in file.unclear or (written is not None and written.meant in ("hold", "refuse"))


@given(st.sampled_from(GOOD.splitlines()), st.data())
def test_one_letter_wrong_in_a_guard_is_never_lost(line: str, data: st.DataObject) -> None:
    """C3, C4: a good file with one character changed, removed or put in says the same of every guard, or is unclear."""
    at = data.draw(st.integers(0, len(line)))
    other = data.draw(st.sampled_from(["", "x", "-", '"', " "]))
    keep = data.draw(st.sampled_from([0, 1]))
    text = GOOD.replace(line, line[:at] + other + line[at + keep :], 1)
    before, after = read(GOOD), read(text)
    for path, written in before.values.items():
        decision = "outbound" if path[0] == "outbound" else "inbound"
        if path[0] in ("inbound", "outbound", "sessions", "harness", "approvals") and path[-1] != "notify":
            now = {
                where[:1] + where[2:] if where[0] == "harness" else where: one for where, one in after.values.items()
            }
            same = now.get(path[:1] + path[2:] if path[0] == "harness" else path)
            assert decision in after.unclear or (same is not None and same.meant == written.meant), text

"""The user's command that resumes a conversation, and what is filled into it."""

from __future__ import annotations

import pytest

from tests.support.core_house import House
from xsessiond.core.resume_command import can_resume, fill, find_obstacle
from xsessiond.core.roster import Session

COMMANDS = {"codex": ("codex", "resume", "{harness_session_id}")}


def session(talk: str | None = "talk-1", harness: str = "codex", cwd: str = "/src/app") -> Session:
    return House().join("web", harness=harness, harness_session_id=talk, cwd=cwd).session


@pytest.mark.parametrize(
    "talk, able",
    [
        ("0199d1f4-7c3e-7f60-8f2b-000000000001", True),
        ("ses_5f2aB9", True),
        ("a", True),
        ("project:12.3", True),
        (None, False),
        ("--dangerously-skip-permissions", False),
        ("-c", False),
        (".", False),
        ("../../etc/passwd", False),
        ("a b", False),
        ("a\nb", False),
        ("a\n", False),
        ("$(reboot)", False),
        ("{cwd}", False),
        ("日本", False),
    ],
)
def test_only_a_harmless_id_is_given_to_a_command(talk: str | None, able: bool) -> None:  # noqa: FBT001
    """11.1: it is the session that says what its conversation is called, and no option may come of that."""
    assert can_resume(session(talk), COMMANDS) is able


@pytest.mark.parametrize(
    "cwd, able", [("/", True), ("/src/a b;c", True), ("src", False), ("", False), ("/a\0b", False)]
)
def test_a_folder_is_absolute(cwd: str, able: bool) -> None:  # noqa: FBT001
    assert can_resume(session(cwd=cwd), COMMANDS) is able


WITH_FOLDER = {"codex": ("codex", "--cd={cwd}", "resume", "{harness_session_id}")}


@pytest.mark.parametrize(
    "cwd, able",
    [
        ("/src/app", True),
        ("/src/Library/Application Support/C#, v1.2_3-x@y+z=1~2%", True),
        ("/src/日本/проект", True),
        ("/x/#(touch pwned)", False),
        ("/x/#{pane_id}", False),
        ("/x/`id`", False),
        ("/x/$(id)", False),
        ("/x/$HOME", False),
        ("/x; id", False),
        ("/x && id", False),
        ("/x|id", False),
        ("/x>y", False),
        ("/x\nid", False),
        ("/x\x1b[2J", False),
        ("/x\x9b2J", False),
        ("/x'y", False),
        ('/x"y', False),
        ("/x\\y", False),
        ("/x[1]", False),
    ],
)
def test_a_folder_that_a_program_could_act_on_is_given_to_none(cwd: str, able: bool) -> None:  # noqa: FBT001
    """11.1: an argument is one, but some programs make more of it: tmux runs what stands in `#(…)`. A command that does
    not name the folder is started in it all the same."""
    assert can_resume(session(cwd=cwd), WITH_FOLDER) is able
    assert can_resume(session(cwd=cwd), COMMANDS)


@pytest.mark.parametrize(
    "who, commands, why",
    [
        (session(harness="gemini"), COMMANDS, "no command is set for its harness (gemini)"),
        (session("a b"), COMMANDS, "no conversation's id that a command could be given"),
        (session(cwd="src"), COMMANDS, "not known by an absolute path"),
        (session(cwd="/x/#(id)"), WITH_FOLDER, "harness.codex.resume has {cwd} in it"),
        (session(), WITH_FOLDER, None),
    ],
)
def test_the_reason_is_told(who: Session, commands: dict[str, tuple[str, ...]], why: str | None) -> None:
    found = find_obstacle(who, commands)
    assert found is None if why is None else why in str(found)


def test_a_harness_has_a_command_or_not() -> None:
    assert not can_resume(session(harness="gemini"), COMMANDS)
    assert not can_resume(session(), {})


def test_places_are_filled_in_arguments_alone_and_once() -> None:
    """Each stays one argument, whatever is in it."""
    command = ("run", "{harness_session_id}", "--cd={cwd}", "{other}", "{cwd}{harness_session_id}", "{{cwd}}")
    filled = fill(command, session(cwd="/src/{harness_session_id} x;y"))
    folder = "/src/{harness_session_id} x;y"
    assert filled == ("run", "talk-1", f"--cd={folder}", "{other}", f"{folder}talk-1", "{" + folder + "}")

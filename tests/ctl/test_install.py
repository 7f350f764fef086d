"""`xsessionctl install` and `uninstall` as they are typed, with programs that only say their version as harnesses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ctl.harness.wild import tree_of
from tests.support.human import as_human
from tests.support.private_broker import PrivateBroker

VERSIONS = {
    "claude": "2.1.332 (Claude Code)",
    "codex": "codex-cli 0.171.0",
    "opencode": "1.18.33",
    "gemini": "0.61.0",
}
COMMAND = Path(sys.executable).parent / "xsessionctl"


def put_program(place: PrivateBroker, name: str, says: str) -> None:
    """A program of this name that says its version, where a bare PATH has it not."""
    program = place.home / ".local" / "bin" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo '{says}'\n")
    program.chmod(0o700)


@pytest.fixture
def place(broker: PrivateBroker) -> PrivateBroker:
    """A home with all four harnesses."""
    for name, says in VERSIONS.items():
        put_program(broker, name, says)
    return broker


def rows(place: PrivateBroker, *words: str, code: int = 0) -> list[dict[str, object]]:
    """What the verb says of each harness, as JSON."""
    done = place.ctl(*words, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    document = json.loads(done.stdout)
    found = document["harnesses"]
    assert isinstance(found, list)
    return found


def states(place: PrivateBroker, *, code: int) -> dict[object, object]:
    return {row["name"]: row["state"] for row in rows(place, "install", "--status", code=code)}


def test_all_that_are_here_get_it_and_lose_it(place: PrivateBroker) -> None:
    before = tree_of(place.home)
    assert states(place, code=3) == dict.fromkeys(VERSIONS, "missing")
    done = rows(place, "install", "--yes")
    assert [(row["name"], row["tested"], len(row["changes"])) for row in done] == [  # type: ignore[arg-type]
        ("claude", True, 2),
        ("codex", True, 2),
        ("opencode", True, 1),
        ("gemini", True, 1),
    ]
    assert states(place, code=0) == dict.fromkeys(VERSIONS, "installed")
    again = rows(place, "install", "--yes")
    assert [row["changes"] for row in again] == [[]] * 4
    rows(place, "uninstall", "--yes")
    after = tree_of(place.home)
    assert after == before
    done_again = place.ctl("uninstall", "--yes")
    assert done_again.stdout == "There is nothing of ours in any of them.\n"


def test_several_at_once_do_not_disturb_each_other(place: PrivateBroker) -> None:
    """I3: each remembers what it wrote beside what the others remember; afterwards all is as it was, and nothing of
    ours is left, not even a list of nothing."""
    before = tree_of(place.home)
    for verb, wanted in (("install", "installed"), ("uninstall", "missing")):
        racers = [place.spawn(sys.executable, "-m", "xsessionctl", verb, name, "--yes") for name in VERSIONS]
        told = [racer.communicate(timeout=60) for racer in racers]
        assert [racer.returncode for racer in racers] == [0] * len(VERSIONS), told
        assert states(place, code=0 if wanted == "installed" else 3) == dict.fromkeys(VERSIONS, wanted)
    assert tree_of(place.home) == before
    assert not place.state_dir.exists()


@pytest.mark.slow
def test_what_is_done_and_undone_at_once_leaves_nothing_behind(place: PrivateBroker) -> None:
    """I3: of the same files, in whatever order they come to them."""
    before = tree_of(place.home)
    for verbs in (("install", "install"), ("install", "uninstall"), ("uninstall", "install")) * 3:
        racers = [place.spawn(sys.executable, "-m", "xsessionctl", verb, "--yes") for verb in verbs]
        told = [racer.communicate(timeout=60) for racer in racers]
        assert [racer.returncode for racer in racers] == [0, 0], told
    rows(place, "uninstall", "--yes")
    assert tree_of(place.home) == before
    assert not place.state_dir.exists()


def test_where_none_is_here_nothing_is_made_up(broker: PrivateBroker) -> None:
    done = broker.ctl("install", "--yes", PATH="/nowhere")
    assert done.returncode == 3
    assert "None of Claude Code, Codex, opencode, Gemini CLI is here." in done.stderr
    assert rows(broker, "install", "gemini", "--yes")[0]["notes"] == [
        "Gemini CLI was not found on this machine.",
        "It does not tell whether it asks you before it acts. `xsessionctl config set harness.gemini.assume_class "
        "prompting` (or bypass) says it; until then its mail is held for you.",
    ]
    assert (broker.home / ".gemini" / "settings.json").exists()


def test_a_word_that_is_no_harness_is_refused(broker: PrivateBroker) -> None:
    done = broker.ctl("install", "emacs")
    assert done.returncode == 2
    assert "'emacs' is none of claude, codex, opencode, gemini." in done.stderr


def test_a_dry_run_writes_nothing(place: PrivateBroker) -> None:
    before = tree_of(place.home)
    folder = place.root / "r2"
    done = place.ctl("install", "claude", "--dry-run", XSESSIOND_RUNTIME_DIR=str(folder))
    assert done.returncode == 0
    assert f"+++ {place.home}/.claude.json" in done.stdout
    assert f'+      "command": "{COMMAND}",' in done.stdout
    assert "Claude Code: nothing was written." in done.stdout
    assert tree_of(place.home) == before
    assert not folder.exists()


def test_nobody_to_ask_is_nobody_to_agree(place: PrivateBroker) -> None:
    before = tree_of(place.home)
    done = place.ctl("install", "claude")
    assert done.returncode == 2
    assert "Nobody is here to be asked. Nothing was written." in done.stderr
    assert tree_of(place.home) == before


def test_a_person_is_shown_it_and_asked(place: PrivateBroker) -> None:
    done = as_human(place, "install", "claude", replies=[("Write this? [y/N]", "\n")])
    assert "alwaysLoad" in done.shown
    assert "nothing was written" in done.shown
    assert not (place.home / ".claude.json").exists()
    done = as_human(place, "install", "claude", replies=[("Write this? [y/N]", "y\n")])
    assert (done.code, (place.home / ".claude.json").exists()) == (0, True)
    assert "Claude Code: written. Sessions that are started from now on have it." in done.shown


def test_a_harness_that_cannot_tell_its_class_is_asked_about_once(place: PrivateBroker) -> None:
    answers = [("Write this? [y/N]", "y\n"), ("[skip]:", "prompting\n")]
    done = as_human(place, "install", "gemini", replies=answers)
    assert "Gemini CLI does not tell whether it asks you before it acts." in done.shown
    assert done.code == 0
    assert '[harness.gemini]\nassume_class = "prompting"\n' in (place.config_dir / "config.toml").read_text()
    place.ctl("uninstall", "gemini", "--yes")
    done = as_human(place, "install", "gemini", replies=answers[:1])
    assert "does not tell" not in done.shown


def test_one_that_cannot_be_changed_keeps_no_other_from_it(place: PrivateBroker) -> None:
    """A file that cannot be parsed is refused with its place, and left alone."""
    settings = place.home / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"theme": "dark",}')
    done = place.ctl("install", "--yes")
    assert done.returncode == 11
    assert "Claude Code: written." in done.stdout
    assert "Gemini CLI: nothing was written." in done.stdout
    assert f"{settings} is not changed: line 1: a comma too many, which its own program cannot read." in done.stdout
    assert settings.read_text() == '{"theme": "dark",}'
    alone = place.ctl("install", "gemini", "--yes")
    assert (alone.returncode, alone.stdout) == (11, "")
    assert states(place, code=11)["gemini"] == "broken"


def test_what_another_program_called_ours_is_left_alone(place: PrivateBroker) -> None:
    settings = place.home / ".claude.json"
    settings.write_text('{"mcpServers": {"xsession": {"command": "/theirs"}}}')
    done = place.ctl("install", "claude", "--yes")
    assert done.returncode == 11
    assert "it has a server 'xsession' that does not run xsessionctl" in done.stderr
    assert settings.read_text() == '{"mcpServers": {"xsession": {"command": "/theirs"}}}'


def test_an_entry_made_by_hand_is_taken_over(place: PrivateBroker) -> None:
    """As older versions of the README said it; what its user set stays."""
    settings = place.home / ".claude.json"
    entry = {"type": "stdio", "command": "/old/bin/xsessionctl", "args": ["mcp"], "env": {"XSESSIOND_NAME": "api"}}
    settings.write_text(json.dumps({"mcpServers": {"xsession": entry}}, indent=2))
    assert states(place, code=3)["claude"] == "partly"
    rows(place, "install", "claude", "--yes")
    found = json.loads(settings.read_text())["mcpServers"]["xsession"]
    assert (found["command"], found["alwaysLoad"], found["env"]["XSESSIOND_NAME"]) == (str(COMMAND), True, "api")


def test_it_works_from_a_bare_environment(place: PrivateBroker) -> None:
    """I1, I4: as from cron; the harness is found in its usual place, and what is written is absolute."""
    bare = {"HOME": str(place.home), "PATH": "/usr/bin:/bin", "XSESSIOND_RUNTIME_DIR": str(place.runtime_dir)}
    argv = [COMMAND, "install", "claude", "--yes", "--json"]
    done = subprocess.run(argv, cwd="/", env=bare, capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(done.stdout)["harnesses"][0]["program"] == f"{place.home}/.local/bin/claude"
    entry = json.loads((place.home / ".claude.json").read_text())["mcpServers"]["xsession"]
    assert os.path.isabs(entry["command"])
    assert os.access(entry["command"], os.X_OK)


def test_our_own_places_are_handed_on_where_they_were_set(place: PrivateBroker) -> None:
    rows(place, "install", "--yes")
    entry = json.loads((place.home / ".claude.json").read_text())["mcpServers"]["xsession"]
    assert entry["env"].items() >= place.directories().items()
    hooks = json.loads((place.home / ".claude" / "settings.json").read_text())["hooks"]
    command = hooks["SessionStart"][0]["hooks"][0]["command"]
    assert command.startswith(f"XSESSIOND_RUNTIME_DIR={place.runtime_dir} ")
    assert f"XSESSIOND_STATE_DIR={place.state_dir} " in command
    plugin = json.loads((place.home / ".config" / "opencode" / "opencode.jsonc").read_text())["plugin"][0]
    words = plugin[1]["command"]
    assert words[0] == "/usr/bin/env"
    assert words[-1] == str(COMMAND)
    assert f"XSESSIOND_STATE_DIR={place.state_dir}" in words


def test_the_sockets_folder_is_there_afterwards(place: PrivateBroker) -> None:
    """I6: a sandbox lets through only what is there when it begins."""
    folder = place.root / "r2"
    assert place.ctl("install", "claude", "--yes", XSESSIOND_RUNTIME_DIR=str(folder)).returncode == 0
    assert folder.stat().st_mode & 0o7777 == 0o700


def test_another_version_than_was_tested_is_said(broker: PrivateBroker) -> None:
    """W21: what lies outside of the oldest and the newest that the tests ran with."""
    put_program(broker, "claude", "9.0.1 (Claude Code)")
    put_program(broker, "codex", "no number")
    claude, codex = rows(broker, "install", "claude", "codex", "--dry-run")
    assert claude["tested"] is False
    assert claude["notes"] == ["Version 9.0.1 is outside of what was tested (2.1.197 to 2.1.332)."]
    assert codex["version"] is None
    assert f"{broker.home}/.local/bin/codex does not say its version." in codex["notes"]  # type: ignore[operator]


def test_what_the_user_has_switched_off_is_said(place: PrivateBroker) -> None:
    rows(place, "install", "claude", "gemini", "--yes")
    for path, key, value in (
        (place.home / ".claude" / "settings.json", "disableAllHooks", True),
        (place.home / ".gemini" / "settings.json", "hooksConfig", {"enabled": False}),
    ):
        path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    notes = {row["name"]: row["notes"] for row in rows(place, "install", "--status", "claude", "gemini")}
    assert notes == {
        "claude": [f"{place.home}/.claude/settings.json has `disableAllHooks`."],
        "gemini": [f"{place.home}/.gemini/settings.json has `hooksConfig.enabled` false: no hook runs."],
    }


def test_a_status_says_what_is_missing_and_what_mends_it(place: PrivateBroker) -> None:
    rows(place, "install", "claude", "--yes")
    settings = place.home / ".claude" / "settings.json"
    settings.write_text("{}")
    done = place.ctl("install", "--status", "claude")
    assert done.returncode == 3
    assert done.stdout == (
        f"Claude Code (2.1.332): partly\n  {settings}: hooks: missing\n  `xsessionctl install claude` mends it.\n"
    )


@pytest.mark.parametrize("text", ["", "nothing", '{"x": 1}', "[]"])
def test_what_was_remembered_may_be_lost(place: PrivateBroker, text: str) -> None:
    rows(place, "install", "claude", "--yes")
    memory = place.state_dir / "installed.json"
    memory.write_text(text)
    rows(place, "uninstall", "claude", "--yes")
    assert json.loads((place.home / ".claude.json").read_text()) == {}
    assert json.loads((place.home / ".claude" / "settings.json").read_text()) == {}

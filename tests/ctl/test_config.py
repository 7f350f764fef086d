"""xsessionctl config: what is in force, what is wrong, and changing one value in a person's own file."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.human import Done, as_human
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member
from xsessiond.core.setting_keys import KEYS

USERS = "# mine\n[inbound]   # what comes in\npolicy = 'accept' # all\n\n[pacing]\ntarget_burst = 3\n"


@pytest.fixture
def file(broker: PrivateBroker) -> Path:
    """The user's file, not there yet."""
    return broker.config_dir / "config.toml"


def ask(broker: PrivateBroker, *words: str) -> Any:
    """The document of a verb that everybody may use."""
    return json.loads(broker.ctl("config", *words, "--json").stdout)


def changed(broker: PrivateBroker, *words: str, code: int = 0) -> str:
    """What a person is shown, without colours."""
    done = as_human(broker, "config", *words, "--color", "never", columns=200)
    assert done.code == code, done.shown
    return done.shown


# -- looking -----------------------------------------------------------------------------------------------------------


def test_every_value_is_shown_with_its_place(running: PrivateBroker, file: Path) -> None:
    """C5, H6."""
    file.write_text(USERS)
    (running.root / "managed.toml").write_text("[outbound]\npolicy = 'hold'\n")
    running.ctl("stop")
    shown = running.ctl("config", "show").stdout
    assert re.search(rf"^inbound\.policy +accept +{file}:3$", shown, re.MULTILINE)
    assert re.search(rf"^outbound\.policy +hold +{running.root}/managed\.toml:2$", shown, re.MULTILINE)
    assert re.search(r"^inbound\.hold_expiry +1h +default$", shown, re.MULTILINE)
    document = ask(running, "show")
    assert document["ok"] is True
    assert {row["key"] for row in document["values"]} == {key.name for key in KEYS if "*" not in key.path}
    row = next(row for row in document["values"] if row["key"] == "pacing.target_burst")
    assert row == {"key": "pacing.target_burst", "value": "3", "source": "user", "where": f"{file}:6"}


def test_what_is_wrong_is_shown_and_red(broker: PrivateBroker, file: Path) -> None:
    """C1: also in the exit code; everything from a file is shown inert."""
    file.write_text('[inbound]\n"pol\\u001bcy" = "hold"\n')
    broker.start()
    done = broker.ctl("config", "show")
    assert done.returncode == 11
    assert f'! {file}:2:1: error: inbound."pol\\x1bcy" is unknown' in done.stdout.replace("\\u001b", "\\x1b")
    assert re.search(r"^inbound\.policy +unreadable ", done.stdout, re.MULTILINE)
    assert "\x1b" not in done.stdout


def test_one_value_is_got_alone(running: PrivateBroker, file: Path) -> None:
    file.write_text(USERS + '[harness."my cli"]\nassume_class = "bypass"\n')
    running.ctl("stop")
    for name, value in [
        ("inbound.policy", "accept\n"),
        ("outbound.policy", "accept\n"),
        ("inbound . policy", "accept\n"),
        ("approvals.notify", ""),
        ("harness.gemini.assume_class", ""),
        ('harness."my cli".assume_class', "bypass\n"),
    ]:
        done = running.ctl("config", "get", name)
        assert (done.returncode, done.stdout) == (0, value), name
    assert ask(running, "get", "inbound.policy")["where"] == f"{file}:3"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, near",
    [
        ("inbound.polcy", "inbound.policy"),
        ("policy", "inbound.policy"),
        ("offline", "offline.default or offline.keep"),
        ("inbound", "inbound.policy, inbound.hold_expiry or inbound.scope"),
        ("zzz", None),
        ("a b", None),
    ],
)
def test_a_name_that_is_none_is_a_usage_error_with_the_nearest(
    running: PrivateBroker, name: str, near: str | None
) -> None:
    done = running.ctl("config", "get", name)
    assert done.returncode == 2
    assert ("Did you mean" in done.stderr) == (near is not None)
    assert near is None or f"Did you mean {near}?" in done.stderr


# -- checking ----------------------------------------------------------------------------------------------------------


def test_files_are_checked_without_a_broker(broker: PrivateBroker, file: Path) -> None:
    """C1, C3: file, line, column, nearest key."""
    assert broker.ctl("config", "check").stdout == "There is no settings file; the defaults hold.\n"
    file.write_text(USERS)
    assert broker.ctl("config", "check").stdout == f"{file}: no problems.\n"
    file.write_text("[inbound]\npolcy = 'hold'\n[pacing]\nmax_hop = 3\n")
    (broker.home / ".xsessiond.toml").write_text("[inbound]\npolicy = 'accept'\n")
    done = broker.ctl("config", "check")
    assert done.returncode == 11
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f'{file}:2:1: error: inbound.polcy is unknown; did you mean "policy"?')
    assert lines[1].startswith(f'{file}:4:1: warning: pacing.max_hop is unknown; did you mean "max_hops"?')
    assert re.search(r"/\.xsessiond\.toml:2:1: warning: .* can only tighten\.$", lines[2])
    document = ask(broker, "check")
    assert document["ok"] is False
    assert document["problems"][0] | {"text": ""} == {
        "level": "error",
        "path": str(file),
        "line": 2,
        "column": 1,
        "text": "",
    }
    assert not broker.rendezvous.exists()


def test_one_file_is_checked_by_its_name(broker: PrivateBroker, tmp_path: Path) -> None:
    for name, code in (("any.toml", 11), (".xsessiond.toml", 0)):
        (tmp_path / name).write_text(
            "[approvals]\npassphrase = 'yes'\n" if code else "[approvals]\npassphrase = true\n"
        )
        assert broker.ctl("config", "check", str(tmp_path / name)).returncode == code
    assert broker.ctl("config", "check", str(tmp_path / "missing")).returncode == 3
    (tmp_path / "any.toml").chmod(0o666)
    assert "can be written by everybody" in broker.ctl("config", "check", str(tmp_path / "any.toml")).stdout


# -- changing ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_value_is_set_in_place_and_in_force(running: PrivateBroker, file: Path) -> None:
    """C5, 14.3."""
    file.write_text(USERS)
    assert f"inbound.policy is hold ({file}:3)." in changed(running, "set", "inbound.policy", "hold")
    assert file.read_text() == USERS.replace("'accept'", '"hold"')
    assert ask(running, "get", "inbound.policy")["value"] == "hold"
    assert "is 4" in changed(running, "set", "pacing.target_burst", "4")
    assert 'is ["notify-send", "{title}"]' in changed(running, "set", "approvals.notify", "notify-send", "{title}")
    assert "is true" in changed(running, "set", "approvals.without_terminal", "true")
    assert "at the broker's next start" in changed(running, "set", "store.durability", "normal")
    assert "is 4" in changed(running, "set", "pacing.max_hops", "4")
    assert "not in this version" in changed(running, "set", "approvals.elicitation", "true")
    assert file.read_text() == (
        '# mine\n[inbound]   # what comes in\npolicy = "hold" # all\n\n[pacing]\ntarget_burst = 4\nmax_hops = 4\n\n'
        '[approvals]\nnotify = ["notify-send", "{title}"]\nwithout_terminal = true\nelicitation = true\n\n'
        '[store]\ndurability = "normal"\n'
    )
    assert "inbound.policy is (unset) (default)." in changed(running, "set", "--unset", "inbound.policy")
    assert ask(running, "get", "inbound.policy")["value"] is None


def test_what_goes_before_it_is_said(running: PrivateBroker, file: Path) -> None:
    (running.root / "managed.toml").write_text("[inbound]\npolicy = 'hold'\n")
    shown = changed(running, "set", "inbound.policy", "accept")
    assert f"inbound.policy is hold ({running.root}/managed.toml:2)." in shown
    assert f"{file} was changed, but what stands there goes first." in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    "words, code, said",
    [
        (["inbound.policy", "hodl"], 2, 'inbound.policy must be "accept", "hold" or "refuse".'),
        (["inbound.policy"], 2, "Give the value, or --unset."),
        (["inbound.policy", "hold", "--unset"], 2, "Give a value, or --unset without one."),
        (["inbound.polcy", "hold"], 2, "Did you mean inbound.policy?"),
        (["approvals.passphrase", "yes"], 2, "approvals.passphrase must be true or false."),
        (["pacing.queue_per_session", "1\ny = 2"], 2, "pacing.queue_per_session must be a whole number"),
    ],
)
def test_what_cannot_be_set_is_refused(
    running: PrivateBroker, file: Path, words: list[str], code: int, said: str
) -> None:
    """C4."""
    done = running.ctl("config", "set", *words)
    assert done.returncode == code
    assert said in done.stderr
    assert not file.exists()


def test_a_broken_file_is_left_alone(broker: PrivateBroker, file: Path) -> None:
    file.write_text("[inbound\n")
    broker.start()
    assert "cannot be parsed" in changed(broker, "set", "inbound.policy", "hold", code=11)
    assert file.read_text() == "[inbound\n"
    file.write_text("inbound = { scope = 'machine' }\n")
    assert "Remove it by hand" in changed(broker, "set", "--unset", "inbound.scope", code=11)


def test_only_a_human_changes_settings(running: PrivateBroker, file: Path) -> None:
    """5.2: a script is refused, and so is an agent's shell; it is shown."""
    editor = {"EDITOR": "touch"}
    for words in (["set", "inbound.policy", "accept"], ["edit"]):
        done = running.ctl("config", *words, **editor)
        assert done.returncode == 10
        assert "Only a human may change the settings." in done.stderr
    with Member(running.rendezvous, "api", pid=os.getpid()):
        done = running.ctl("config", "set", "inbound.policy", "accept")
        assert (done.returncode, "runs below the session api" in done.stderr) == (10, True)
    assert not file.exists()
    warnings = json.loads(running.ctl("status", "--json").stdout)["warnings"]
    assert any("tried to change the settings" in text for text in warnings)


# -- the editor --------------------------------------------------------------------------------------------------------


def edited(broker: PrivateBroker, program: str, *, replies: list[tuple[str, str]] | None = None) -> Done:
    """`config edit` with an editor that does what the shell script says with $1."""
    script = broker.root / "editor"
    script.write_text(f"#!/bin/sh\n{program}\n")
    script.chmod(0o700)
    return as_human(
        broker, "config", "edit", "--color", "never", columns=200, replies=replies or [], VISUAL=str(script)
    )


def test_what_was_edited_is_in_force(running: PrivateBroker, file: Path) -> None:
    done = edited(running, 'printf \'[inbound]\\npolicy = "refuse"\\n\' >> "$1"')
    assert (done.code, f"{file} is in force." in done.shown) == (0, True)
    assert ask(running, "get", "inbound.policy")["value"] == "refuse"
    done = edited(running, 'test "$(basename "$1")" = config.toml')
    assert (done.code, done.shown) == (0, "Nothing was changed.\n")


def test_what_is_wrong_is_edited_again(running: PrivateBroker, file: Path) -> None:
    """The file itself is whole all the time."""
    file.write_text(USERS)
    once = (
        f'test -e {running.root}/once && {{ echo > "$1"; exit; }}; touch {running.root}/once; echo \'[inbound\' > "$1"'
    )
    done = edited(running, once, replies=[("give up", "e\r")])
    assert done.code == 0
    assert f"{file}:1:9: error: The file cannot be parsed" in done.shown
    assert file.read_text() == "\n"


def test_giving_up_changes_nothing_and_saving_anyway_does(running: PrivateBroker, file: Path) -> None:
    file.write_text(USERS)
    wrong = "echo 'inbound.polcy = 1' > \"$1\""
    done = edited(running, wrong, replies=[("give up", "g\r")])
    assert (done.code, "Given up. Nothing was changed." in done.shown) == (11, True)
    assert file.read_text() == USERS
    done = edited(running, wrong, replies=[("give up", "s\r")])
    assert (done.code, "! " in done.shown) == (11, True)
    assert file.read_text() == "inbound.polcy = 1\n"


@pytest.mark.slow
@pytest.mark.parametrize("program, said", [("exit 3", "The editor ended with 3."), ('rm "$1"', "cannot be read")])
def test_an_editor_that_fails_changes_nothing(running: PrivateBroker, file: Path, program: str, said: str) -> None:
    file.write_text(USERS)
    done = edited(running, program)
    assert (done.code, said in done.shown) == (2, True)
    done = as_human(running, "config", "edit", VISUAL="", EDITOR=f"{sys.prefix}/no-such-editor")
    assert (done.code, "cannot be started" in done.shown) == (2, True)
    assert file.read_text() == USERS

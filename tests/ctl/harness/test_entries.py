"""xsessionctl.harness.entries: what is ours, what it should be, and what its user may change in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.ctl.harness.wild import make_home
from xsessionctl.client import ClientError
from xsessionctl.harness import toml_edit
from xsessionctl.harness.entries import Element, Hooks, Server, is_our_hook, is_our_server
from xsessionctl.harness.json_edit import Json
from xsessionctl.harness.json_spans import BadText
from xsessionctl.harness.known import HARNESSES
from xsessionctl.harness.tool_hooks import command_hook, tool_hook
from xsessionctl.harness.trees import value_at

FORM = Json()
SERVER = Server(("mcpServers", "xsession"), {"command": "/new/xsessionctl", "args": ["mcp"], "env": {"A": "1"}})
HOOKS = Hooks(
    {
        "Stop": [tool_hook(("x",), timeout=5)],
        "SessionStart": [command_hook("/d/xsessionctl/harness/hook.sh a b", timeout=5)],
    }
)


@pytest.mark.parametrize(
    "value, ours",
    [
        ({"command": "/a b/xsessionctl", "args": ["mcp"]}, True),
        ({"command": "xsessionctl", "args": ["mcp"]}, True),
        ({"command": "uvx", "args": ["--from", "xsessiond", "xsessionctl", "mcp"]}, True),
        ({"type": "local", "command": ["/x/xsessionctl", "mcp"]}, True),
        ({"command": "/x/xsessionctl", "args": ["list"]}, False),
        ({"command": "/x/xsessionctl-other", "args": ["mcp"]}, False),
        ({"command": "mcp", "args": ["xsessionctl"]}, False),
        ({"url": "https://x"}, False),
        ({"command": 1, "args": {"mcp": 1}}, False),
        (None, False),
    ],
)
def test_a_server_is_ours_by_what_it_runs(value: object, *, ours: bool) -> None:
    assert is_our_server(value) is ours


@pytest.mark.parametrize(
    "value, ours",
    [
        ({"type": "mcp_tool", "server": "xsession", "tool": "hook"}, True),
        ({"type": "mcp_tool", "server": "theirs", "tool": "hook"}, False),
        ({"type": "command", "command": "A='b c' /bin/sh '/d e/xsessionctl/harness/hook.sh' claude Stop wait"}, True),
        ({"type": "command", "command": "/old/xsessionctl hook claude Stop"}, True),
        ({"type": "command", "command": "/x/xsessionctl", "args": ["hook", "claude", "Stop"]}, True),
        ({"type": "command", "command": "xsessionctl send api done"}, False),
        ({"type": "command", "command": "echo 'xsessionctl/harness/hook.sh is gone' \"unclosed"}, False),
        ({"type": "command", "command": "/theirs/harness/hook.sh"}, False),
        ({"type": "prompt", "prompt": "xsession"}, False),
        ("xsessionctl hook", False),
    ],
)
def test_a_hook_is_ours_by_what_it_starts(value: object, *, ours: bool) -> None:
    assert is_our_hook(value) is ours


def test_a_server_is_changed_where_it_is_wrong_and_nowhere_else() -> None:
    entry = '{"command": "/old/xsessionctl", "args": ["mcp"], "env": {"B": "2"}, "timeout": 9}'
    text = f'{{"mcpServers": {{"xsession": {entry}}}}}'
    assert SERVER.find_fault(FORM.parse(text)) == "outdated"
    made = SERVER.put(FORM, text)
    assert made == text.replace("/old/", "/new/").replace('"B": "2"', '"B": "2", "A": "1"')
    assert SERVER.find_fault(FORM.parse(made)) is None
    assert SERVER.put(FORM, made) == made
    assert FORM.parse(SERVER.remove(FORM, made)) == {"mcpServers": {}}


def test_a_server_of_another_program_is_neither_changed_nor_removed() -> None:
    text = '{"mcpServers": {"xsession": {"command": "/theirs"}}}'
    with pytest.raises(BadText, match="does not run xsessionctl"):
        SERVER.put(FORM, text)
    assert SERVER.remove(FORM, text) == text


def hooks_of(text: str, event: str) -> object:
    return value_at(FORM.parse(text), ("hooks", event))


@pytest.mark.parametrize("form, start", [(FORM, "{}"), (toml_edit, "")], ids=["json", "toml"])
def test_nine_copies_become_one(form: object, start: str) -> None:
    """I3: as other installers left them."""
    assert isinstance(form, Json) or form is toml_edit
    text = start
    for _ in range(9):
        text = form.append(text, ("hooks", "Stop"), tool_hook(("old",), timeout=5))  # type: ignore[union-attr]
    text = HOOKS.put(form, text)  # type: ignore[arg-type]
    assert value_at(form.parse(text), ("hooks", "Stop")) == [tool_hook(("x",), timeout=5)]  # type: ignore[union-attr]
    assert HOOKS.put(form, text) == text  # type: ignore[arg-type]
    assert HOOKS.find_fault(form.parse(text)) is None  # type: ignore[union-attr]


def test_what_a_user_changed_in_a_hook_of_ours_stays() -> None:
    """I3: a harmless edit is no fault, and outlives an update."""
    text = HOOKS.put(FORM, "{}")
    mine = text.replace('"timeout": 5', '"timeout": 7').replace('"matcher": ""', '"matcher": "Bash"')
    assert HOOKS.find_fault(FORM.parse(mine)) is None
    assert HOOKS.put(FORM, mine) == mine
    updated = Hooks({**HOOKS.groups, "Stop": [tool_hook(("x", "y"), timeout=5)]})
    assert updated.find_fault(FORM.parse(mine)) == "outdated"
    [group] = as_list(hooks_of(updated.put(FORM, mine), "Stop"))
    [handler] = as_list(group["hooks"])
    assert (handler["timeout"], handler["input"]["y"]) == (7, "${y}")


def as_list(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value


def test_our_hook_in_a_group_of_theirs_goes_alone() -> None:
    theirs = {"type": "command", "command": "theirs"}
    ours = as_list(tool_hook(("old",), timeout=5)["hooks"])[0]
    text = FORM.put("{}", ("hooks", "Stop"), [{"matcher": "", "hooks": [ours, theirs, ours]}])
    assert hooks_of(HOOKS.remove(FORM, text), "Stop") == [{"matcher": "", "hooks": [theirs]}]
    made = HOOKS.put(FORM, text)
    assert hooks_of(made, "Stop") == [{"matcher": "", "hooks": [theirs]}, tool_hook(("x",), timeout=5)]


def test_events_that_are_not_wanted_any_more_lose_ours() -> None:
    text = Hooks({"Notification": HOOKS.groups["Stop"]}).put(FORM, "{}")
    assert HOOKS.find_fault(FORM.parse(text)) == "outdated"
    assert hooks_of(HOOKS.put(FORM, text), "Notification") == []
    assert Hooks({}).find_fault(FORM.parse(text)) == "outdated"
    assert Hooks({}).find_fault({}) is None


@pytest.mark.parametrize("hooks", [None, [], {"Stop": {}}, {"Stop": [1, {"hooks": 2}, {"hooks": [3, None]}]}])
def test_hooks_of_an_odd_shape_are_not_ours(hooks: object) -> None:
    assert HOOKS.find_fault({"hooks": hooks}) == "missing"


def test_an_element_is_put_once_and_follows_a_move() -> None:
    here = Element(("plugin",), ["new", {}], "plugin", lambda value: value in (["old", {}], "old", ["new", {}]))
    text = '{"plugin": ["theirs", "old", ["old", {}]]}'
    assert here.find_fault(FORM.parse(text)) == "outdated"
    made = here.put(FORM, text)
    assert made == '{"plugin": ["theirs", ["new", {}]]}'
    assert here.put(FORM, made) == made
    assert here.remove(FORM, made) == '{"plugin": ["theirs"]}'
    assert here.find_fault({"plugin": "theirs"}) == "missing"


SECONDS = {"claude": 1, "codex": 1, "gemini": 1000}


@pytest.mark.parametrize("name", SECONDS)
def test_timeouts_are_in_the_harness_s_own_unit(name: str, tmp_path: Path) -> None:
    """F4: five seconds, which for Gemini CLI are 5000."""
    home = make_home(tmp_path, name)
    found = [
        handler["timeout"]
        for part in home.harness.parts(home.site)
        for entry in part.entries
        if isinstance(entry, Hooks)
        for groups in entry.groups.values()
        for group in groups
        for handler in as_list(group["hooks"])
    ]
    assert set(found) == {5 * SECONDS[name]}
    assert found


@pytest.mark.parametrize(
    "version, events, waits",
    [
        ((2, 1, 332), 9, 0),
        ((2, 1, 200), 9, 2),  # no inbox yet: one hook waits for mail
        ((2, 1, 118), 6, 2),  # no more events than all versions know
        ((2, 0, 0), 5, 2),
        (None, 9, 0),
    ],
)
def test_older_versions_of_claude_code_are_given_what_they_know(
    version: tuple[int, ...] | None, events: int, waits: int, tmp_path: Path
) -> None:
    home = make_home(tmp_path, "claude").with_version(*version) if version else make_home(tmp_path, "claude")
    home.install()
    found = FORM.parse((home.path / ".claude" / "settings.json").read_text())
    table = value_at(found, ("hooks",))
    assert isinstance(table, dict)
    handlers = [handler for groups in table.values() for group in groups for handler in group["hooks"]]
    assert len(table) == events
    assert sum(handler.get("asyncRewake") is True for handler in handlers) == waits
    assert all(is_our_hook(handler) for handler in handlers)
    kinds = {handler["type"] for handler in handlers if not handler.get("asyncRewake")}
    assert kinds == ({"command"} if version == (2, 0, 0) else {"mcp_tool"} if waits else {"mcp_tool", "command"})
    # an update of the harness is an update of the entries
    newer = home.with_version(2, 1, 332)
    newer.install()
    assert newer.faults() == {}


def test_an_installation_that_does_not_hear_before_a_call_is_outdated(tmp_path: Path) -> None:
    """1.9, I3: one of before is told apart, and an installation again gives it what it lacks, for our tools alone."""
    home = make_home(tmp_path, "claude")
    home.install()
    settings = home.path / ".claude" / "settings.json"
    whole = settings.read_text()
    [group] = as_list(hooks_of(whole, "PreToolUse"))
    assert group["matcher"] == "mcp__xsession__.*"
    [handler] = as_list(group["hooks"])
    told = {name: f"${{{name}}}" for name in ("hook_event_name", "session_id", "agent_id", "tool_use_id")}
    assert (handler["type"], handler["tool"], handler["input"]) == ("mcp_tool", "hook", told)
    settings.write_text(FORM.remove(whole, ("hooks", "PreToolUse")))
    assert list(home.faults().values()) == ["outdated"]
    home.install()
    assert home.faults() == {}
    assert FORM.parse(settings.read_text()) == FORM.parse(whole)
    home.uninstall()
    assert "xsession" not in (settings.read_text() if settings.exists() else "")


def test_every_harness_is_described() -> None:
    """What the documentation and `list` say about each is there."""
    for name, harness in HARNESSES.items():
        assert harness.name == name
        assert all(harness.doors.__dict__.values())
        assert harness.class_source
        assert harness.resume[0] == harness.program
        assert harness.in_tested_range(harness.tested[0])
        assert not harness.in_tested_range((0, 0, 1))


def test_codex_has_its_hooks_in_one_place(tmp_path: Path) -> None:
    """It complains where some stand in both; ours go to where the user's are, and move with them."""
    home = make_home(tmp_path, "codex")
    folder = home.path / ".codex"
    folder.mkdir()
    config, other = folder / "config.toml", folder / "hooks.json"
    config.write_text('[hooks.state."x:stop:0:0"]\ntrusted_hash = "y"\n')  # what Codex remembers is no hook
    home.install()
    assert "mcp_tool" in other.read_text()
    home.uninstall()
    config.write_text('[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "theirs"\n')
    home.install()
    assert not other.exists()
    assert config.read_text().count('type = "mcp_tool"') == len(hooks_wanted(home.harness.parts(home.site)))
    other.write_text("{}")
    home.install()
    assert "mcp_tool" not in config.read_text()
    assert "theirs" in config.read_text()
    assert "mcp_tool" in other.read_text()
    assert home.faults() == {}


def hooks_wanted(parts: object) -> Mapping[str, object]:
    assert isinstance(parts, list)
    [found] = [entry.groups for part in parts for entry in part.entries if isinstance(entry, Hooks)]
    assert isinstance(found, Mapping)
    return found


def test_codex_is_told_what_it_does_not_hand_on(tmp_path: Path) -> None:
    home = make_home(tmp_path, "codex", CODEX_HOME=str(tmp_path / "elsewhere"), XDG_STATE_HOME="/state", XDG_X="no")
    home.install()
    found = toml_edit.parse((tmp_path / "elsewhere" / "config.toml").read_text())
    env = value_at(found, ("mcp_servers", "xsession", "env"))
    assert env == {"CODEX_HOME": str(tmp_path / "elsewhere"), "XDG_STATE_HOME": "/state"}


def test_claude_code_keeps_its_servers_where_it_says(tmp_path: Path) -> None:
    """Beside its settings where those were moved, and in an older file for as long as that is there."""
    home = make_home(tmp_path, "claude", CLAUDE_CONFIG_DIR=str(tmp_path / "cfg"))
    assert [str(path) for path in home.files] == [f"{tmp_path}/cfg/.claude.json", f"{tmp_path}/cfg/settings.json"]
    (tmp_path / "cfg").mkdir()
    (tmp_path / "cfg" / ".config.json").write_text("{}")
    assert str(home.files[0]) == f"{tmp_path}/cfg/.config.json"


def test_opencode_s_first_file_is_the_one(tmp_path: Path) -> None:
    home = make_home(tmp_path, "opencode")
    folder = home.path / ".config" / "opencode"
    assert home.files == [folder / "opencode.jsonc"]
    folder.mkdir(parents=True)
    for name in ("config.json", "opencode.json", "opencode.jsonc"):
        (folder / name).write_text("{}")
        assert home.files == [folder / name]


def test_a_link_in_the_place_of_opencode_s_file_is_that_file(tmp_path: Path) -> None:
    """Also one that leads to itself, which is refused, or nowhere yet, which is made there: never another beside it."""
    home = make_home(tmp_path, "opencode")
    folder = home.path / ".config" / "opencode"
    folder.mkdir(parents=True)
    link = folder / "opencode.json"
    link.symlink_to("opencode.json")
    with pytest.raises(ClientError, match=r"opencode\.json cannot be read: Too many levels of symbolic links"):
        home.install()
    assert os.listdir(folder) == ["opencode.json"]
    (folder / "config.json").write_text("{}")
    with pytest.raises(ClientError, match=r"opencode\.json cannot be read"):
        home.install()
    link.unlink()
    link.symlink_to(home.path / "dots")
    home.install()
    assert link.is_symlink()
    assert "plugin" in (home.path / "dots").read_text()
    assert (folder / "config.json").read_text() == "{}"

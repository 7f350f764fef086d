"""Commands that have systemd run the user's programs; tests/e2e/test_service_sandbox.py tries them in a real one."""

from __future__ import annotations

from pathlib import Path

from xsessiond.io.unconfined import ending_command, has_bus, name_unit, through_manager


def test_the_words_arrive_as_they_are() -> None:
    command = through_manager(["/bin/x", "$HOME", "a b", "--", "%h"], "u.service", {}, cwd="/src", options=("--wait",))
    assert command[:2] == ["systemd-run", "--user"]
    assert {"--unit=u.service", "--working-directory=/src", "--property=KillMode=process", "--wait"} <= set(command)
    assert command[command.index("--") + 1 :] == ["/bin/x", "$$HOME", "a b", "--", "%h"]


def test_it_gets_where_a_broker_s_things_are_and_nothing_else() -> None:
    environ = {"XSESSIOND_STATE_DIR": "/s", "XSESSIOND_TOKEN_FILE": "/t", "SECRET": "x"}
    command = through_manager(["x"], "u", environ)
    assert [word for word in command if word.startswith("--setenv")] == ["--setenv=XSESSIOND_STATE_DIR=/s"]
    assert "SECRET" not in " ".join(command)


def test_what_the_journal_says_of_it_holds_none_of_its_words() -> None:
    """7: a notification's text is the user's; systemd would describe the unit by its command."""
    (description,) = [word for word in through_manager(["tell", "secret"], "u", {}) if "--description" in word]
    assert "secret" not in description


def test_units_are_told_apart() -> None:
    assert len({name_unit() for _ in range(100)}) == 100
    assert ending_command("u.service", "SIGKILL") == ["systemctl", "--user", "kill", "--signal=SIGKILL", "u.service"]


def test_a_bus_is_looked_for_where_it_is(tmp_path: Path) -> None:
    assert has_bus({"DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"})
    assert not has_bus({})
    assert not has_bus({"XDG_RUNTIME_DIR": str(tmp_path)})
    (tmp_path / "bus").touch()
    assert has_bus({"XDG_RUNTIME_DIR": str(tmp_path)})

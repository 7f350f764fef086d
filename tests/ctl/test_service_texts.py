"""The units' texts: the shipped files, with this installation's paths in them and nothing else changed."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
from pathlib import Path

import pytest

from xsessionctl.client import ClientError
from xsessionctl.service.texts import (
    LABEL,
    MADE,
    agent_plist,
    hardening_drop_in,
    quote,
    read_shipped,
    service_unit,
    socket_unit,
)

ROOT = Path(__file__).parents[2]
COMMAND = ["/opt/x/bin/python3", "-P", "-m", "xsessiond"]


def added(text: str, name: str) -> tuple[list[str], list[str]]:
    """Lines that are in the text and not in the shipped file, and the reverse."""
    shipped = (ROOT / "systemd" / name).read_text().splitlines()
    lines = text.splitlines()
    return [line for line in lines if line not in shipped], [line for line in shipped if line not in lines]


def test_the_socket_is_the_shipped_one_where_every_login_looks() -> None:
    assert socket_unit(None) == MADE + (ROOT / "systemd/xsessiond.socket").read_text()
    assert "\nListenStream=%t/xsessiond/broker.sock\n" in socket_unit(None)


def test_the_socket_of_an_explicit_runtime_dir() -> None:
    new, gone = added(socket_unit("/x/50%/r/broker.sock"), "xsessiond.socket")
    assert new == [MADE.strip(), "ListenStream=/x/50%%/r/broker.sock"]
    assert gone == ["ListenStream=%t/xsessiond/broker.sock"]


def test_the_service_names_its_program_absolutely() -> None:
    """I4, P14: no PATH, no version manager, no working directory decides which broker runs."""
    new, gone = added(service_unit(COMMAND, {}), "xsessiond.service")
    assert new == [MADE.strip(), "ExecStart=/opt/x/bin/python3 -P -m xsessiond --service systemd"]
    assert gone == ["ExecStart=%h/.local/bin/xsessiond --service systemd"]


def test_the_service_carries_what_was_set() -> None:
    text = service_unit(COMMAND, {"XSESSIOND_STATE_DIR": "/a b/50%", "XSESSIOND_CONFIG_DIR": '/c"d'})
    assert '\nEnvironment="XSESSIOND_STATE_DIR=/a b/50%%"\n' in text
    assert '\nEnvironment="XSESSIOND_CONFIG_DIR=/c\\"d"\n' in text


def test_the_drop_in_lets_it_write_to_its_own_directories() -> None:
    assert "\nReadWritePaths=-/s/xsessiond -%t\n" in hardening_drop_in("/s/xsessiond", None)
    assert '\nReadWritePaths="-/s s" -/r\n' in hardening_drop_in("/s s", "/r")


@pytest.mark.parametrize(
    "word, text",
    [
        ("plain", "plain"),
        ("/a/b-c.d", "/a/b-c.d"),
        ("100%", "100%%"),
        ("a b", '"a b"'),
        ('a"b', '"a\\"b"'),
        ("a\\b", '"a\\\\b"'),
        ("it's", '"it\'s"'),
        ("a;b", '"a;b"'),
        ("#a", '"#a"'),
        ("ü", "ü"),
    ],
)
def test_words_of_a_unit(word: str, text: str) -> None:
    assert quote(word) == text


@pytest.mark.parametrize("path", ["/a\nExecStart=/bin/sh", "/a\tb", " /a", "/a ", "/\x1b[31m", "/\u202e"])
def test_a_path_that_no_unit_can_hold_is_refused(path: str) -> None:
    with pytest.raises(ClientError) as refused:
        socket_unit(path)
    assert refused.value.text.isprintable()


def test_a_dollar_in_the_program_s_path_is_no_variable() -> None:
    assert "ExecStart=/opt/$$x/python3 --service systemd" in service_unit(["/opt/$x/python3"], {})


SCHEMA = {
    "Label": str, "ProgramArguments": list, "RunAtLoad": bool, "KeepAlive": dict, "ThrottleInterval": int,
    "ExitTimeOut": int, "Umask": int, "WorkingDirectory": str, "StandardOutPath": str, "StandardErrorPath": str,
    "EnvironmentVariables": dict,
}  # fmt: skip
"""The keys of launchd.plist(5) that we use, with their types. launchd ignores what it does not know, so a slip of the
pen would go unnoticed."""


@pytest.mark.parametrize("variables", [{}, {"XSESSIOND_STATE_DIR": "/tmp/s & <t>"}])
def test_the_agent_is_what_launchd_understands(variables: dict[str, str]) -> None:
    agent = plistlib.loads(agent_plist(COMMAND, variables, "/s/launchd.err"))
    assert {key: type(value) for key, value in agent.items()} == {key: SCHEMA[key] for key in agent}
    assert agent["Label"] == LABEL
    assert agent["ProgramArguments"] == [*COMMAND, "--service", "launchd"]
    assert all(os.path.isabs(agent[key]) for key in ("StandardOutPath", "StandardErrorPath", "WorkingDirectory"))
    assert (agent["RunAtLoad"], agent["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert agent["Umask"] == 0o077  # decimal in the file: launchd reads no octal
    assert agent["ThrottleInterval"] >= 10  # launchd's own least
    assert agent.get("EnvironmentVariables", {}) == variables


@pytest.mark.skipif(shutil.which("plutil") is None, reason="macOS's own judge")
def test_the_agent_is_a_property_list_for_the_system_too(tmp_path: Path) -> None:
    path = tmp_path / f"{LABEL}.plist"
    path.write_bytes(agent_plist(COMMAND, {}, "/s/launchd.err"))
    subprocess.run(["plutil", "-lint", str(path)], check=True)


def test_an_installation_without_its_files_says_so() -> None:
    with pytest.raises(ClientError, match="lacks its file systemd/none"):
        read_shipped("systemd", "none")

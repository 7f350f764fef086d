"""The units' texts: what the repository's files say, with this installation's paths filled in.

Laws: a text is the shipped one with whole lines replaced or added, so that the file that somebody reads in the
repository is the one that runs. A path that the format cannot hold is refused, never bent. Refuses to know: where the
files go, and whether anybody reads them.
"""

from __future__ import annotations

import os
import plistlib
from collections.abc import Mapping, Sequence

from xsessionctl.client import ClientError
from xsessiond.core.inert import inert

SOCKET, SERVICE, HARDENING = "xsessiond.socket", "xsessiond.service", "hardening.conf"
LABEL = "local.xsessiond"
"""The agent's name for launchd."""
MADE = "# Made by `xsessionctl service install`, which replaces it; changes belong into xsessiond.service.d/*.conf.\n"
"""The first line of a unit of ours, by which it is known again."""


def read_shipped(folder: str, name: str) -> str:
    """A file of the repository's folder `systemd` or `launchd`, from the wheel or the clone. Raises ClientError."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for place in (os.path.join(package, "units"), os.path.dirname(package)):
        try:
            with open(os.path.join(place, folder, name), encoding="utf-8") as file:
                return file.read()
        except OSError:
            continue
    raise ClientError("internal", f"This installation lacks its file {folder}/{name}.", "Install xsessiond anew.")


def socket_unit(listen: str | None) -> str:
    """xsessiond.socket. listen: an absolute path, or None for the one in the file, which holds for every login."""
    text = MADE + read_shipped("systemd", SOCKET)
    return text if listen is None else _replace(text, "ListenStream=", f"ListenStream={_plain(listen)}")


def service_unit(command: Sequence[str], variables: Mapping[str, str]) -> str:
    """xsessiond.service. command: the program and its arguments, absolute. variables: what it is to have set."""
    words = [quote(word).replace("$", "$$") for word in (*command, "--service", "systemd")]
    lines = [f"ExecStart={' '.join(words)}"]
    lines += [f"Environment={quote(f'{name}={value}')}" for name, value in variables.items()]
    return _replace(MADE + read_shipped("systemd", SERVICE), "ExecStart=", "\n".join(lines))


def hardening_drop_in(state_dir: str, runtime_dir: str | None) -> str:
    """The drop-in. runtime_dir: None for the one of every login."""
    writable = [quote(f"-{state_dir}"), "-%t" if runtime_dir is None else quote(f"-{runtime_dir}")]
    text = MADE + read_shipped("systemd", HARDENING)
    return _replace(text, "ReadWritePaths=", f"ReadWritePaths={' '.join(writable)}")


def agent_plist(command: Sequence[str], variables: Mapping[str, str], errors: str) -> bytes:
    """The LaunchAgent. errors: where launchd puts what the program writes before it has its own log."""
    agent = plistlib.loads(read_shipped("launchd", f"{LABEL}.plist").encode())
    agent["ProgramArguments"] = [*command, *agent["ProgramArguments"][1:]]
    agent["StandardOutPath"] = agent["StandardErrorPath"] = errors
    if variables:
        agent["EnvironmentVariables"] = dict(variables)
    return plistlib.dumps(agent)


def quote(word: str) -> str:
    """One word of a unit's line: systemd.syntax(7) and systemd.unit(5), SPECIFIERS. Raises ClientError."""
    escaped = _plain(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if escaped != word.replace("%", "%%") or set(word) & set(" ;'#") else escaped


def _plain(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ClientError(
            "bad_name",
            f"The path {inert(text, multiline=False)} cannot stand in a unit file.",
            "Use one without control characters, and without blanks at its ends.",
        )
    return text.replace("%", "%%")


def _replace(text: str, start: str, instead: str) -> str:
    lines = text.split("\n")
    (number,) = (number for number, line in enumerate(lines) if line.startswith(start))
    return "\n".join([*lines[:number], instead, *lines[number + 1 :]])

"""The user's own programs, started by their service manager where that started the broker, and not by the broker.

What a unit forbids the broker (memory that is written and run, namespaces, system calls), a program that it starts
would be forbidden too: no harness with a just-in-time compiler or a sandbox of its own would run, and all of them would
end with the unit. systemd starts them as units of their own instead, with the environment of a login.

Laws: the words of a command arrive as they are. Nothing of them comes into the journal: they may hold a message's text.
Refuses to know: what the programs are for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from xsessiond.paths import PLACE_VARIABLES

CANNOT_START = {200: "its folder cannot be entered", 203: "it cannot be run"}
"""What systemd says with the exit status of a program that it could not start (systemd.exec(5)), of what may happen to
ours."""


def name_unit() -> str:
    """A unit's name that no other has."""
    return f"xsessiond-run-{os.urandom(8).hex()}.service"


def through_manager(
    argv: Sequence[str], unit: str, environ: Mapping[str, str], *, cwd: str = "/", options: Sequence[str] = ()
) -> list[str]:
    """The command that has systemd run `argv` as `unit`. environ: ours, of which it gets where a broker's things are.
    options: more of systemd-run's.

    When the program ends, what it left behind goes on, as a terminal's server does."""
    places = [f"--setenv={name}={environ[name]}" for name in PLACE_VARIABLES if name in environ]
    return [
        "systemd-run",
        "--user",
        "--quiet",
        "--collect",
        f"--unit={unit}",
        "--description=a command of yours, for xsessiond",
        f"--working-directory={cwd}",
        "--property=KillMode=process",
        *options,
        *places,
        "--",
        argv[0],
        *(word.replace("$", "$$") for word in argv[1:]),  # which systemd takes for variables
    ]


def has_bus(environ: Mapping[str, str]) -> bool:
    """Whether systemd can tell what became of a unit: that goes over the user's D-Bus, which a server may lack."""
    if environ.get("DBUS_SESSION_BUS_ADDRESS"):
        return True
    return os.path.exists(environ.get("XDG_RUNTIME_DIR", "/nowhere") + "/bus")


def ending_command(unit: str, signal: str) -> list[str]:
    """The command that sends a signal to all that a unit started."""
    return ["systemctl", "--user", "kill", f"--signal={signal}", unit]

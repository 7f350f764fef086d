"""systemd's user manager: a socket unit, a service unit, and an optional drop-in in ~/.config/systemd/user.

Laws: the socket is where every client of this user looks, or nothing is installed. The manager is spoken to through
`systemctl --user`, from any environment of the user's (cron, `su`, ssh) that has a manager at all; where it cannot be
reached, files and links are put where it finds them at the next login. Refuses to know: what the units say.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace

from xsessionctl.client import ClientError, deadline_in
from xsessionctl.lifecycle import broker_command, find_home
from xsessionctl.service.files import Planned, not_writable
from xsessionctl.service.manager import Command, Survey, explicit_variables, run, user_runtime_dir
from xsessionctl.service.texts import HARDENING, MADE, SERVICE, SOCKET, hardening_drop_in, service_unit, socket_unit
from xsessiond.core.inert import inert
from xsessiond.paths import PRODUCT, RUN_USER, PathError, Paths, resolve_paths

BOOTED = "/run/systemd/system"
"""There where systemd runs the machine: sd_booted(3)."""
LINGER = "/var/lib/systemd/linger"
"""One file for each user whose manager runs without a login."""
ASK_S = 10.0
"""How long the manager may take for a question."""
SHOWN = ("ActiveState", "SubState", "Result", "UnitFileState")


class Systemd:
    """See `Manager`."""

    name = "systemd"

    def __init__(self, paths: Paths, environ: Mapping[str, str] = os.environ) -> None:
        self.paths = paths
        self._environ = environ
        self._base = user_runtime_dir() or self._own_base()
        self._manager_environ: dict[str, str] | None = None
        self._why_not: str | None = None
        self._asked = False

    def _own_base(self) -> str | None:
        """A runtime dir elsewhere than logind's, if the rule took it."""
        if self.paths.sources["runtime_dir"] == "XDG_RUNTIME_DIR":
            return os.path.dirname(self.paths.runtime_dir)
        return None

    # -- the manager -------------------------------------------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        """See `Manager.environment`. `su` and cron lack the variable by which systemctl finds the manager."""
        environ = dict(self._environ) | {"LC_ALL": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
        if self._base is not None and environ.get("XDG_RUNTIME_DIR") != self._base:
            environ["XDG_RUNTIME_DIR"] = self._base
            environ.pop("DBUS_SESSION_BUS_ADDRESS", None)
        return environ

    def unreachable(self) -> str | None:
        """See `Manager.unreachable`."""
        if not self._asked:
            self._asked = True
            self._why_not = self._ask_for_environment()
        return self._why_not

    def _ask_for_environment(self) -> str | None:
        if shutil.which("systemctl", path=self._environ.get("PATH", os.defpath)) is None or not os.path.isdir(BOOTED):
            raise ClientError(
                "not_found",
                "systemd does not run this machine, so there is no service to install.",
                "Nothing is lost without it: the first client that needs the broker starts it. On WSL 2, systemd is "
                "switched on in /etc/wsl.conf (`[boot]`, `systemd=true`).",
            )
        if self._base is None:
            return (
                f"there is no {RUN_USER}/{os.geteuid()}: nobody of this user is logged in, and its manager does not run"
            )
        try:
            shown = run(("systemctl", "--user", "show-environment"), self.environment(), deadline_in(ASK_S))
        except ClientError as problem:
            return f"the user's manager does not answer from here: {inert(problem.text, multiline=False)}"
        self._manager_environ = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
        return None

    def _manager_paths(self) -> Paths:
        """Where the manager's own environment would lead a broker."""
        known = self._manager_environ or {}
        environ = {name: value for name, value in known.items() if name.startswith(("XDG_", "XSESSIOND_"))}
        environ["HOME"] = known.get("HOME", find_home(self._environ))
        if self._base is not None:
            environ["XDG_RUNTIME_DIR"] = self._base
        try:
            return resolve_paths(environ)
        except PathError as problem:
            raise ClientError("refused", problem.reason, detail=problem.path) from None

    def _folder(self) -> str:
        config = (self._manager_environ or {}).get("XDG_CONFIG_HOME") or find_home(self._environ) + "/.config"
        return config + "/systemd/user"

    # -- files -------------------------------------------------------------------------------------------------------

    def plan(self, *, hardened: bool | None) -> list[Planned]:
        """See `Manager.plan`."""
        listen, variables = self._place()
        socket, service, drop_in = self.removal()
        if hardened is None:
            hardened = drop_in.state() == "differs"
        files = [
            replace(socket, text=socket_unit(listen).encode()),
            replace(service, text=service_unit(broker_command(), variables).encode()),
        ]
        runtime_dir = None if listen is None else self.paths.runtime_dir
        stricter = hardening_drop_in(self.paths.state_dir, runtime_dir).encode() if hardened else None
        return [*files, replace(drop_in, text=stricter)]

    def removal(self) -> list[Planned]:
        """See `Manager.removal`."""
        folder = self._folder()
        names = (SOCKET, SERVICE, f"{SERVICE}.d/{HARDENING}")
        return [Planned(f"{folder}/{name}", None, _is_ours) for name in names]

    def _place(self) -> tuple[str | None, dict[str, str]]:
        """Where the socket must listen (None: where the shipped unit says) and what the broker must have set."""
        theirs = self._manager_paths()
        home, their_home = find_home(self._environ), (self._manager_environ or {}).get("HOME")
        if their_home is not None and os.path.realpath(home) != os.path.realpath(their_home):
            raise ClientError(
                "refused",
                f"The home directory is {home} here, and {their_home} for your service manager.",
                f"Run this with HOME={their_home}.",
            )
        variables = explicit_variables(self.paths, theirs)
        everybody_s = None if self._base is None else f"{self._base}/{PRODUCT}"
        if self.paths.explicit and self.paths.runtime_dir != everybody_s:
            variables["XSESSIOND_RUNTIME_DIR"] = self._environ["XSESSIOND_RUNTIME_DIR"]
            return self.paths.broker_socket, variables
        if everybody_s is None:
            return None, variables  # what the rule says when somebody is logged in
        for found, whose in ((self.paths, "clients from here"), (theirs, "the service's own broker")):
            if found.runtime_dir != everybody_s:
                raise ClientError(
                    "refused",
                    f"The socket would be {everybody_s}/broker.sock, and {whose} look at {found.broker_socket}. "
                    + " ".join(found.notes),
                    "Unset XDG_RUNTIME_DIR if it was changed, or mend what is said above; `xsessionctl paths` shows "
                    "what is found.",
                )
        return None, variables

    def _link(self) -> str:
        """What enabling the socket makes."""
        return f"{self._folder()}/sockets.target.wants/{SOCKET}"

    # -- coming and going --------------------------------------------------------------------------------------------

    def activation(self, changes: Mapping[str, str]) -> list[Command]:
        """See `Manager.activation`. What did not change goes on as it is, and the socket stays if it may."""
        done = {os.path.basename(path): change for path, change in changes.items()}
        commands: list[Command] = [("systemctl", "--user", "daemon-reload")]
        if done[SOCKET] == "replaced":  # before it is read anew, while systemd knows the socket that it has to remove
            commands.insert(0, ("systemctl", "--user", "stop", SERVICE, SOCKET))
        elif done[SERVICE] == "replaced" or done.get(HARDENING, "unchanged") != "unchanged":
            commands.append(("systemctl", "--user", "try-restart", SERVICE))
        return [*commands, ("systemctl", "--user", "enable", "--now", SOCKET)]

    def starting(self) -> list[Command]:
        """See `Manager.starting`."""
        return [("systemctl", "--user", "start", SOCKET)]

    def activate_later(self) -> None:
        """See `Manager.activate_later`: the link that `systemctl enable` makes."""
        link = self._link()
        try:
            os.makedirs(os.path.dirname(link), mode=0o755, exist_ok=True)
            if not os.path.lexists(link):
                os.symlink(f"{self._folder()}/{SOCKET}", link)
        except OSError as problem:
            raise not_writable(link, problem) from None

    def deactivation(self) -> list[Command]:
        """See `Manager.deactivation`."""
        return [("systemctl", "--user", "disable", "--now", SOCKET, SERVICE)]

    def cleaning(self) -> list[Command]:
        """See `Manager.cleaning`."""
        return [("systemctl", "--user", "daemon-reload"), ("systemctl", "--user", "reset-failed", SERVICE, SOCKET)]

    def forget_later(self) -> None:
        """See `Manager.forget_later`."""
        for link in (self._link(), f"{self._folder()}/default.target.wants/{SERVICE}"):
            try:
                if os.path.islink(link):
                    os.unlink(link)
            except OSError as problem:
                raise not_writable(link, problem) from None

    # -- what is said ------------------------------------------------------------------------------------------------

    def if_it_fails(self) -> str:
        """See `Manager.if_it_fails`."""
        said = "`xsessionctl service logs` says why."
        without = "`xsessionctl service install --not-hardened` takes the stricter sandbox away."
        return f"{said} {without}" if self._hardened() else said

    def notes(self) -> list[str]:
        """See `Manager.notes`."""
        notes = list(self.paths.notes)
        _, variables = self._place()
        for name, value in variables.items():
            notes.append(f"The units carry {name}={value}, as it is here.")
        if self._lingers() is False:
            notes.append(
                "The broker ends some seconds after your last logout, and comes back with the next login. For cron "
                "jobs and sessions that run while you are logged out: loginctl enable-linger"
            )
        if self._hardened():
            notes.append(
                "hardening.conf is in place: the broker cannot tell whether a process is yours or an agent's, so "
                "`approve` and `deny` need the passphrase."
            )
            if not os.path.exists(self.paths.passphrase_file):
                notes.append(
                    "There is none yet, and none can be set now: `xsessionctl service install --not-hardened`, "
                    "`xsessionctl passphrase`, `xsessionctl config set approvals.passphrase true`, and again."
                )
        return notes

    def _hardened(self) -> bool:
        return os.path.exists(f"{self._folder()}/{SERVICE}.d/{HARDENING}")

    def _lingers(self) -> bool | None:
        """Whether this user's manager runs without a login; None where that cannot be known."""
        import pwd

        try:
            name = pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            return None
        return os.path.exists(f"{LINGER}/{name}") if os.path.isdir(os.path.dirname(LINGER)) else None

    def survey(self) -> Survey:
        """See `Manager.survey`."""
        why_not, problem = self.unreachable(), None
        try:
            files = self.plan(hardened=None)
        except ClientError as refusal:
            files, problem = self.removal(), refusal.text
        states = {file.path: file.state() for file in files if file.text is not None or file.state() != "missing"}
        found: Survey = {
            "installed": all(file.state() in ("current", "differs") for file in files[:2]),
            "files": [{"path": path, "state": state} for path, state in states.items()],
            "problem": problem,
            "hardened": self._hardened(),
            "enabled": os.path.lexists(self._link()),
            "why_not": why_not,
            "linger": self._lingers(),
            "socket": None,
            "service": None,
        }
        if why_not is None:
            found["socket"], found["service"] = self._show(SOCKET), self._show(SERVICE, "MainPID", "NRestarts")
        return found

    def _show(self, unit: str, *more: str) -> dict[str, object]:
        wanted = ",".join((*SHOWN, *more))
        shown = run(
            ("systemctl", "--user", "show", f"--property={wanted}", unit), self.environment(), deadline_in(ASK_S)
        )
        known = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
        found: dict[str, object] = {
            "state": known.get("ActiveState"),
            "detail": known.get("SubState"),
            "result": known.get("Result"),
        }
        if more:
            found["pid"] = int(known.get("MainPID") or 0) or None
            found["restarts"] = int(known.get("NRestarts") or 0)
        return found

    def log_command(self, lines: int, *, follow: bool) -> Command | None:
        """See `Manager.log_command`."""
        command: Command = ("journalctl", "--user", f"--unit={SERVICE}", "--output=short-iso", f"--lines={lines}")
        return (*command, "--follow") if follow else (*command, "--no-pager", "--quiet")


def _is_ours(text: bytes) -> bool:
    return text.startswith(MADE.encode())

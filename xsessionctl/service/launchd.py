"""macOS's launchd: one agent of the login, in ~/Library/LaunchAgents.

Laws: launchd opens no socket for us; the broker that it starts at the login binds its own, under its lock. The agent
comes back after a crash and not after a proper end. Refuses to know: what the agent's file says.
"""

from __future__ import annotations

import os
import plistlib
import re
from collections.abc import Mapping
from xml.parsers.expat import ExpatError

from xsessionctl.client import ClientError, deadline_in
from xsessionctl.lifecycle import broker_command, find_home
from xsessionctl.service.files import Planned
from xsessionctl.service.manager import Command, Survey, explicit_variables, run
from xsessionctl.service.texts import LABEL, agent_plist
from xsessiond.paths import PathError, Paths, resolve_paths

ASK_S = 10.0
"""How long launchd may take for a question."""


class Launchd:
    """See `Manager`."""

    name = "launchd"

    def __init__(self, paths: Paths, environ: Mapping[str, str] = os.environ) -> None:
        self.paths = paths
        self._environ = environ
        self._domain = f"gui/{os.geteuid()}"
        self._file = f"{find_home(environ)}/Library/LaunchAgents/{LABEL}.plist"

    def environment(self) -> dict[str, str]:
        """See `Manager.environment`."""
        return dict(self._environ)

    def unreachable(self) -> str | None:
        """See `Manager.unreachable`. A login over ssh alone has no such domain."""
        try:
            self._ask("print", self._domain)
        except ClientError as problem:
            if problem.code == "not_found":
                raise
            return f"you have no graphical login now: {problem.text}"
        return None

    def _ask(self, *words: str) -> str:
        return run(("launchctl", *words), self.environment(), deadline_in(ASK_S))

    # -- files -------------------------------------------------------------------------------------------------------

    def plan(self, *, hardened: bool | None) -> list[Planned]:
        """See `Manager.plan`. launchd has no sandbox to offer."""
        if hardened:
            raise ClientError("usage", "launchd has no stricter sandbox.", "Leave --hardened out.")
        (agent,) = self.removal()
        errors = f"{self.paths.state_dir}/launchd.err"
        text = agent_plist(broker_command(), self._variables(), errors)
        return [Planned(agent.path, text, agent.ours)]

    def _variables(self) -> dict[str, str]:
        """What the broker must have set to look where clients from here do."""
        try:
            theirs = resolve_paths({"HOME": find_home(self._environ)}, platform=self.paths.platform)
        except PathError as problem:
            raise ClientError("refused", problem.reason, detail=problem.path) from None
        variables = explicit_variables(self.paths, theirs)
        if self.paths.runtime_dir != theirs.runtime_dir:
            variables["XSESSIOND_RUNTIME_DIR"] = self._environ.get("XSESSIOND_RUNTIME_DIR") or self.paths.runtime_dir
        return variables

    def removal(self) -> list[Planned]:
        """See `Manager.removal`."""
        return [Planned(self._file, None, _is_ours)]

    # -- coming and going --------------------------------------------------------------------------------------------

    def _loaded(self) -> str | None:
        """What launchd knows about the agent, or None if nothing."""
        try:
            return self._ask("print", f"{self._domain}/{LABEL}")
        except ClientError:
            return None

    def activation(self, changes: Mapping[str, str]) -> list[Command]:
        """See `Manager.activation`."""
        loaded = self._loaded() is not None
        if loaded and changes[self._file] == "unchanged":
            return [("launchctl", "kickstart", f"{self._domain}/{LABEL}")]
        begin: list[Command] = [("launchctl", "bootout", f"{self._domain}/{LABEL}")] if loaded else []
        return [
            *begin,
            ("launchctl", "enable", f"{self._domain}/{LABEL}"),  # one that was disabled by hand could not be loaded
            ("launchctl", "bootstrap", self._domain, self._file),
        ]

    def starting(self) -> list[Command]:
        """See `Manager.starting`."""
        return self.activation({self._file: "unchanged"})

    def activate_later(self) -> None:
        """See `Manager.activate_later`: the next login loads what lies in the folder."""

    def deactivation(self) -> list[Command]:
        """See `Manager.deactivation`."""
        return [("launchctl", "bootout", f"{self._domain}/{LABEL}")] if self._loaded() is not None else []

    def cleaning(self) -> list[Command]:
        """See `Manager.cleaning`."""
        return []

    def forget_later(self) -> None:
        """See `Manager.forget_later`."""

    # -- what is said ------------------------------------------------------------------------------------------------

    def if_it_fails(self) -> str:
        """See `Manager.if_it_fails`."""
        return f"{self.paths.state_dir}/launchd.err and `xsessionctl service logs` say more."

    def notes(self) -> list[str]:
        """See `Manager.notes`."""
        carried = [f"The agent carries {name}={value}, as it is here." for name, value in self._variables().items()]
        return [*self.paths.notes, *carried]

    def survey(self) -> Survey:
        """See `Manager.survey`."""
        why_not, problem = self.unreachable(), None
        try:
            (agent,) = self.plan(hardened=None)
        except ClientError as refusal:
            (agent,), problem = self.removal(), refusal.text
        loaded = self._loaded() if why_not is None else None
        pid = re.search(r"^\s*pid = (\d+)$", loaded or "", re.MULTILINE)
        runs = re.search(r"^\s*runs = (\d+)$", loaded or "", re.MULTILINE)
        last = re.search(r"^\s*last exit code = (.+)$", loaded or "", re.MULTILINE)
        service = {
            "state": "active" if pid else "inactive",
            "detail": "running" if pid else "dead",
            "result": last[1] if last else None,
            "pid": int(pid[1]) if pid else None,
            "restarts": max(0, int(runs[1]) - 1) if runs else 0,
        }
        return {
            "installed": agent.state() in ("current", "differs"),
            "files": [{"path": agent.path, "state": agent.state()}],
            "problem": problem,
            "hardened": False,
            "enabled": loaded is not None,
            "why_not": why_not,
            "linger": None,
            "socket": None,
            "service": service if loaded is not None else None,
        }

    def log_command(self, lines: int, *, follow: bool) -> Command | None:
        """See `Manager.log_command`: the broker writes its own file."""
        return None


def _is_ours(text: bytes) -> bool:
    try:
        agent = plistlib.loads(text)
    except (plistlib.InvalidFileException, ExpatError, ValueError):
        return False
    words = agent.get("ProgramArguments") if isinstance(agent, dict) else None
    return isinstance(words, list) and agent.get("Label") == LABEL and words[-2:] == ["--service", "launchd"]

"""What a service manager can do for us, and what is the same whichever it is: install, uninstall, the round trip.

Laws: installed means that the broker was asked and answered as the manager's, or that it is said why not yet. Doing it
again changes nothing; taking away takes away ours only, and nothing that was kept for the user. Nothing is started by
looking. Refuses to know: how one manager is spoken to, and what is printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from time import monotonic, sleep
from typing import Protocol

from xsessionctl.client import ClientError, deadline_in
from xsessionctl.lifecycle import connect_if_running
from xsessionctl.render import part_of
from xsessionctl.service.files import Planned, changes_of, not_writable, put_in_place
from xsessiond import __version__
from xsessiond.core.inert import inert
from xsessiond.paths import PathError, Paths
from xsessiond.private_dirs import ensure_private_dir

LOOK_S = 0.05
"""Between two looks at a broker that is to come."""
OUTPUT_MOST = 400
"""Characters of a manager's own complaint that are passed on."""

Command = tuple[str, ...]
Survey = dict[str, object]


class Manager(Protocol):
    """One service manager. `paths`: where clients that are started from here look."""

    name: str
    paths: Paths

    def unreachable(self) -> str | None:
        """Why it cannot be spoken to from here, as a sentence, or None. Raises ClientError where there is none."""

    def plan(self, *, hardened: bool | None) -> list[Planned]:
        """The files as they should be. hardened: None leaves a stricter sandbox as it is. Raises ClientError if what
        would be started there is not what clients from here look for."""

    def removal(self) -> list[Planned]:
        """All that `plan` may ever have put in place, as files that should not be there."""

    def activation(self, changes: Mapping[str, str]) -> list[Command]:
        """The commands that load, enable and start it, once this was done to the files, by path."""

    def starting(self) -> list[Command]:
        """The commands that start it again, nothing else having changed."""

    def activate_later(self) -> None:
        """Has it start at the next login, without the manager's help."""

    def deactivation(self) -> list[Command]:
        """The commands that stop and disable it, before its files go."""

    def cleaning(self) -> list[Command]:
        """The commands that make the manager forget it, once its files are gone; they may fail."""

    def forget_later(self) -> None:
        """Takes back `activate_later`."""

    def environment(self) -> dict[str, str]:
        """In which its commands run."""

    def if_it_fails(self) -> str:
        """What to do when it was put in place and does not start."""

    def notes(self) -> list[str]:
        """Sentences that who installs it should read."""

    def survey(self) -> Survey:
        """How it is: `installed`, `enabled`, and what this manager knows besides."""

    def log_command(self, lines: int, *, follow: bool) -> Command | None:
        """What prints the broker's log, or None if that is the log file."""


def find_manager(paths: Paths, platform: str = sys.platform) -> Manager:
    """The service manager of this system."""
    if platform == "darwin":
        from xsessionctl.service.launchd import Launchd

        return Launchd(paths)
    from xsessionctl.service.systemd import Systemd

    return Systemd(paths)


def install(manager: Manager, timeout: float, *, dry_run: bool, hardened: bool | None) -> dict[str, object]:
    """Puts it in place, starts it, and asks it. timeout: seconds for all of it. Raises ClientError."""
    deadline = deadline_in(timeout)
    why_not = manager.unreachable()
    files = manager.plan(hardened=hardened)
    changes = changes_of(files)
    commands = [] if why_not else manager.activation({one["path"]: one["change"] for one in changes})
    document: dict[str, object] = {
        "manager": manager.name,
        "dry_run": dry_run,
        "files": list(changes),
        "commands": [" ".join(command) for command in commands],
        "started": False,
        "why_not": why_not,
        "broker": None,
        "round_trip_ms": None,
    }
    if dry_run:
        texts = {file.path: file.text for file in files}
        for change in changes:
            change["text"] = (texts[change["path"]] or b"").decode()
        return {**document, "notes": manager.notes()}
    _make_state_dir(manager.paths)
    put_in_place(files)
    if why_not is not None:
        manager.activate_later()
        return {**document, "notes": manager.notes()}
    try:
        for command in commands:
            run(command, manager.environment(), deadline)
    except ClientError as problem:
        problem.hint = problem.hint or manager.if_it_fails()
        raise
    broker, took_s = _ask(manager, deadline)
    document |= {"started": True, "broker": broker, "round_trip_ms": round(took_s * 1000, 1)}
    notes = manager.notes()
    if broker.get("version") != __version__:
        notes.append(
            f"The broker that runs is of version {broker.get('version')}, this is {__version__}: "
            "`xsessionctl restart` has this one go on in its place."
        )
    return {**document, "notes": notes}


def _make_state_dir(paths: Paths) -> None:
    """Before the broker, so that a sandbox that names it finds it (I6)."""
    try:
        ensure_private_dir(paths.state_dir)
    except PathError as problem:
        raise ClientError("refused", problem.reason, detail=problem.path) from None
    except OSError as problem:
        raise not_writable(paths.state_dir, problem) from None


def _ask(manager: Manager, deadline: float) -> tuple[dict[str, object], float]:
    """A round trip to a broker that this manager started, and the seconds it took. One that a client started may need a
    moment to make room."""
    found = "nobody listens"
    while True:
        begun = monotonic()
        try:
            link = connect_if_running(manager.paths, deadline)
            if link is not None:
                with link:
                    broker = part_of(link.call("status"), "broker")
                if broker.get("service") == manager.name:
                    return broker, monotonic() - begun
                found = f"one answers that {manager.name} did not start (pid {broker.get('pid')})"
        except ClientError as problem:
            if not problem.sent or problem.code == "timeout":
                raise _not_there(manager, problem.text) from None
            found = inert(problem.text, multiline=False)  # the one that makes room closed the link
        if monotonic() > deadline:
            raise _not_there(manager, f"Waited for the broker, and {found}.")
        sleep(LOOK_S)


def _not_there(manager: Manager, text: str) -> ClientError:
    return ClientError(
        "no_broker", f"The service is installed, and its broker does not answer. {text}", manager.if_it_fails()
    )


def start_installed(paths: Paths, deadline: float) -> bool:
    """Has the manager start what it was given, if that is the broker that clients from here look for. False where it
    is not, or cannot be reached. Raises ClientError if the manager fails at it."""
    manager = find_manager(paths)
    if not any(file.state() == "differs" for file in manager.removal()):
        return False
    try:
        if manager.unreachable() is not None:
            return False
        files = manager.plan(hardened=None)
    except ClientError:
        return False
    if any(file.text is not None and file.state() != "current" for file in files):
        return False
    for command in manager.starting():
        run(command, manager.environment(), deadline)
    return True


def uninstall(manager: Manager, timeout: float, *, dry_run: bool) -> dict[str, object]:
    """Stops it and takes ours away, also where there is no manager any more. Raises ClientError."""
    deadline = deadline_in(timeout)
    try:
        why_not = manager.unreachable()
    except ClientError as problem:
        why_not = problem.text.rstrip(".")
    files = manager.removal()
    changes = changes_of(files)
    there = any(change["change"] == "removed" for change in changes)
    commands = manager.deactivation() if there and why_not is None else []
    if not dry_run:
        for command in commands:
            run(command, manager.environment(), deadline)
        put_in_place(files)
        if there and why_not is not None:
            manager.forget_later()
        for command in manager.cleaning() if commands else ():
            run(command, manager.environment(), deadline, may_fail=True)
    return {
        "manager": manager.name,
        "dry_run": dry_run,
        "files": changes,
        "commands": [" ".join(command) for command in commands],
        "why_not": why_not,
        "state_dir": manager.paths.state_dir,
    }


def run(command: Command, environ: Mapping[str, str], deadline: float, *, may_fail: bool = False) -> str:
    """Runs a manager's command; returns what it printed. Raises ClientError with its own complaint."""
    try:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=max(0.1, deadline - monotonic()),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ClientError(
            "timeout", f"`{' '.join(command)}` did not end in time.", "`--timeout S` waits longer."
        ) from None
    except OSError as problem:
        raise ClientError("not_found", f"{command[0]} cannot be run: {problem.strerror or problem}.") from None
    if done.returncode and not may_fail:
        said = inert(" ".join((done.stderr or done.stdout).split()), multiline=False)[:OUTPUT_MOST]
        raise ClientError(
            "internal", f"`{' '.join(command)}` failed: {said or f'status {done.returncode}'}", detail=done.returncode
        )
    return done.stdout


def explicit_variables(paths: Paths, others: Paths) -> dict[str, str]:
    """The variables that a broker needs to use these paths where it would use `others`. The runtime dir is the caller's
    business."""
    variables = {}
    for kind in ("state_dir", "config_dir"):
        if getattr(paths, kind) != getattr(others, kind):
            variables[f"XSESSIOND_{kind.upper()}"] = getattr(paths, kind)
    if paths.managed_config != others.managed_config:
        variables["XSESSIOND_MANAGED_CONFIG"] = paths.managed_config
    return variables


def user_runtime_dir() -> str | None:
    """The runtime dir of this user's logins, if there is one now."""
    from xsessiond.paths import RUN_USER, dir_fault

    path = f"{RUN_USER}/{os.geteuid()}"
    try:
        return path if dir_fault(os.lstat(path), os.geteuid(), private=False) is None else None
    except OSError:
        return None

"""What `install` and `uninstall` do: which harnesses are meant, what would change, and doing it.

Laws: everything is planned for all of them before anything is written; nothing is written that was not shown, and not
before the user said so. Refuses to know: single harnesses, options.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xsessionctl.client import ClientError
from xsessionctl.harness.base import Harness, Site
from xsessionctl.harness.finding import (
    Found,
    describe,
    find_command,
    find_data,
    find_ephemeral,
    find_program,
    settings_for,
)
from xsessionctl.harness.known import HARNESSES
from xsessionctl.harness.plans import Step, do, find_states, find_switches, plan_install, plan_uninstall
from xsessionctl.harness.receipts import Receipts
from xsessionctl.lifecycle import find_home, find_paths
from xsessiond.paths import PathError
from xsessiond.private_dirs import ensure_private_dir
from xsessiond.settings_reading import read_file

Document = dict[str, object]


@dataclass
class Job:
    """One harness of a call. steps: what is to be written. states: how each entry of ours is. problem: why nothing can
    be written or read."""

    harness: Harness
    found: Found
    site: Site
    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)
    problem: ClientError | None = None

    @property
    def state(self) -> str:
        """installed, outdated, partly, missing, or broken where its files cannot be read."""
        kinds = set(self.states.values())
        if self.problem is not None:
            return "broken"
        if "missing" in kinds:
            return "missing" if len(kinds) == 1 else "partly"
        return "outdated" if "outdated" in kinds else "installed"

    def to_document(self) -> Document:
        """As `--json` prints it, without what was asked for."""
        row: Document = {
            "name": self.harness.name,
            "title": self.harness.title,
            "program": self.found.path,
            "version": None if self.found.version is None else describe(self.found.version),
            "tested": None if self.found.version is None else self.harness.in_tested_range(self.found.version),
            "notes": list(self.notes),
        }
        return row if self.problem is None else {**row, **self.problem.to_json()}

    def to_status(self) -> Document:
        """The same with what there is."""
        return {**self.to_document(), "state": self.state, "entries": dict(self.states)}

    def to_changes(self) -> Document:
        """The same with what is or was to be written."""
        changes = [{"path": step.path, "diff": "\n".join(step.diff())} for step in self.steps]
        return {**self.to_document(), "changes": changes}


def find_jobs(names: Sequence[str], *, everywhere: bool, versions: bool = True) -> list[Job]:
    """The harnesses of these names; without any, those that are here, or all where `everywhere`. versions: whether to
    ask for them. Raises ClientError."""
    unknown = [name for name in names if name not in HARNESSES]
    if unknown:
        known = ", ".join(HARNESSES)
        raise ClientError(
            "usage", f"{unknown[0]!r} is none of {known}.", "docs/harnesses.md says how to set up any other MCP client."
        )
    environ = dict(os.environ)
    home = find_home(environ)
    site = Site(home, environ, find_command(environ), find_data(), settings_for(environ))
    jobs = []
    for name in dict.fromkeys(names or HARNESSES):
        harness = HARNESSES[name]
        found = find_program(harness, site, version=versions)
        if names or everywhere or found.path is not None:
            jobs.append(Job(harness, found, replace(site, version=found.version)))
    return jobs


def look(names: Sequence[str]) -> list[Job]:
    """What there is of ours in each. Raises ClientError."""
    jobs = find_jobs(names, everywhere=True)
    for job in jobs:
        try:
            job.states = find_states(job.harness, job.site)
            job.notes += find_switches(job.harness, job.site)
            if job.found.path is not None and job.state != "missing":
                job.notes += job.harness.inspect(job.site, job.found.path)
        except ClientError as problem:
            job.problem = problem
        _note_version(job)
    return jobs


def plan(names: Sequence[str], receipts: Receipts, *, remove: bool) -> list[Job]:
    """What has to be written. A harness whose files cannot be changed keeps no other from it. Raises ClientError where
    it is the only one."""
    jobs = find_jobs(names, everywhere=remove, versions=not remove)
    if not jobs:
        known = ", ".join(harness.title for harness in HARNESSES.values())
        raise ClientError("not_found", f"None of {known} is here.", "Name one to set it up all the same.")
    for job in jobs:
        try:
            job.steps = (plan_uninstall if remove else plan_install)(job.harness, job.site, receipts)
        except ClientError as problem:
            if len(jobs) == 1:
                raise
            job.problem = problem
        if not remove:
            _note_version(job)
            job.notes += [*job.harness.advice(job.site), *find_switches(job.harness, job.site)]
    return jobs


def carry_out(jobs: Sequence[Job], receipts: Receipts) -> None:
    """Writes it. Raises ClientError, which says what was written before."""
    written: list[str] = []
    for job in jobs:
        for step in job.steps:
            try:
                do(step, receipts)
            except ClientError as problem:
                if not written:
                    raise
                done = f"{problem.text} Before that, {', '.join(written)} was written."
                raise ClientError(problem.code, done, problem.hint) from None
            written.append(step.path)


def make_folders() -> list[str]:
    """Makes the folder that the broker's socket will be in: a sandbox lets through only what is there when it begins.
    Returns what is wrong with it."""
    try:
        ensure_private_dir(find_paths().runtime_dir)
    except PathError as problem:
        return [problem.reason]
    except OSError as error:
        return [f"{error.filename} cannot be made: {error.strerror}."]
    return []


def lacks_class(job: Job) -> bool:
    """Whether nobody has said yet what the sessions of a harness are that cannot tell it."""
    if job.harness.class_told or not job.steps:
        return False
    found = read_file(find_paths().config_file)
    return found is None or class_path(job) not in found.values


def class_path(job: Job) -> tuple[str, ...]:
    """The setting that says it."""
    return ("harness", job.harness.name, "assume_class")


def open_receipts() -> Receipts:
    """What was written earlier. Raises ClientError."""
    return Receipts(find_paths().state_dir)


def warn_of_place(jobs: Sequence[Job]) -> list[str]:
    """What is wrong with the place that our own program is in."""
    found = find_ephemeral(jobs[0].site.command) if jobs else None
    return [] if found is None else [found]


def _note_version(job: Job) -> None:
    found, harness = job.found, job.harness
    if found.path is None:
        job.notes.append(f"{harness.title} was not found on this machine.")
    elif found.version is None:
        job.notes.append(f"{found.path} does not say its version.")
    elif not harness.in_tested_range(found.version):
        oldest, newest = map(describe, harness.tested)
        tested = oldest if oldest == newest else f"{oldest} to {newest}"
        job.notes.append(f"Version {describe(found.version)} is outside of what was tested ({tested}).")

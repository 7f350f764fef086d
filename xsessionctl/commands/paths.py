"""`xsessionctl paths`: where everything is."""

from __future__ import annotations

import os

import click

from xsessionctl.lifecycle import find_paths
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.output import Sink
from xsessionctl.render import one_line, rows_of
from xsessionctl.sandboxes import tell_sandboxes
from xsessionctl.settings import project_files

NAMES = (
    "runtime_dir",
    "broker_socket",
    "lock_file",
    "session_dir",
    "state_dir",
    "store_file",
    "log_file",
    "bodies_dir",
    "backup_dir",
    "config_dir",
    "config_file",
    "passphrase_file",
    "managed_config",
)
PROJECT = "project_config"
"""The one name that stands for several files: those of the project that this folder is in."""


@verb(
    "paths",
    examples={
        "xsessionctl paths": "the files, and which rule put them there",
        "xsessionctl paths --json | jq -r .log_file": "one of them",
        "xsessionctl paths --sandbox": "what Claude Code's and Codex's sandboxes must let through",
    },
    exits=(9,),
)
@click.option("--sandbox", is_flag=True, help="The rules that a harness's sandbox needs, to copy into its settings.")
def command(setup: Setup, *, sandbox: bool) -> int:
    """Where every file and socket is, and why there.

    The answer is the same in a login shell, in cron, over ssh and in a service; but for project_config, which are the
    settings files of the project that this folder is in. Nothing is made or changed by asking.
    """
    if sandbox:
        return conclude(lambda: tell_sandboxes(find_paths()), _sandbox_lines, setup.sink, as_json=setup.as_json)
    return conclude(_paths, _lines, setup.sink, as_json=setup.as_json)


def _paths() -> dict[str, object]:
    paths = find_paths()
    return {
        **{name: getattr(paths, name) for name in NAMES},
        PROJECT: project_files(),
        "sources": paths.sources,
        "notes": list(paths.notes),
    }


def _lines(document: Document, sink: Sink) -> list[str]:
    sources, notes, project = document["sources"], document["notes"], document[PROJECT]
    assert isinstance(sources, dict)
    assert isinstance(notes, list)
    assert isinstance(project, list)
    width = max(map(len, (*NAMES, PROJECT)))
    lines = []
    for name in NAMES:
        why = sink.paint(f"  ({one_line(sources[name])})", "dim") if name in sources else ""
        lines.append(f"{name:<{width}}  {one_line(document[name])}{why}")
    for path in project:
        state = "" if os.path.lexists(path) else sink.paint("  (not there)", "dim")
        lines.append(f"{PROJECT:<{width}}  {one_line(path)}{state}")
    return lines + [one_line(note) for note in notes]


def _sandbox_lines(document: Document, sink: Sink) -> list[str]:
    lines = [one_line(document["note"])]
    for what in ("connect", "read"):
        found = document[what]
        assert isinstance(found, list)
        lines += ["", f"to {what}:", *(f"  {one_line(path)}" for path in found)]
    for rule in rows_of(document, "rules"):
        lines += ["", sink.paint(f"{one_line(rule['harness'])}, in {one_line(rule['file'])}:", "bold")]
        lines += [f"  {one_line(line)}" for line in str(rule["text"]).splitlines()]
        if rule.get("note"):
            lines.append(f"  {one_line(rule['note'])}")
    return lines

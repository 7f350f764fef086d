"""Where the files are in this environment and why, and whether another environment of the same user finds others."""

from __future__ import annotations

from collections.abc import Iterator

from xsessionctl.doctor.findings import Finding, Look, read_status
from xsessiond.paths import PathError, Paths, resolve_paths

KINDS = {"state_dir": "store", "config_dir": "settings"}
"""Directories that two environments must agree on, and what is in them. On the runtime dir they need not: a broker
leaves word of where it runs."""


def examine(look: Look) -> Iterator[Finding]:
    """Yields what is found."""
    paths = look.rule
    places = ", ".join(
        f"{what} in {getattr(paths, kind)} ({paths.sources[kind]})"
        for kind, what in (("runtime_dir", "sockets"), *KINDS.items())
    )
    yield Finding("paths", "ok", f"Here: {places}.")
    for note in paths.notes:
        yield Finding(
            "paths", "note", note, "The next place of the rule is used instead.", "Unset the variable, or set it right."
        )
    if look.paths.runtime_dir != paths.runtime_dir and look.broker():
        where = f"The broker's sockets are in {look.paths.runtime_dir}, where it found a place when it started."
        yield Finding("paths", "note", where, "Clients find it by the word that it left in the state directory.")
    yield from _compare(look)


def _compare(look: Look) -> Iterator[Finding]:
    """What cron, a service or `env -i` would find, which know none of the variables of a shell."""
    paths = look.rule
    try:
        bare = resolve_paths({})
    except PathError:
        return
    differ = [
        kind
        for kind in KINDS
        if getattr(bare, kind) != getattr(paths, kind) and not paths.sources[kind].startswith("XSESSIOND_")
    ]
    if not differ:
        return
    variables = ", ".join(sorted({paths.sources[kind].replace("default", "HOME") for kind in differ}))
    places = " and ".join(f"the {KINDS[kind]} in {getattr(bare, kind)}" for kind in differ)
    two = _second_broker(look, bare) if "state_dir" in differ else None
    if two is not None:
        yield Finding(
            "paths",
            "problem",
            f"Two brokers of yours run: pid {two[0]} here, and pid {two[1]} with the store in {bare.state_dir}.",
            f"One was started without {variables}. The sessions of one do not see those of the other.",
            f"Set {variables} everywhere or nowhere, then stop both: kill {two[0]} {two[1]}",
        )
    else:
        yield Finding(
            "paths",
            "note",
            f"Programs without {variables} (cron, services, `env -i`) look for {places}.",
            "They would start a broker of their own, whose sessions and yours do not see each other.",
            f"Set {variables} everywhere or nowhere.",
        )


def _second_broker(look: Look, bare: Paths) -> tuple[object, object] | None:
    status, _ = read_status(bare)
    theirs = status.get("broker") if status else None
    ours = look.broker()
    if not isinstance(theirs, dict) or not ours or theirs.get("instance") == ours.get("instance"):
        return None
    return ours.get("pid"), theirs.get("pid")

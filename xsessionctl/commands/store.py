"""`xsessionctl store`: whether the store is sound, and a copy of it."""

from __future__ import annotations

import os
from time import gmtime, strftime

import click

from xsessionctl.client import ClientError
from xsessionctl.lifecycle import find_paths
from xsessionctl.options import Setup, family, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.output import Sink
from xsessionctl.render import one_line
from xsessionctl.store_program import run_store_program
from xsessiond.paths import PathError

PATIENCE_S = 300.0
"""A large store on a slow disk is read through in minutes."""


@verb(
    "check",
    examples={"xsessionctl store check": "reads all of it; 0 sound, 1 damaged or of a newer version"},
    exits=(3, 7, 9),
    timeout=PATIENCE_S,
)
def check(setup: Setup) -> int:
    """Read the whole store, and say whether it is sound.

    Nothing in it is changed, and a broker that runs goes on meanwhile. A store that a newer version wrote is said to be
    sound if it is, and gives 1, since this version cannot use it.
    """
    return conclude(lambda: _check(setup.deadline), _checked, setup.sink, as_json=setup.as_json, code=_code)


@verb(
    "backup",
    examples={
        "xsessionctl store backup": "into the state directory, named by the time",
        "xsessionctl store backup /media/stick/xsession.db": "somewhere else",
    },
    exits=(3, 5, 7, 9),
    timeout=PATIENCE_S,
)
@click.argument("file", required=False, metavar="[FILE]", type=click.Path(dir_okay=False))
def backup(setup: Setup, *, file: str | None) -> int:
    """Copy the store, as it is at one moment.

    A broker that runs goes on meanwhile. The copy is one file that only you can read, is checked before it gets its
    name, and replaces nothing. It has all messages in clear text, as the store has.

    To go back to it: `xsessionctl stop`, move `store.db`, `store.db-wal` and `store.db-shm` out of the state directory,
    and copy it there as `store.db`.
    """
    return conclude(lambda: _back_up(file, setup.deadline), _backed_up, setup.sink, as_json=setup.as_json)


def _check(deadline: float) -> Document:
    return run_store_program(["check", find_paths().store_file], deadline)


def _code(document: Document) -> int:
    return 0 if document.get("usable") is True else 1


def _checked(document: Document, sink: Sink) -> list[str]:
    word = sink.paint("sound", "green") if document.get("ok") else sink.paint("damaged", "red")
    return [f"{one_line(document.get('path'))}: {word}", *_facts(document)]


def _facts(document: Document) -> list[str]:
    lines = [f"  {one_line(document.get('detail'))}"] if not document.get("usable") else []
    if document.get("messages") is not None:
        messages, waiting, sessions, size, version = (
            one_line(document.get(key)) for key in ("messages", "waiting", "sessions", "bytes", "format")
        )
        lines.append(
            f"  messages: {messages} ({waiting} waiting), sessions: {sessions}, bytes: {size}, format: {version}"
        )
    return lines


def _back_up(file: str | None, deadline: float) -> Document:
    from xsessiond.private_dirs import ensure_private_dir

    paths = find_paths()
    if file is None:
        try:
            ensure_private_dir(paths.backup_dir)
        except PathError as problem:
            raise ClientError("refused", problem.reason) from None
        except OSError as problem:
            raise ClientError("refused", f"{problem.filename}: {problem.strerror}.") from None
        file = f"{paths.backup_dir}/store-{strftime('%Y%m%dT%H%M%SZ', gmtime())}.db"
    return run_store_program(["backup", paths.store_file, os.path.abspath(file)], deadline)


def _backed_up(document: Document, sink: Sink) -> list[str]:
    return [f"Copied to {one_line(document.get('path'))}", *_facts(document)]


command = family("store", "Whether the store is sound, and a copy of it.", [check, backup])

"""`xsessionctl config`: what is in force and where that was written, and changing it."""

from __future__ import annotations

import os
import sys

import click
from click.shell_completion import CompletionItem

from xsessionctl.client import ClientError
from xsessionctl.editor import edit_text
from xsessionctl.lifecycle import find_paths
from xsessionctl.options import Setup, family, verb
from xsessionctl.outcome import Document, conclude, fail
from xsessionctl.output import Sink, line_width
from xsessionctl.render import one_line, rows_of
from xsessionctl.settings import (
    applies_later,
    change_value,
    check_files,
    check_text,
    install_text,
    read_value,
    read_values,
    require_human,
)
from xsessionctl.table import GAP, lay_out
from xsessionctl.user_file import UserFile
from xsessiond.core.errors import EXIT_CODES


def _complete_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from xsessiond.core.setting_keys import KEYS

    return [CompletionItem(key.name, help=key.meaning) for key in KEYS if key.name.startswith(incomplete)]


def _complete_value(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from xsessiond.core.setting_keys import find_key
    from xsessiond.core.toml_spots import read_key

    key = find_key(read_key(str(ctx.params.get("key"))) or ())
    words = () if key is None else key.words or (("true", "false") if isinstance(key.default, bool) else ())
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def _code(document: Document) -> int:
    return 0 if document.get("ok") else EXIT_CODES["bad_config"]


# -- looking -----------------------------------------------------------------------------------------------------------


@verb(
    "show",
    examples={
        "xsessionctl config show": "every setting with the file and line that it comes from",
        "xsessionctl config show --json | jq .problems": "only what is wrong",
    },
    exits=(7, 9, 11),
)
def show(setup: Setup) -> int:
    """The settings in force, and where each was written.

    The administrator's file goes first, then what a session was launched with (XSESSIOND_INBOUND), then your file. A
    project's file can only tighten; `xsessionctl explain` says what holds between two sessions. With settings that are
    wrong the exit code is 11.
    """
    return conclude(lambda: read_values(setup.deadline), _values, setup.sink, as_json=setup.as_json, code=_code)


def _values(document: Document, sink: Sink) -> list[str]:
    rows = []
    for row in rows_of(document, "values"):
        where = one_line(row.get("where")) or one_line(row.get("source"))
        rows.append([one_line(row.get("key")), one_line(row.get("value")) or "(unset)", where])
    table = lay_out(["SETTING", "VALUE", "FROM"], rows, width=line_width(), elastic={1: 12}, right=set())
    lines = [sink.paint(GAP.join(table[0]), "dim")]
    for cells in table[1:]:
        line = GAP.join(cells)
        lines.append(sink.paint(line, "dim") if cells[2] == "default" else line)
    return lines + [f"! {one_line(problem)}" for problem in _texts(document)]


def _texts(document: Document) -> list[object]:
    problems = document.get("problems")
    return problems if isinstance(problems, list) else []


@verb(
    "get",
    examples={
        "xsessionctl config get inbound.policy": "its value alone, nothing where it is unset",
        "xsessionctl config get harness.gemini.assume_class --json": "with the file and line",
    },
    exits=(7, 9),
)
@click.argument("key", shell_complete=_complete_key)
def get(setup: Setup, *, key: str) -> int:
    """One setting as it is in force."""
    return conclude(lambda: read_value(key, setup.deadline), _value, setup.sink, as_json=setup.as_json)


def _value(document: Document, sink: Sink) -> list[str]:
    return [] if document.get("value") is None else [one_line(document["value"])]


@verb(
    "check",
    examples={
        "xsessionctl config check": "the administrator's file, yours, and this folder's project",
        "xsessionctl config check .xsessiond.toml": "one file; a project's by its name",
    },
    exits=(3, 11),
    timed=False,
)
@click.argument("file", required=False, type=click.Path())
def check(setup: Setup, *, file: str | None) -> int:
    """What is wrong with settings files, by line and column.

    No broker is needed. The exit code is 11 if anything is an error.
    """
    return conclude(lambda: check_files(file), _problems, setup.sink, as_json=setup.as_json, code=_code)


def _problems(document: Document, sink: Sink) -> list[str]:
    found = document.get("files")
    files = found if isinstance(found, list) else []
    lines = []
    for problem in rows_of(document, "problems"):
        place = ":".join(one_line(problem.get(part)) for part in ("path", "line", "column"))
        level = one_line(problem.get("level"))
        lines.append(
            f"{place}: {sink.paint(level, 'red' if level == 'error' else 'yellow')}: {one_line(problem['text'])}"
        )
    if lines:
        return lines
    return [f"{one_line(file)}: no problems." for file in files] or ["There is no settings file; the defaults hold."]


# -- changing ----------------------------------------------------------------------------------------------------------


@verb(
    "set",
    examples={
        "xsessionctl config set inbound.policy hold": "what comes for your sessions waits for you",
        "xsessionctl config set --unset inbound.policy": "as if it had never been set",
        "xsessionctl config set approvals.notify notify-send {title} {text}": "a command, word by word",
    },
    exits=(7, 9, 10, 11),
)
@click.argument("key", shell_complete=_complete_key)
@click.argument("value", nargs=-1, shell_complete=_complete_value)
@click.option("--unset", is_flag=True, help="Take the setting out.")
def set_(setup: Setup, *, key: str, value: tuple[str, ...], unset: bool) -> int:
    """Change one setting in your file, at once.

    Only a human may. Comments, order and the rest of the file stay as they are. What running sessions and held messages
    get from it, they get before this returns.
    """
    if bool(value) == unset:
        what = "Give a value, or --unset without one." if unset else "Give the value, or --unset."
        return fail(
            ClientError("usage", what, "See `xsessionctl config set --help`."), setup.sink, as_json=setup.as_json
        )
    words = None if unset else value
    return conclude(lambda: change_value(key, words, setup.timeout), _changed, setup.sink, as_json=setup.as_json)


def _changed(document: Document, sink: Sink) -> list[str]:
    key, value = one_line(document.get("key")), one_line(document.get("value")) or "(unset)"
    where = one_line(document.get("where")) or one_line(document.get("source"))
    lines = [f"{key} is {value} ({where})."]
    if not document.get("in_force"):
        lines.append(f"{one_line(document.get('file'))} was changed, but what stands there goes first.")
    elif applies_later(document):
        lines.append(f"It has an effect {one_line(document.get('applies'))}.")
    return lines


@verb(
    "edit",
    examples={"xsessionctl config edit": "your file in $VISUAL or $EDITOR"},
    exits=(7, 9, 10, 11),
)
def edit(setup: Setup) -> int:
    """Edit your settings file in your editor.

    Only a human may. A copy is edited, and checked when you leave the editor; only then it is put in the place of your
    file, and is in force when this returns. With something wrong you are asked whether to go on editing.
    """
    return conclude(lambda: _edit(setup), _edited, setup.sink, as_json=setup.as_json, code=_code)


def _edit(setup: Setup) -> Document:
    require_human(setup.timeout)
    path = find_paths().config_file
    file = UserFile(path)
    text = file.text
    while True:
        text = edit_text(text, os.path.basename(path))
        checked = check_text(text, path)
        if not rows_of(checked, "problems"):
            break
        setup.sink.lines(_problems(checked, setup.sink))
        if not sys.stdin.isatty():
            raise ClientError("bad_config", "The new settings are wrong. Nothing was changed.", None)
        answer = click.prompt("Edit again, save anyway, or give up", type=click.Choice(["e", "s", "g"]), default="e")
        if answer == "s":
            break
        if answer == "g":
            raise ClientError("bad_config", "Given up. Nothing was changed.", None)
    if text == file.text:
        return {**check_text(text, path), "changed": False, "file": path}
    found = install_text(file, text, setup.timeout)
    return {"ok": found.get("ok"), "problems": _texts(found), "changed": True, "file": path}


def _edited(document: Document, sink: Sink) -> list[str]:
    if not document.get("changed"):
        return ["Nothing was changed."]
    return [
        f"{one_line(document.get('file'))} is in force.",
        *(f"! {one_line(problem)}" for problem in _texts(document)),
    ]


command = family("config", "The settings: what is in force and where it was written.", [show, get, set_, check, edit])

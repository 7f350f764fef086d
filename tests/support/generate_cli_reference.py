"""Writes docs/cli.md from the command tree: `python -m tests.support.generate_cli_reference`.

A test compares the file with what this makes, so that the document cannot drift from the program.
"""

from __future__ import annotations

from pathlib import Path

import click

from xsessionctl.cli import PROGRAM, VERBS, tree
from xsessionctl.options import EXIT_MEANINGS, Family, Verb
from xsessiond.core.errors import EXIT_CODES

TARGET = Path(__file__).parents[2] / "docs" / "cli.md"

HEAD = """\
# The command line

<!-- Made by `python -m tests.support.generate_cli_reference`; change the verbs, not this file. -->

`xsessionctl VERB …`. `xsessionctl --version` names this program's version and the running broker's.

All verbs:

- `--json` prints one JSON document, alone on standard output, in ASCII; a failure too, as `{"error": {…}}`. Without it
  a failure goes to standard error: what happened, what it could have meant, and what to do next.
- `--timeout S` is the deadline. A verb that needs the broker starts it, except `status`, `stop`, `paths`,
  `config check`, `completion` and `--version`.
- `--color auto|always|never`: `auto` colours on a terminal only, and not when `NO_COLOR` is set or `TERM` is `dumb`.
  What sessions wrote is shown with its control characters as escapes, wherever it goes.
- A reader that goes away early (`| head`) changes nothing about the exit code.

A session is named by its name, `name [ref]`, its ref, its id, or its harness's own session id. Nothing is guessed: what
is not exact, or could mean several, is refused with the candidates.
"""


def make_reference() -> str:
    """The whole document."""
    parts = [HEAD, _exit_codes()]
    with click.Context(tree, info_name=PROGRAM) as context:
        for name in VERBS:
            found = tree.get_command(context, name)
            if isinstance(found, Family):
                parts += _family(context, name, found)
            else:
                assert isinstance(found, Verb)
                parts.append(_section(context, name, found))
    return "\n".join(parts)


def every_verb() -> dict[str, Verb]:
    """All verbs by what is typed: `list`, `trust list`."""
    found: dict[str, Verb] = {}
    for name in VERBS:
        command = tree.get_command(click.Context(tree, info_name=PROGRAM), name)
        members: dict[str, click.Command | None] = {name: command}
        if isinstance(command, Family):
            members = {f"{name} {word}": member for word, member in command.commands.items()}
        for words, member in members.items():
            assert isinstance(member, Verb)
            found[words] = member
    return found


def _family(parent: click.Context, name: str, family: Family) -> list[str]:
    """The sections of the verbs under one word."""
    with click.Context(family, info_name=name, parent=parent) as context:
        parts = []
        for word, member in family.commands.items():
            assert isinstance(member, Verb)
            parts.append(_section(context, word, member))
        return parts


def _exit_codes() -> str:
    lines = ["## Exit codes", "", "| code | meaning | error codes |", "| --- | --- | --- |"]
    for code, meaning in EXIT_MEANINGS.items():
        errors = " ".join(f"`{error}`" for error, exit_code in EXIT_CODES.items() if exit_code == code)
        lines.append(f"| {code} | {meaning} | {errors} |")
    lines += ["| 130 | interrupted by Ctrl-C | |", ""]
    return "\n".join(lines)


def _section(parent: click.Context, name: str, verb: Verb) -> str:
    with click.Context(verb, info_name=name, parent=parent) as context:
        usage = " ".join([context.command_path, *verb.collect_usage_pieces(context)])
    lines = [
        f"## {context.command_path.removeprefix(PROGRAM + ' ')}",
        "",
        f"`{usage}`",
        "",
        *(line.strip() for line in (verb.help or "").strip().splitlines()),
        "",
    ]
    lines += ["| option | |", "| --- | --- |"]
    lines += [f"| `{_words(param)}` | {param.help} |" for param in verb.params if isinstance(param, click.Option)]
    lines += ["", "```sh"]
    for command, purpose in verb.examples:
        lines += [f"# {purpose}", command]
    lines += ["```", "", "Exits with " + ", ".join(map(str, (0, 1, 2, *verb.exits))) + ".", ""]
    return "\n".join(lines)


def _words(option: click.Option) -> str:
    """The option as it is typed."""
    names = ", ".join(option.opts)
    if option.is_flag:
        return names
    return f"{names} {_value(option)}"


def _value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return "\\|".join(map(str, option.type.choices))
    return option.metavar or "VALUE"


if __name__ == "__main__":
    TARGET.write_text(make_reference(), encoding="utf-8")

"""The full command line: a tree whose verbs are imported when they are asked for, one module of `commands` each.

Laws: what a verb needs is imported by that verb alone. Wrong usage is a failure like any other: a sentence with the
way out, or with `--json` a document, and exit code 2. Refuses to know: what the verbs do.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import click

from xsessionctl.client import ClientError
from xsessionctl.options import Family
from xsessionctl.outcome import INTERRUPTED, fail
from xsessionctl.output import Sink, write_text

PROGRAM = "xsessionctl"

VERBS = {
    "list": "Who is running, and how mail reaches each.",
    "whoami": "Who you are to the others.",
    "send": "Send a message to a session.",
    "check": "What became of a message.",
    "inbox": "What waits for you.",
    "log": "What was said, and what became of it.",
    "hold-queue": "What is held until you decide.",
    "show": "All there is to know about a held message.",
    "approve": "Let held messages go to their receivers.",
    "deny": "Turn held messages away.",
    "trust": "What you approved for later messages too.",
    "explain": "Whether a message would get through, and why.",
    "passphrase": "Set the passphrase for your decisions.",
    "grant": "Give one container one session's socket, and nothing else.",
    "rename": "Give a session another name.",
    "install": "Put this into your coding agents.",
    "uninstall": "Take it out of your coding agents again.",
    "status": "How the broker is.",
    "doctor": "Look for what is wrong, and say what mends it.",
    "start": "Start the broker, if it does not run.",
    "stop": "Stop the broker.",
    "restart": "Have the broker of this installation go on where the running one is.",
    "service": "The broker as a service of your login.",
    "config": "The settings: what is in force and where it was written.",
    "store": "Whether the store is sound, and a copy of it.",
    "paths": "Where every file and socket is, and why there.",
    "demo": "See it work: sessions meet, write and answer, and you decide.",
    "completion": "Completion for your shell, with live names.",
    "run": "Run a harness that nothing but typing can wake.",
    "mcp": "The MCP server that a harness starts.",
    "hook": "What a harness runs as a command hook.",
    "bridge": "What the plugin of a harness starts.",
}
"""Every verb with its line in the overview, in the order of the overview."""
OF_VERBS = {"--json": "--json", "--color": "--color never", "--timeout": "--timeout 5"}
"""The options that all verbs have, as one would write them."""


class Tree(Family):
    """The verbs, loaded one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the verbs."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb, imported now; None if there is none of that name."""
        if cmd_name not in VERBS:
            return None
        found = import_module(f"xsessionctl.commands.{cmd_name.replace('-', '_')}").command
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The overview, without importing what it names."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


def _say_versions(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click calls it so
    if not wanted or ctx.resilient_parsing:
        return
    from xsessionctl.client import deadline_in
    from xsessionctl.lifecycle import find_paths
    from xsessionctl.render import one_line, part_of
    from xsessionctl.requests import ask_running
    from xsessiond import __version__

    broker = "not running"
    try:
        status = ask_running(find_paths(), "status", {}, deadline_in(2.0))
        if status is not None:
            answer = part_of(status, "broker")
            broker = f"{one_line(answer.get('version'))} (pid {one_line(answer.get('pid'))})"
    except ClientError as problem:
        broker = f"unknown: {one_line(problem.text)}"
    Sink().lines([f"xsessionctl {__version__}", f"xsessiond {broker}"])
    ctx.exit()


@click.command(
    cls=Tree,
    name=PROGRAM,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    subcommand_metavar="VERB ...",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_say_versions,
    help="This program's and the broker's.",
)
def tree() -> None:
    """See, write to and steer the coding-agent sessions on this machine.

    \b
    xsessionctl list                     who is there
    xsessionctl send api "please stop"   write to the session called api
    xsessionctl VERB --help              more about a verb, with an example
    """


def run(words: Sequence[str]) -> int:
    """Does what `words` (without the program's name) ask. Returns the exit code."""
    if words[:1] == ["help"]:  # as many programs have it: of a verb, or of all
        words = [*words[1:2], "--help"]
    try:
        answer = tree.main(args=list(words), prog_name=PROGRAM, standalone_mode=False)
    except click.UsageError as problem:
        return _refuse_usage(problem, as_json="--json" in words)
    except click.ClickException as problem:
        return _refuse_usage(click.UsageError(problem.format_message()), as_json="--json" in words)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return answer if isinstance(answer, int) else 0


def _refuse_usage(problem: click.UsageError, *, as_json: bool) -> int:
    # click shows the help itself when nothing was asked for; that is an answer and no failure
    if isinstance(problem, click.exceptions.NoArgsIsHelpError):
        write_text(sys.stdout, problem.format_message() + "\n")
        return 2
    where = problem.ctx.command_path if problem.ctx else PROGRAM
    text = " ".join(line.strip() for line in problem.format_message().splitlines())
    if isinstance(problem, click.NoSuchOption) and where == PROGRAM and problem.option_name in OF_VERBS:
        text = f"{problem.option_name} stands after the verb, as in `{PROGRAM} list {OF_VERBS[problem.option_name]}`."
    return fail(ClientError("usage", text, f"See `{where} --help`."), Sink(), as_json=as_json)

"""What all verbs have in common: their options, the shape of their help, and the names that the shell completes.

Laws: every verb has an example and says how it exits; a test walks the tree and holds them to it. Refuses to know:
single verbs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec

import click
from click.shell_completion import CompletionItem

from xsessionctl.client import deadline_in
from xsessionctl.fast import TIMEOUT_S
from xsessionctl.output import Sink, write_text

EXIT_MEANINGS = {
    0: "done",
    1: "internal fault, or the store is not well",
    2: "usage: wrong words, or nothing that can be sent",
    3: "not found or not running",
    4: "ambiguous, moved or taken name",
    5: "refused, denied or expired",
    6: "held: a human must decide",
    7: "no answer in time",
    8: "rate, duplicate, hops, exchange, or a full queue",
    9: "no broker",
    10: "not permitted",
    11: "bad configuration",
}
"""The exit codes, in words. Which code a refusal has is in `core.errors`."""
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
COMPLETION_S = 0.5
"""A shell waits no longer than this for names."""

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Setup:
    """The common options of one call. timeout: seconds. deadline: its end, on the monotonic clock."""

    sink: Sink
    as_json: bool
    timeout: float
    deadline: float


class Helpful(click.Command):
    """A command whose help is written as all else is: a reader that goes away is no fault."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """As click's own, but for how it is written."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _show_help
        return option


def _show_help(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click calls it so
    if wanted and not ctx.resilient_parsing:
        write_text(sys.stdout, ctx.get_help() + "\n")
        ctx.exit()


class Family(Helpful, click.Group):
    """Verbs under one word."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's own, but says which verb was probably meant."""
        verbs = self.list_commands(ctx)
        if args and args[0] not in verbs and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], verbs, n=1)
            meant = f" Did you mean `{near[0]}`?" if near else ""
            raise click.UsageError(f"There is no verb {args[0]!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)


def family(name: str, text: str, members: list[Verb]) -> Family:
    """Makes verbs into those of two words: `name` and their own. text: its help."""
    return Family(
        name,
        commands={str(member.name): member for member in members},
        context_settings={"help_option_names": ["-h", "--help"]},
        help=text,
        no_args_is_help=True,
        subcommand_metavar="VERB ...",
    )


class Verb(Helpful):
    """A verb of the tree. examples: whole command lines with what they do. exits: codes it can end with, besides 0, 1
    and 2.
    """

    examples: tuple[tuple[str, str], ...] = ()
    exits: tuple[int, ...] = ()

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples and exit codes, below the options."""
        with formatter.section("Examples"):
            formatter.write_dl(list(self.examples), col_max=46)
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), EXIT_MEANINGS[code]) for code in (0, 1, 2, *self.exits)])


def verb(
    name: str, *, examples: dict[str, str], exits: tuple[int, ...] = (), timeout: float = TIMEOUT_S, timed: bool = True
) -> Callable[[Callable[Concatenate[Setup, P], int]], Verb]:
    """Makes a function into a verb. It gets a `Setup` first and returns the exit code. timeout: the default deadline
    in seconds.
    """

    def decorate(function: Callable[Concatenate[Setup, P], int]) -> Verb:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> int:
            as_json, color, seconds = kwargs.pop("as_json"), kwargs.pop("color"), kwargs.pop("timeout", timeout)
            assert isinstance(as_json, bool)
            assert isinstance(color, str)
            assert isinstance(seconds, int | float)
            return function(Setup(Sink(color), as_json, float(seconds), deadline_in(float(seconds))), *args, **kwargs)

        decorated: Callable[..., int] = call
        for option in reversed(_common(timeout, timed=timed)):
            decorated = option(decorated)
        made = click.command(name, cls=Verb, context_settings={"help_option_names": ["-h", "--help"]})(decorated)
        common = 3 if timed else 2
        made.params = made.params[common:] + made.params[:common]  # its own options first in its help
        made.examples, made.exits = tuple(examples.items()), exits
        return made

    return decorate


def _common(timeout: float, *, timed: bool) -> list[Callable[[Callable[..., int]], Callable[..., int]]]:
    options: list[Callable[[Callable[..., int]], Callable[..., int]]] = [
        click.option("--json", "as_json", is_flag=True, help="One JSON document, alone on standard output."),
        click.option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            help="auto: on a terminal, unless NO_COLOR is set.",
        ),
    ]
    if timed:
        options.append(
            click.option(
                "--timeout",
                type=float,
                callback=between(0.001, 86400),
                default=timeout,
                metavar="S",
                help=f"Give up after S seconds ({timeout:g}).",
            )
        )
    return options


def between(least: float, most: float) -> Callable[[click.Context, click.Parameter, float | None], float | None]:
    """A callback that holds an option to a number of seconds within these bounds."""

    def check(ctx: click.Context, param: click.Parameter, seconds: float | None) -> float | None:
        if seconds is not None and not least <= seconds <= most:
            raise click.BadParameter(f"{seconds} is not between {least:g} and {most:g} seconds.", ctx, param)
        return seconds

    return check


def read_duration(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """A callback that makes a length of time (30s, 10m, 2h, 7d) into seconds."""
    if text is None:
        return None
    count, unit = text.strip()[:-1], text.strip()[-1:]
    if unit in UNITS_S and count.isascii() and count.isdecimal() and len(count) <= 9 and int(count):
        return float(int(count) * UNITS_S[unit])
    raise click.BadParameter(f"{text!r} is no length of time. Write 30s, 10m, 2h or 7d.", ctx, param)


def complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of live sessions, and their refs once something was typed."""
    from xsessionctl.render import folder, one_line, rows_of

    items = []
    for session in rows_of(_ask_for_completion("list"), "sessions"):
        about = f"{one_line(session.get('state'))}, {folder(session.get('cwd'))}"
        words = [one_line(session.get("name"))]
        if incomplete:
            words.append(one_line(session.get("ref")))
        items += [CompletionItem(word, help=about) for word in words if word and word.startswith(incomplete)]
    return items


def complete_held(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of held messages, as short as they are in the table; whole once more than that was typed."""
    from xsessionctl.held import held_of, shorten_ids
    from xsessionctl.render import called, part_of

    held = held_of(_ask_for_completion("hold_queue"))
    items = []
    for whole, short in shorten_ids(held).items():
        route = f"{called(part_of(held[whole], 'from'))} to {called(part_of(held[whole], 'to'))}"
        word = short if short.startswith(incomplete) else whole
        items += [CompletionItem(word, help=route)] if word.startswith(incomplete) else []
    return items


def complete_trust(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of remembered approvals."""
    from xsessionctl.render import called, one_line, part_of, rows_of

    return [
        CompletionItem(word, help=f"{called(part_of(trust, 'from'))} to {called(part_of(trust, 'to'))}")
        for trust in rows_of(_ask_for_completion("trusts"), "trusts")
        if (word := one_line(trust.get("id"))).startswith(incomplete)
    ]


def _ask_for_completion(method: str) -> dict[str, object]:
    """The answer of a running broker, nothing without one. None is started for it."""
    from xsessionctl.client import ClientError
    from xsessionctl.lifecycle import find_paths
    from xsessionctl.requests import ask_running

    try:
        return ask_running(find_paths(), method, {}, deadline_in(COMPLETION_S)) or {}
    except ClientError:
        return {}

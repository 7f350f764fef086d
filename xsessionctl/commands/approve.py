"""`xsessionctl approve`: held messages go on to their receivers."""

from __future__ import annotations

import click

from xsessionctl.deciding import conclude_decision
from xsessionctl.options import Setup, complete_held, read_duration, verb


@verb(
    "approve",
    examples={
        "xsessionctl approve m-5f0c": "this one",
        "xsessionctl approve m-5f0c --trust session": "and what follows between these two, while both run",
        "xsessionctl approve --all": "whatever is held now",
    },
    exits=(3, 4, 5, 7, 9, 10),
)
@click.argument("message_ids", metavar="[ID]...", nargs=-1, shell_complete=complete_held)
@click.option("--all", "everything", is_flag=True, help="All that is held now.")
@click.option(
    "--trust",
    type=click.Choice(["once", "session", "pair"]),
    default="once",
    help="once (the default): only these. session: also what follows between the two, until one of them ends. pair: "
    "until you revoke it.",
)
@click.option(
    "--for", "for_s", callback=read_duration, metavar="DUR", help="With --trust: for so long, as in 2h or 7d."
)
def command(setup: Setup, *, message_ids: tuple[str, ...], everything: bool, trust: str, for_s: float | None) -> int:
    """Let held messages go to their receivers.

    Only a human may: from a terminal that no agent's program started. Each receiver sees in the message that it was
    held and that you approved it. IDs may be shortened to their first digits, at least four. If one of several cannot
    be approved the others are, and the exit code is that of the first that was not.
    """
    if for_s is not None and trust == "once":
        raise click.UsageError("--for goes with --trust session or --trust pair.")
    params: dict[str, object] = {"verdict": "approve", "trust": trust}
    if for_s is not None:
        params["for_s"] = for_s
    return conclude_decision(setup, params, message_ids, everything=everything)

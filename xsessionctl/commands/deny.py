"""`xsessionctl deny`: held messages are turned away."""

from __future__ import annotations

import click

from xsessionctl.deciding import conclude_decision
from xsessionctl.options import Setup, complete_held, verb
from xsessiond.core.limits import MAX_REASON


@verb(
    "deny",
    examples={
        "xsessionctl deny m-5f0c": "this one",
        'xsessionctl deny m-5f0c --reason "ask me first"': "and its sender is told why",
    },
    exits=(3, 4, 5, 7, 9, 10),
)
@click.argument("message_ids", metavar="[ID]...", nargs=-1, shell_complete=complete_held)
@click.option("--all", "everything", is_flag=True, help="All that is held now.")
@click.option("--reason", metavar="TEXT", help=f"For the sender, at most {MAX_REASON} characters.")
def command(setup: Setup, *, message_ids: tuple[str, ...], everything: bool, reason: str | None) -> int:
    """Turn held messages away.

    Only a human may: from a terminal that no agent's program started. The sender is told, with your reason; the
    receiver never sees the text. IDs may be shortened to their first digits, at least four.
    """
    if reason is not None and len(reason) > MAX_REASON:
        raise click.UsageError(f"The reason has {len(reason)} characters; at most {MAX_REASON} fit.")
    params: dict[str, object] = {"verdict": "deny"}
    if reason:
        params["reason"] = reason
    return conclude_decision(setup, params, message_ids, everything=everything)

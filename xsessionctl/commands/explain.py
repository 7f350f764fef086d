"""`xsessionctl explain`: the verdict between two, without sending."""

from __future__ import annotations

import click

from xsessionctl.options import Setup, complete_session, verb
from xsessionctl.outcome import conclude
from xsessionctl.render_held import explanation
from xsessionctl.requests import ask


@verb(
    "explain",
    examples={
        "xsessionctl explain --from web --to api": "what would become of a message now, and the rule for it",
        "xsessionctl explain --from human --to api": "of your own; `script` is a program outside every session",
    },
    exits=(3, 4, 7, 9),
)
@click.option("--from", "sender", required=True, metavar="A", shell_complete=complete_session, help="The sender.")
@click.option("--to", "receiver", required=True, metavar="B", shell_complete=complete_session, help="The receiver.")
def command(setup: Setup, *, sender: str, receiver: str) -> int:
    """Whether a message would get through, and why.

    Nothing is sent. The answer names the rule and where it was written: a file with its line, a variable of the
    session's launch, or parity, which is what the classes of both sides say where nobody set anything.
    """
    params = {"sender": sender, "receiver": receiver}
    return conclude(lambda: ask("explain", params, setup.deadline), explanation, setup.sink, as_json=setup.as_json)

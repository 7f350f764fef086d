"""`xsessionctl inbox`: what waits for the caller."""

from __future__ import annotations

import click

from xsessionctl.options import Setup, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.render import rows_of, taken, waiting
from xsessionctl.requests import Lease, ask


@verb(
    "inbox",
    examples={
        "xsessionctl inbox": "what waits, and from whom",
        "xsessionctl inbox --take": "you: read it",
    },
    exits=(7, 9, 10),
)
@click.option("--take", is_flag=True, help="Show the texts too, and take them: they are delivered then. Human only.")
def command(setup: Setup, *, take: bool) -> int:
    """What waits for you.

    In an agent's shell it is what waits for that session. Looking changes nothing: it still arrives as it would have.
    What agents answer to you waits here until you take it.
    """
    if not take:
        return conclude(lambda: ask("inbox", {}, setup.deadline), waiting, setup.sink, as_json=setup.as_json)
    with Lease() as lease:

        def acknowledge(document: Document) -> None:  # notices too, which have no id
            lease.acknowledge(*(message.get("id") for message in rows_of(document, "messages")))

        return conclude(
            lambda: ask("take", {}, setup.deadline, lease), taken, setup.sink, as_json=setup.as_json, shown=acknowledge
        )

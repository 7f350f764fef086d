"""`xsessionctl check`: what became of a message."""

from __future__ import annotations

import click

from xsessionctl.held import complete_id
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.render import lines_of
from xsessionctl.requests import ask


@verb(
    "check",
    examples={
        "xsessionctl check m-204b9b00ddd7cd357612d37b8c0746c1": "one message, with its history",
        "xsessionctl check": "the last ones you sent",
    },
    exits=(3, 4, 7, 9),
)
@click.argument("message_id", metavar="[ID]", required=False)
def command(setup: Setup, *, message_id: str | None) -> int:
    """What became of a message.

    ID is what `send` printed. The answer comes from the store, also after a restart. queued: on disk, nobody has it
    yet. handed: given to the harness. delivered: there is evidence that it is in front of the model. replied: answered.
    Only your own are known.
    """
    params: dict[str, object] = {}

    def work() -> Document:
        if message_id is not None:
            params["message_id"] = complete_id(message_id, setup.timeout)
        return ask("check", params, setup.deadline)

    show = lines_of("check", {"message_id": message_id} if message_id is not None else {})
    return conclude(work, show, setup.sink, as_json=setup.as_json)

"""`xsessionctl rename`: another name for a session."""

from __future__ import annotations

import click

from xsessionctl.options import Setup, complete_session, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.output import Sink
from xsessionctl.render import called, part_of
from xsessionctl.requests import ask


@verb(
    "rename",
    examples={
        "xsessionctl rename api-tests": "in an agent's shell: its own session",
        "xsessionctl rename api billing": "you: api becomes billing",
    },
    exits=(3, 4, 7, 9, 10),
)
@click.argument("old", metavar="[OLD]", required=False, shell_complete=complete_session)
@click.argument("new", metavar="NEW", required=False)
def command(setup: Setup, *, old: str | None, new: str | None) -> int:
    """Give a session another name.

    With one name: the session that you are. With two: the session called OLD, which only a human may do. A taken name
    is refused, with a free one suggested. Messages that wait go with the session, whatever it is called.
    """
    if old is None:
        raise click.MissingParameter(param_hint="'NEW'", param_type="argument", ctx=click.get_current_context())
    params = {"name": old} if new is None else {"of": old, "name": new}
    return conclude(lambda: ask("rename", params, setup.deadline), _renamed, setup.sink, as_json=setup.as_json)


def _renamed(document: Document, sink: Sink) -> list[str]:
    return [f"It is called {called(part_of(document, 'self'))} now."]

"""`xsessionctl list`: the roster."""

from __future__ import annotations

import click

from xsessionctl.client import ClientError, deadline_in
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import Document, conclude, fail
from xsessionctl.render import roster
from xsessionctl.requests import ask


@verb(
    "list",
    examples={
        "xsessionctl list": "the table",
        "xsessionctl list --json | jq -r '.sessions[].name'": "for programs",
    },
    exits=(7, 9),
)
@click.option("--all", "everything", is_flag=True, help="Also conversations that are known and not running.")
@click.option("--watch", is_flag=True, help="Stay, and show every change. With --json: one document a line.")
def command(setup: Setup, *, everything: bool, watch: bool) -> int:
    """Who is running, and how mail reaches each.

    Your own row is marked with a star. STATE is idle, busy, waiting (for its user), unresponsive, offline, or unknown
    where the harness cannot tell. DELIVERY says how a message reaches the session: push (at once, also when it is
    idle), turn (with its next turn), pull (when it looks), none. AGE counts from its start; QUEUED is what waits for
    it, with what is held until a human decides.
    """
    params = {"all": True} if everything else {}
    if watch:
        return _watch(setup, params)
    return conclude(lambda: ask("list", params, setup.deadline), roster, setup.sink, as_json=setup.as_json)


def _watch(setup: Setup, params: Document) -> int:
    from xsessionctl.live import poll, watch

    def read() -> Document:
        return ask("list", params, deadline_in(setup.timeout))

    try:
        watch(poll(read), roster, setup.sink, as_json=setup.as_json)
    except ClientError as problem:
        return fail(problem, setup.sink, as_json=setup.as_json)
    return 0

"""`xsessionctl hold-queue`: what is held until a human decides."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from xsessionctl.client import ClientError
from xsessionctl.following import follow
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import Document, conclude, fail
from xsessionctl.output import is_terminal
from xsessionctl.render_held import queue
from xsessionctl.requests import ask


@verb(
    "hold-queue",
    examples={
        "xsessionctl hold-queue": "what is held, from whom, for whom, and why",
        "xsessionctl hold-queue --watch": "and what comes, until Ctrl-C",
        "xsessionctl hold-queue --json | jq '.held | length'": "how many",
    },
    exits=(7, 9),
)
@click.option("--watch", is_flag=True, help="Stay, and show every change. With --json: one document a line.")
def command(setup: Setup, *, watch: bool) -> int:
    """What is held until you decide.

    A held message has been sent and not delivered: the receiver's settings or class want a human to see it first. CAUSE
    says why; EXPIRES how long it still waits. `xsessionctl show ID` has the whole text and the rule, `approve` and
    `deny` decide. It is the same queue in every terminal. In an agent's shell it has only what that session sent, and
    what is held for it without its text.
    """
    if not watch:
        return conclude(lambda: ask("hold_queue", {}, setup.deadline), queue, setup.sink, as_json=setup.as_json)
    from xsessionctl import live

    again_s = live.EVERY_S if is_terminal(sys.stdout) and not setup.as_json else None
    try:
        live.watch(follow_queue(setup.deadline, again_s), queue, setup.sink, as_json=setup.as_json)
    except ClientError as problem:
        return fail(problem, setup.sink, as_json=setup.as_json)
    return 0


def follow_queue(deadline: float, again_s: float | None) -> Iterator[Document]:
    """The queue now and at each change. again_s: seconds after which it comes again unchanged, since times go on.
    Raises ClientError, also when the broker stops.
    """
    document: Document = {}
    for what, news in follow("hold_queue", lambda: {"watch": True}, deadline, again_s):
        if what in ("answer", "queue"):
            document = news
        if what in ("answer", "queue", "again"):
            yield document

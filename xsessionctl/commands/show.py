"""`xsessionctl show`: one held message, whole."""

from __future__ import annotations

import click

from xsessionctl.client import ClientError, deadline_in
from xsessionctl.held import find_messages, held_of
from xsessionctl.options import Setup, complete_held, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.render import one_line
from xsessionctl.render_held import details
from xsessionctl.requests import ask


@verb(
    "show",
    examples={"xsessionctl show m-5f0c": "the text, from whom, for whom, and the rule that held it"},
    exits=(3, 4, 5, 7, 9),
)
@click.argument("message_id", metavar="ID", shell_complete=complete_held)
def command(setup: Setup, *, message_id: str) -> int:
    """All there is to know about a held message.

    Its whole text, with control characters as escapes; who sent it, from which program and folder; why it is held, and
    where that rule was written; until when. ID may be shortened to its first digits, at least four of them.
    """
    return conclude(lambda: _read(message_id, setup.timeout), details, setup.sink, as_json=setup.as_json)


def _read(word: str, timeout: float) -> Document:
    queue = ask("hold_queue", {}, deadline_in(timeout))
    (message_id,) = find_messages([word], queue, timeout)
    try:
        answer = ask("hold_queue", {"message_id": message_id}, deadline_in(timeout))
    except ClientError as problem:
        if problem.code != "not_found":
            raise
        raise _why_not(message_id, problem, timeout) from None
    (hold,) = held_of(answer).values()
    return hold


def _why_not(message_id: str, problem: ClientError, timeout: float) -> ClientError:
    """What became of a message that is not in the queue."""
    try:
        state = ask("check", {"message_id": message_id}, deadline_in(timeout)).get("state")
    except ClientError:
        return problem
    hint = f"`xsessionctl check {message_id}` tells its history."
    return ClientError("already_decided", f"{message_id} is not held: it is {one_line(state)}.", hint)

"""What `approve` and `deny` have in common: which messages, the question to the broker, and what is told of the answer.

Laws: what could be decided is told on standard output, what could not on standard error, each with its reason. Refuses
to know: who may decide.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from xsessionctl.client import ClientError, deadline_in
from xsessionctl.held import Document, ask_human, find_messages, held_of
from xsessionctl.options import Setup
from xsessionctl.outcome import fail
from xsessionctl.output import write_text
from xsessionctl.render import rows_of
from xsessionctl.render_failure import failure
from xsessionctl.render_held import decided
from xsessionctl.requests import ask


def conclude_decision(setup: Setup, params: dict[str, object], words: Sequence[str], *, everything: bool) -> int:
    """Decides about the messages that `words` name, or all, and tells of it. params: of `decide`, but for the ids.
    Returns the exit code: 0, or that of the first message that could not be decided."""
    if bool(words) == everything:
        raise click.UsageError("Name the messages, or say --all." if not words else "Either IDs or --all.")
    try:
        queue = ask("hold_queue", {}, deadline_in(setup.timeout))
        chosen: dict[str, object] = {"all": True} if everything else {"ids": find_messages(words, queue, setup.timeout)}
        document = ask_human("decide", {**params, **chosen}, setup.timeout)
    except ClientError as problem:
        return fail(problem, setup.sink, as_json=setup.as_json)
    problems = [_problem(row) for row in rows_of(document, "decided") if row.get("error")]
    if setup.as_json:
        setup.sink.document(document)
    else:
        lines = decided(document, held_of(queue), setup.sink)
        setup.sink.lines(lines if lines or problems else ["Nothing is held."])
        lines = [line for undecided in problems for line in failure(undecided, setup.sink)]
        write_text(sys.stderr, "".join(line + "\n" for line in lines))
    return problems[0].exit_code if problems else 0


def _problem(row: Document) -> ClientError:
    error = row.get("error")
    error = error if isinstance(error, dict) else {}
    hint = error.get("hint")
    text = str(error.get("text") or f"{row.get('id')} could not be decided.")
    return ClientError(str(error.get("code")), text, hint if isinstance(hint, str) else None)

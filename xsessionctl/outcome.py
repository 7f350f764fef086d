"""How a verb ends: its document or its sentences on standard output, its failure where it belongs, and the exit code.

Laws: with `--json` standard output gets exactly one document, a failure too; without, a failure goes to standard
error. The exit code tells what happened and not whether somebody read it. Refuses to know: what the verbs do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from xsessionctl.client import ClientError
from xsessionctl.output import Sink, write_text

Document = Mapping[str, object]
"""What a verb answers: the object that `--json` prints."""

INTERRUPTED = 130
"""Ctrl-C, as shells count it."""
STATE_CODES = {"held": 6, "denied": 5, "refused": 5, "expired": 5, "discarded": 5}
"""Exit code of a `send` that ended in one of these states; every other is 0."""


def conclude(
    work: Callable[[], Document],
    show: Callable[[Document, Sink], list[str]],
    sink: Sink,
    *,
    as_json: bool,
    code: Callable[[Document], int] | None = None,
    shown: Callable[[Document], None] | None = None,
) -> int:
    """Does `work`, tells of it, returns the exit code: 0, or what `code` says of the document. shown: called once the
    document went out whole.
    """
    try:
        document = work()
    except ClientError as problem:
        return fail(problem, sink, as_json=as_json)
    whole = sink.document(document) if as_json else sink.lines(show(document, sink))
    if shown is not None and whole:
        shown(document)
    return code(document) if code else 0


def fail(problem: ClientError, sink: Sink, *, as_json: bool) -> int:
    """Tells of a failure and returns its exit code."""
    if as_json:
        sink.document(problem.to_json())
    else:
        from xsessionctl.render_failure import failure

        write_text(sys.stderr, "".join(line + "\n" for line in failure(problem, sink)))
    return problem.exit_code


def send_code(document: Document, *, waited: bool = False) -> int:
    """The exit code of a `send` with this answer. waited: a reply was asked for."""
    state = document.get("state")
    code = STATE_CODES.get(state, 0) if isinstance(state, str) else 0
    return 7 if waited and not code and not document.get("reply") else code

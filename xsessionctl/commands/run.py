"""`xsessionctl run`: a harness in a terminal of ours, which can be woken by typing."""

from __future__ import annotations

import os
import sys

import click

from xsessionctl.client import ClientError
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import fail
from xsessionctl.terminal.composer import READERS


@verb(
    "run",
    examples={
        "xsessionctl run -- gemini": "Gemini CLI, which a message can now wake",
        "xsessionctl run -- gemini --resume latest": "everything behind -- is the harness's own",
    },
    exits=(10,),
    timed=False,
)
@click.argument("argv", metavar="CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(setup: Setup, argv: tuple[str, ...]) -> int:
    """Run a harness that nothing but typing can wake.

    Gemini CLI offers no way in to a session that waits for its user: mail comes with its next turn. Run like this, it
    sits in a terminal that we pass on, and when mail arrives and its composer is empty, and you have not typed for two
    seconds, one line is typed there that begins a turn; the message itself comes with the turn, by Gemini's hooks
    (`xsessionctl install gemini`). Into anything that is not an empty composer nothing is ever typed. Ends as the
    harness ends, with its exit code.
    """
    try:
        return _run(argv)
    except ClientError as problem:
        return fail(problem, setup.sink, as_json=setup.as_json)


def _run(argv: tuple[str, ...]) -> int:
    if not (os.isatty(0) and os.isatty(1)):
        raise ClientError(
            "usage", "There is no terminal to pass on.", "Run it in a terminal, with neither end redirected."
        )
    from xsessionctl.terminal.hosting import Host, reader_for

    if reader_for(argv[0]) is None:
        known = ", ".join(sorted(READERS))
        raise ClientError(
            "usage",
            f"What the screen of {os.path.basename(argv[0])} looks like is not known, so nothing can be typed there.",
            f"Known: {known}. Other harnesses need no such terminal; start them as you always do.",
        )
    try:
        host = Host(argv, dict(os.environ))
    except ImportError:
        raise ClientError(
            "usage",
            "The part that reads screens is not installed.",
            f"{sys.executable} -m pip install 'xsessiond[terminal]'",
        ) from None
    except OSError as problem:
        raise ClientError("not_found", f"{argv[0]} cannot be started: {problem.strerror}.", None) from None
    return host.run()

"""`xsessionctl demo`: see it work."""

from __future__ import annotations

import os
import signal
import sys
from shlex import quote
from shutil import which
from types import FrameType

from xsessionctl.cli import PROGRAM
from xsessionctl.client import ClientError
from xsessionctl.demo.actor import ActorFailed
from xsessionctl.demo.stage import Stage, set_up
from xsessionctl.demo.story import STEPS, Play, Surprise
from xsessionctl.demo.transcript import Transcript
from xsessionctl.options import Setup, verb
from xsessionctl.output import write_text
from xsessionctl.render_failure import failure

NEXT = {
    "{name} install": "let those of your coding agents take part that are here: it shows first what it would write",
    "{name} list": "see who is there",
    '{name} send NAME "…"': "write to one of them yourself",
    "{name} hold-queue": "see what is held until you decide",
}
"""What to type after it. {name}: the program, as this shell finds it."""


@verb(
    "demo",
    examples={"xsessionctl demo": "takes a few seconds, and leaves nothing behind"},
    exits=(9,),
    timed=False,
)
def command(setup: Setup) -> int:
    """See it work: sessions meet, write and answer, and you decide.

    A private broker in a temporary place, and three sessions through the real MCP server, each below a stand-in for a
    harness. Your own broker, sessions and files are not touched. The exit code is 0 only if every step came out right.
    """
    transcript = Transcript(setup.sink, as_json=setup.as_json)
    before = signal.signal(signal.SIGTERM, _end_in_order)
    problem: ClientError | None = None
    try:
        with set_up() as stage:
            problem = _perform(stage, transcript)
    finally:
        signal.signal(signal.SIGTERM, before)
    document: dict[str, object] = {"ok": problem is None, "steps": transcript.steps, "next": list(_next_commands())}
    if problem is not None:
        document.update(problem.to_json())
        if not setup.as_json:
            write_text(sys.stderr, "\n".join(["", *failure(problem, setup.sink), ""]))
    if setup.as_json:
        setup.sink.document(document)
    return 0 if problem is None else problem.exit_code


def _perform(stage: Stage, transcript: Transcript) -> ClientError | None:
    """Plays every step. Returns what went wrong, or None."""
    transcript.open([f"A private broker and its sessions in {stage.root}; nothing of yours is touched."])
    try:
        stage.start_broker()
        play = Play(stage, transcript)
        for title, step in STEPS:
            transcript.step(title)
            step(play)
    except (Surprise, ActorFailed) as surprise:
        return ClientError("internal", f"The demonstration went wrong. {surprise}", detail=stage.broker_log())
    except ClientError as problem:
        return problem
    lines = ["All of that really happened, and all of it is removed again. Next:"]
    for words, what in _next_commands().items():
        lines += ["", f"   {words}", f"       {what}"]
    transcript.close(lines)
    return None


def _next_commands() -> dict[str, str]:
    program = os.path.abspath(sys.argv[0])
    path = quote(program) if os.path.basename(program) == PROGRAM else f"{quote(sys.executable)} -m {PROGRAM}"
    found = which(PROGRAM)
    name = PROGRAM if found is not None and os.path.realpath(found) == os.path.realpath(program) else path
    return {words.format(name=name): what for words, what in NEXT.items()}


def _end_in_order(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)

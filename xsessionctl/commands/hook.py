"""`xsessionctl hook`: the program that harnesses run as a command hook, by its own name."""

from __future__ import annotations

import os

import click

from xsessionctl.options import Setup, verb


@verb("hook", examples={"xsessionctl hook gemini AfterTool": "what Gemini CLI runs after each tool call"}, timed=False)
@click.argument("harness")
@click.argument("event")
@click.argument("wait", required=False, type=click.Choice(["wait"]))
def command(setup: Setup, *, harness: str, event: str, wait: str | None) -> int:
    """What a harness runs as a command hook.

    Not for people: it tells the running session of EVENT, passes on what the harness gives it on standard input if
    something waits for the session, and prints the answer. With `wait` it stays until the session is to be woken.
    Outside of a session it does nothing. `install` writes the script that it is into a harness's settings.
    """
    script = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "harness", "hook.sh")
    os.execv("/bin/sh", ["sh", script, harness, event, *([wait] if wait else [])])  # noqa: S606 - it becomes that script

"""`xsessionctl whoami`: who the broker takes the caller for."""

from __future__ import annotations

from xsessionctl.options import Setup, verb
from xsessionctl.outcome import conclude
from xsessionctl.render import identity
from xsessionctl.requests import ask


@verb(
    "whoami",
    examples={"xsessionctl whoami": "in an agent's shell: which session it is; in yours: that it is you"},
    exits=(7, 9),
)
def command(setup: Setup) -> int:
    """Who you are to the others.

    The broker finds it through the kernel: a shell below a session's harness speaks for that session, a terminal
    outside every session is the human. No option and no variable can change it.
    """
    return conclude(lambda: ask("whoami", {}, setup.deadline), identity, setup.sink, as_json=setup.as_json)

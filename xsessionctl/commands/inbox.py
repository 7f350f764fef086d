"""`xsessionctl inbox`: what waits for the caller."""

from __future__ import annotations

from xsessionctl.options import Setup, verb
from xsessionctl.outcome import conclude
from xsessionctl.render import waiting
from xsessionctl.requests import ask


@verb("inbox", examples={"xsessionctl inbox": "what waits, and from whom"}, exits=(7, 9))
def command(setup: Setup) -> int:
    """What waits for you, without taking it.

    In an agent's shell it is what waits for that session. Looking changes nothing: it still arrives as it would have.
    """
    return conclude(lambda: ask("inbox", {}, setup.deadline), waiting, setup.sink, as_json=setup.as_json)

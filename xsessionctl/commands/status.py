"""`xsessionctl status`: how the broker is. Works with a broker of any version."""

from __future__ import annotations

from xsessionctl.lifecycle import find_paths, require_broker
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.render import broker_state, part_of


@verb("status", examples={"xsessionctl status": "is it running, is it well"}, exits=(7, 9, 11))
def command(setup: Setup) -> int:
    """How the broker is.

    It is not started for this: without one the exit code is 9. A store that failed its check gives 1, settings that
    cannot be used give 11.
    """
    return conclude(
        lambda: read_status(setup.deadline), broker_state, setup.sink, as_json=setup.as_json, code=status_code
    )


def read_status(deadline: float) -> dict[str, object]:
    """The broker's own account of itself. Raises ClientError."""
    with require_broker(find_paths(), deadline) as link:
        return link.call("status")


def status_code(document: Document) -> int:
    """The exit code for what the broker said of itself."""
    if part_of(document, "store").get("ok") is False:
        return 1
    return 11 if part_of(document, "config").get("ok") is False else 0

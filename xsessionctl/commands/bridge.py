"""`xsessionctl bridge`: its help. The bridge itself, `xsessionctl.shim.bridge`, is started without any of this."""

from __future__ import annotations

import click

from xsessionctl.options import Setup, verb


@verb(
    "bridge",
    examples={"xsessionctl bridge opencode </dev/null": "ends at once: there is no plugin to talk to"},
    timed=False,
)
@click.argument("harness", type=click.Choice(["opencode"]))
def command(setup: Setup, harness: str) -> int:
    """What the plugin of a harness starts.

    Not for people: the plugin in opencode has one of these as its child process and speaks JSON-RPC with it on standard
    input and output. It makes each conversation of that opencode a session.
    """
    from xsessionctl.shim import bridge

    return bridge.main()

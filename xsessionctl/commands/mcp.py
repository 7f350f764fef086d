"""`xsessionctl mcp`: its help. The server itself is `xsessionctl.shim.mcp`, which is started without any of this."""

from __future__ import annotations

from xsessionctl.options import Setup, verb


@verb(
    "mcp",
    examples={"xsessionctl mcp": "what the configuration of an MCP client has as its command; `install` writes it"},
    timed=False,
)
def command(setup: Setup) -> int:
    """The MCP server that a harness starts.

    Not for people: it speaks MCP on standard input and output and makes the conversation that started it a session. It
    finds out harness, folder and name by itself; XSESSIOND_NAME, XSESSIOND_LABEL, XSESSIOND_CLASS, XSESSIOND_INBOUND
    and XSESSIOND_HARNESS tell it otherwise, and XSESSIOND_OFF switches it off.
    """
    from xsessionctl.shim import mcp

    return mcp.main()

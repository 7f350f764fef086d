"""Anchor: a server of the official MCP SDK with five tools like ours, on standard input and output, doing nothing."""

from mcp.server import MCPServer

server = MCPServer("anchor")


@server.tool()
def list_agents(machine: str | None = None) -> dict[str, list[str]]:
    """Lists the sessions on this machine."""
    return {"sessions": []}


@server.tool()
def send_message(to: str, message: str, summary: str | None = None, reply_to: str | None = None) -> dict[str, str]:
    """Sends a message to another session."""
    return {"id": "", "state": "queued"}


@server.tool()
def check_delivery(message_id: str | None = None) -> dict[str, str]:
    """Says what became of a message."""
    return {"id": "", "state": "queued"}


@server.tool()
def read_messages(limit: int = 50) -> dict[str, list[str]]:
    """Takes what waits."""
    return {"messages": []}


@server.tool()
def rename_session(name: str) -> dict[str, str]:
    """Changes the name of this session."""
    return {"self": name}


if __name__ == "__main__":
    server.run()

"""What a harness starts inside a session: the MCP server. The standard library and the core only, to stay thin."""

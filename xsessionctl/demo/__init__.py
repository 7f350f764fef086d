"""The demonstration: a private broker, real sessions through the real MCP server, and a transcript of what they do."""

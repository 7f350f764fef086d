"""The smallest MCP server that a harness accepts, with one tool, ``echo``. Run as a program, on stdio.

For testing this support alone, apart from the product.
"""

from __future__ import annotations

import json
import sys
from typing import Any

TOOL = {
    "name": "echo",
    "description": "Returns its text, and `structured` as the structured content of its result.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}, "structured": {"type": "object"}},
        "required": ["text"],
    },
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None: no such method. The errors let a client fall back to ``initialize``."""
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "serverInfo": {"name": "echo", "version": "1"},
                "capabilities": {"tools": {}},
                "instructions": "The echo server echoes.",
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            return echo(**params["arguments"])
        case "ping":
            return {}
        case _:
            return None


def echo(text: str, structured: dict[str, Any] | None = None) -> dict[str, Any]:
    """The result of the tool."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": f"ECHO {text}"}]}
    return result if structured is None else {**result, "structuredContent": structured}


def main() -> None:
    """Answer each line on stdin until its end."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        outcome = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)


if __name__ == "__main__":
    main()

"""A harness that resumes a conversation without a terminal, as a user's command may start it: run as a program.

    python resumed_harness.py CONVERSATION FOLDER

It starts our MCP server as harnesses do, reads what waits as a model would, and writes the texts, one JSON list for
each reading, into FOLDER/read. It lives until it is ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any


def main(conversation: str, folder: str) -> None:
    """Resume the conversation."""
    print(f"resuming {conversation}", flush=True)
    server = subprocess.Popen(
        [sys.executable, "-m", "xsessionctl", "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "XSESSIOND_HARNESS": "claude",
            "XSESSIOND_CLASS": "prompting",
            "CLAUDE_CODE_SESSION_ID": conversation,
        },
    )
    assert server.stdin is not None
    assert server.stdout is not None
    number = 0

    def ask(method: str, params: dict[str, Any]) -> Any:
        nonlocal number
        number += 1
        frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        server.stdin.write(json.dumps(frame).encode() + b"\n")  # type: ignore[union-attr]
        server.stdin.flush()  # type: ignore[union-attr]
        return json.loads(server.stdout.readline())["result"]  # type: ignore[union-attr]

    info = {"name": "claude-code", "version": "1"}
    ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
    while True:
        found = ask("tools/call", {"name": "read_messages", "arguments": {}})["structuredContent"]["messages"]
        if found:
            with open(f"{folder}/read", "a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
        time.sleep(0.05)  # a model would not: it is told of mail, or looks when its user bids it


if __name__ == "__main__":
    main(*sys.argv[1:])

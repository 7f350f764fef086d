"""A stand-in for a coding agent's harness: starts `xsessionctl mcp`, as a harness does, and lives as long as it.

The demonstration speaks to the MCP server through this process's own standard streams, which the server inherits. What
matters is that each session is a process tree of its own, since that is how the broker tells sessions apart.
"""

from __future__ import annotations

import subprocess
import sys


def main() -> int:
    """Runs the MCP server to its end."""
    return subprocess.run([sys.executable, "-P", "-m", "xsessionctl", "mcp"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

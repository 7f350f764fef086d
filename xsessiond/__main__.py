"""`python -m xsessiond` and the command `xsessiond`."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the broker and exits with its status."""
    from xsessiond.app import main as run

    sys.exit(run())


if __name__ == "__main__":
    main()

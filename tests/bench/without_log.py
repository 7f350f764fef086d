"""The broker with the store that keeps nothing: what is left is what a message costs without its log."""

import sys

from xsessiond.app import main

if __name__ == "__main__":
    sys.exit(main(["--without-store"]))

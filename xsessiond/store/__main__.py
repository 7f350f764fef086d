"""The store's own small program: `python -m xsessiond.store check PATH` and `… backup PATH TARGET`.

Clients run it instead of reading the store themselves, and instead of having a broker write files in places that they
name: what it does is done with the rights of who asked. Prints one JSON document, the report or an `error` object,
which says whether the same may do later.
"""

from __future__ import annotations

import os
import sys

import msgspec

from xsessiond.store.contract import StoreError
from xsessiond.store.looking import NoStore, TargetTaken, TargetUnusable, back_up, examine

CODES = {NoStore: "not_found", TargetTaken: "refused", TargetUnusable: "refused"}


def main(words: list[str]) -> int:
    """Does it. Returns 0 when there is a report, 1 when there is an error, 2 for wrong words."""
    os.umask(0o077)
    document: object
    status = 0
    try:
        match words:
            case ["check", path]:
                document = examine(path)
            case ["backup", path, target]:
                document = back_up(path, target)
            case _:
                return 2
    except StoreError as problem:
        status = 1
        code = CODES.get(type(problem), "internal")
        document = {"error": {"code": code, "text": str(problem), "transient": problem.transient}}
    sys.stdout.buffer.write(msgspec.json.encode(document) + b"\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

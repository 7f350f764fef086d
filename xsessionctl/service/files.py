"""Files that another program reads, put in place whole and taken away again: ours only.

Laws: what is not ours is neither replaced nor removed; a link is not ours, wherever it leads. A file is replaced in one
step, so that nobody reads half of it. Refuses to know: what is in them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xsessionctl.client import ClientError
from xsessionctl.whole_file import write_whole

LARGEST = 1 << 20
Change = dict[str, str]
"""What was done to a file: `path`, and `change`, one of made, replaced, unchanged, removed, left."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A file as it should be. text: None where there should be none. ours: whether we made what lies there."""

    path: str
    text: bytes | None
    ours: Callable[[bytes], bool]

    def state(self) -> str:
        """`missing`, `current`, `differs` (ours, with another text) or `foreign`."""
        if not os.path.lexists(self.path):
            return "missing"
        if os.path.islink(self.path) or not os.path.isfile(self.path):
            return "foreign"
        try:
            with open(self.path, "rb") as file:
                found = file.read(LARGEST)
        except OSError:
            return "foreign"
        if found == self.text:
            return "current"
        return "differs" if self.ours(found) else "foreign"

    def change(self) -> str | None:
        """What `put_in_place` does to it; None for nothing that is worth a word. Raises ClientError if it cannot."""
        state = self.state()
        if self.text is None:
            return {"missing": None, "foreign": "left"}.get(state, "removed")
        if state == "foreign":
            raise ClientError(
                "refused",
                f"{self.path} was not made by `xsessionctl service install`, so it is left alone.",
                "Look at what it is; move it away, and run this again.",
                detail=self.path,
            )
        return {"missing": "made", "current": "unchanged"}.get(state, "replaced")


def changes_of(files: Sequence[Planned]) -> list[Change]:
    """What `put_in_place` does, without doing it."""
    return [{"path": file.path, "change": change} for file in files if (change := file.change()) is not None]


def put_in_place(files: Sequence[Planned]) -> list[Change]:
    """Makes the files what they should be; a directory `*.d` that is empty then goes too. Raises ClientError, before
    anything is done if something else lies where a file should."""
    changes = changes_of(files)
    done = {change["path"]: change["change"] for change in changes}
    for planned in files:
        try:
            match done.get(planned.path):
                case "made" | "replaced":
                    _write(planned.path, planned.text or b"")
                case "removed":
                    _remove(planned.path)
                case _:
                    pass
        except OSError as problem:
            raise not_writable(planned.path, problem) from None
    return changes


def not_writable(path: str, problem: OSError) -> ClientError:
    """What is said where the system does not let us write. path: what should have been written or removed."""
    return ClientError(
        "not_permitted",
        f"{problem.filename or path}: {problem.strerror or problem}.",
        "Make it writable for you, then run this again: it does what is not done yet.",
        detail=path,
    )


def _write(path: str, text: bytes) -> None:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    write_whole(path, text, mode=0o644)


def _remove(path: str) -> None:
    os.unlink(path)
    folder = os.path.dirname(path)
    if folder.endswith(".d") and not os.listdir(folder):
        os.rmdir(folder)

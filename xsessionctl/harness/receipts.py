"""What was written where, so that it can be taken back exactly: one small file beside the broker's own.

Of a harness's file it holds a digest of what we left, and the piece that was there in the place of ours; never the
rest, which may hold secrets. As long as the digest fits, taking back gives the old file, byte for byte.

Laws: losing this file loses exactness and nothing else. Refuses to know: what the pieces mean.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256

from xsessionctl.client import ClientError
from xsessionctl.harness.common import count_common
from xsessionctl.user_file import UserFile
from xsessiond.paths import PathError
from xsessiond.private_dirs import ensure_private_dir

NAME = "installed.json"


@dataclass(frozen=True)
class Receipt:
    """What was done to one file. digest: of the text that we left. made: the file was not there before.

    start, length: the piece that differs, in characters; old: what stood there. folders: made for the file. hollow:
    objects and lists on the way to our entries that were there and empty.
    """

    digest: str
    start: int
    length: int
    old: str
    made: bool
    folders: list[str]
    hollow: list[list[str]]

    def restore(self, text: str) -> str | None:
        """The text from before, or None if this is not the text that we left."""
        if digest_of(text) != self.digest:
            return None
        return text[: self.start] + self.old + text[self.start + self.length :]


def write_receipt(before: str, after: str, *, made: bool, folders: list[str], hollow: list[list[str]]) -> Receipt:
    """The receipt for a file that had the text `before` and has `after` now."""
    start = count_common(before, after)
    behind = count_common(before[start:][::-1], after[start:][::-1])
    old = before[start : len(before) - behind]
    return Receipt(digest_of(after), start, len(after) - behind - start, old, made, folders, hollow)


def digest_of(text: str) -> str:
    """What a text is known by."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Receipts:
    """All of them, by the path of the file. They are read when they are asked for, since another `install` may be at
    work too. An unreadable collection counts as an empty one."""

    def __init__(self, state_dir: str) -> None:
        self._folder = state_dir
        self._path = f"{state_dir}/{NAME}"

    def get(self, path: str) -> Receipt | None:
        """That of one file."""
        return self._read().get(path)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Meanwhile no other process of ours changes a file that is remembered here. Of a folder that was made for this
        and has nothing in it afterwards nothing stays. Raises ClientError."""
        descriptor = self._lock()
        try:
            yield
        finally:
            with suppress(OSError):
                os.rmdir(self._folder)
            os.close(descriptor)

    def _lock(self) -> int:
        try:
            while True:
                ensure_private_dir(self._folder)
                descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(descriptor), os.stat(self._folder)):
                        return descriptor
                os.close(descriptor)  # who had it took the folder away
        except PathError as problem:
            raise ClientError("bad_config", problem.reason) from None
        except OSError as error:
            raise ClientError("bad_config", f"{self._folder} cannot be used: {error.strerror}.") from None

    def set(self, path: str, receipt: Receipt | None) -> None:
        """Remembers one, or forgets it where it is None; to be done `alone`. Raises ClientError; then nothing has
        changed."""
        if receipt == self.get(path):
            return
        found = {other: one for other, one in self._read().items() if other != path}
        if receipt is not None:
            found[path] = receipt
        file = UserFile(self._path, most=1 << 24)
        if found:
            file.replace(json.dumps({path: asdict(one) for path, one in found.items()}, indent=1) + "\n")
        elif file.exists:
            file.remove()

    def _read(self) -> dict[str, Receipt]:
        try:
            with open(self._path, encoding="utf-8") as file:
                rows = json.load(file)
            return {path: Receipt(**row) for path, row in rows.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

"""The user's settings file as a person changes it: read, changed, and put in the place of the old one in one step.

Laws: a link stays a link, and what it leads to is changed; the new file has the old one's mode; what somebody else
wrote meanwhile is never lost. Every failure is a `ClientError`. Refuses to know: what settings mean.
"""

from __future__ import annotations

import os
import stat

from xsessionctl.client import ClientError
from xsessiond.settings_reading import MAX_BYTES

MARK = "\ufeff"
"""What some editors put before the first character."""


class SettingsFile:
    """A file that need not be there yet. text: without a byte order mark."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._place = os.path.realpath(path)
        self._before = self._look()
        try:
            with open(self._place, "rb") as file:
                text = file.read(MAX_BYTES).decode("utf-8")
        except FileNotFoundError:
            text = ""
        except UnicodeDecodeError:
            raise ClientError("bad_config", f"{path} is not UTF-8.", "Mend it by hand.") from None
        except OSError as error:
            raise self._failed("read", error) from None
        self._mark = MARK if text.startswith(MARK) else ""
        self.text = text.removeprefix(MARK)

    def replace(self, text: str) -> None:
        """Puts another text there. Raises ClientError, also when the file has changed since it was read."""
        folder, name = os.path.split(self._place)
        new = f"{folder}/.{name}.{os.getpid()}"
        mode = 0o600 if self._before is None else stat.S_IMODE(self._before[0])
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with open(descriptor, "wb") as file:
                    file.write((self._mark + text).encode())
                    file.flush()
                    os.fchmod(file.fileno(), mode)
                    os.fsync(file.fileno())
                if self._look() != self._before:
                    raise ClientError(
                        "bad_config", f"{self.path} was changed meanwhile. Nothing was written.", "Do it again."
                    )
                os.rename(new, self._place)
            except BaseException:
                os.unlink(new)
                raise
        except OSError as error:
            raise self._failed("written", error) from None

    def _look(self) -> tuple[int, ...] | None:
        try:
            found = os.stat(self._place)
        except OSError:
            return None
        return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns

    def _failed(self, what: str, error: OSError) -> ClientError:
        return ClientError("bad_config", f"{self.path} cannot be {what}: {error.strerror}.", "Nothing was changed.")

"""A text file of the user's as a person changes it: read, changed, and put in the place of the old one in one step.

Laws: a link stays a link, and what it leads to is changed; the new file has the old one's mode, group and extended
attributes; what somebody else wrote meanwhile is never lost; a file that is read-only, another user's or no UTF-8 is
refused and stays as it is. Every failure is a `ClientError`. Refuses to know: what stands in it.
"""

from __future__ import annotations

import os
import stat
import sys

from xsessionctl.client import ClientError
from xsessiond.settings_reading import MAX_BYTES

MARK = "\ufeff"
"""What some editors put before the first character."""


class ChangedMeanwhile(ClientError):
    """Somebody else wrote the file since it was read, so that it was left to them. It may be read and changed again."""


class UserFile:
    """A file that need not be there yet. text: without a byte order mark. exists: whether it was there."""

    def __init__(self, path: str, *, most: int = MAX_BYTES) -> None:
        """most: bytes that it may have. Raises ClientError."""
        self.path = path
        self._place = os.path.realpath(path)
        self._before = self._look()
        self.exists = self._before is not None
        try:
            # not to wait for the other end of a pipe that stands there
            with open(os.open(self._place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                data = file.read(most + 1)
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise self._failed("read", error) from None
        if len(data) > most:
            raise ClientError("bad_config", f"{path} has more than {most} bytes.", "Nothing was changed.")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise ClientError("bad_config", f"{path} is not UTF-8.", "Mend it by hand.") from None
        self._mark = MARK if text.startswith(MARK) else ""
        self.text = text.removeprefix(MARK)

    def replace(self, text: str) -> None:
        """Puts another text there. Raises ClientError, also when the file has changed since it was read."""
        self.refuse_unwritable()
        folder, name = os.path.split(self._place)
        new = f"{folder}/.{name}.{os.getpid()}"
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with open(descriptor, "wb") as file:
                    file.write((self._mark + text).encode())
                    file.flush()
                    self._dress(file.fileno())
                    os.fsync(file.fileno())
                self._refuse_changed()
                os.rename(new, self._place)
            except BaseException:
                os.unlink(new)
                raise
            _flush_folder(folder)
        except OSError as error:
            raise self._failed("written", error) from None

    def remove(self) -> None:
        """Takes the file away. Raises ClientError, also when the file has changed since it was read."""
        self.refuse_unwritable()
        self._refuse_changed()
        try:
            os.unlink(self._place)
            _flush_folder(os.path.dirname(self._place))
        except OSError as error:
            raise self._failed("removed", error) from None

    def _dress(self, descriptor: int) -> None:
        """Makes a new file look like the old one."""
        if self._before is None:
            return
        mode, group = self._before[0], self._before[1]
        try:
            os.fchown(descriptor, -1, group)
        except OSError:
            mode &= ~(stat.S_ISGID | stat.S_IRWXG)  # a group that the file cannot be given to was not meant to be ours
        if sys.platform == "linux":  # access lists are among them
            try:
                for name in os.listxattr(self._place):
                    os.setxattr(descriptor, name, os.getxattr(self._place, name))
            except OSError:
                pass  # a file system without them, or one that only the system may set
        os.fchmod(descriptor, stat.S_IMODE(mode))

    def refuse_unwritable(self) -> None:
        """Raises ClientError if the file is not to be changed."""
        if self._before is None:
            return
        mode, owner = self._before[0], self._before[2]
        if not stat.S_ISREG(mode):
            raise ClientError("bad_config", f"{self.path} is no ordinary file.", "Nothing was changed.")
        if owner != os.geteuid():
            raise ClientError(
                "bad_config", f"{self.path} belongs to uid {owner}.", "Nothing was changed. Do this as that user."
            )
        if not mode & stat.S_IWUSR:
            raise ClientError(
                "bad_config",
                f"{self.path} is read-only.",
                f"Nothing was changed. If you want it to be: chmod u+w '{self._place}'",
            )

    def _refuse_changed(self) -> None:
        if self._look() != self._before:
            raise ChangedMeanwhile(
                "bad_config", f"{self.path} was changed meanwhile. Nothing was written.", "Do it again."
            )

    def _look(self) -> tuple[int, ...] | None:
        try:
            found = os.stat(self._place)
        except OSError:
            return None
        return found.st_mode, found.st_gid, found.st_uid, found.st_ino, found.st_size, found.st_mtime_ns

    def _failed(self, what: str, error: OSError) -> ClientError:
        return ClientError("bad_config", f"{self.path} cannot be {what}: {error.strerror}.", "Nothing was changed.")


def _flush_folder(folder: str) -> None:
    """Has the system write down that the name means another file now."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

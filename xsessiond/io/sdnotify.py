"""The two lines of conversation with a service manager: what it gave us (sockets), and how we are (sd_notify).

Laws: nobody has to be there; without a manager everything here does nothing. What it put into the environment is taken
out, so that no program started by us takes it for its own. Refuses to know: systemd's bus.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping


class ServiceManager:
    """The manager that started us, or nobody. Made by `take_service_manager`."""

    __slots__ = ("_address", "watchdog_s")

    def __init__(self, address: str | None, watchdog_s: float | None) -> None:
        self._address = address
        self.watchdog_s = watchdog_s
        """Seconds within which it wants to hear `watchdog`, or None. Half of that is a good pace."""

    @property
    def present(self) -> bool:
        """Whether one started us."""
        return self._address is not None

    def notify(self, state: str) -> bool:
        """Send `NAME=value` lines; False if nobody is there or it does not listen. Never blocks."""
        if self._address is None:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            try:
                channel.sendto(state.encode(), self._address)
            except OSError:
                return False
        return True

    def ready(self, status: str) -> bool:
        """Say that requests are answered from now on; `status` is a line for people."""
        return self.notify(f"READY=1\nMAINPID={os.getpid()}\nSTATUS={status}")

    def stopping(self, status: str) -> bool:
        """Say that the end has begun."""
        return self.notify(f"STOPPING=1\nSTATUS={status}")

    def watchdog(self) -> bool:
        """Say that all is well."""
        return self.notify("WATCHDOG=1")


def take_service_manager(environ: MutableMapping[str, str] = os.environ) -> ServiceManager:
    """Take the manager's variables out of `environ` and return it."""
    address = environ.pop("NOTIFY_SOCKET", None)
    interval, watched = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", None)
    if address is not None and address.startswith("@"):
        address = "\0" + address[1:]  # the abstract namespace
    elif address is not None and not address.startswith("/"):
        address = None
    ours = watched is None or watched == str(os.getpid())
    return ServiceManager(address, int(interval) / 1e6 if ours and interval.isdecimal() and int(interval) else None)


def take_passed_sockets(environ: MutableMapping[str, str] = os.environ) -> dict[str, int]:
    """Take the sockets that the manager opened for us: name to descriptor, not inherited further. Empty without any.

    Several of one name get `#2`, `#3` … appended.
    """
    pid, count = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
    names = environ.pop("LISTEN_FDNAMES", "").split(":")
    environ.pop("LISTEN_PIDFDID", None)
    if pid != str(os.getpid()) or not count.isdecimal():
        return {}
    passed: dict[str, int] = {}
    for number in range(int(count)):
        fd = 3 + number
        name = (names[number] if number < len(names) else "") or "unknown"
        same = sum(1 for earlier in passed if earlier.partition("#")[0] == name)
        os.set_inheritable(fd, False)
        passed[name if not same else f"{name}#{same + 1}"] = fd
    return passed

"""Whether anybody looks at the conversations of a Codex daemon: a terminal, or another client that is none of ours.

A conversation goes on for a minute, or to the end of its turn, after its terminal is gone, and its MCP server with it.
Codex tells nobody; but the kernel knows who is connected to the daemon. Which conversation a terminal shows is not to
be found out, so one that is there may be anybody's: only when none is left it is sure that nobody sees this one.

Laws: one process that looks is enough, and is watched by its pidfd; the machine is searched only when there is none.
Where the kernel does not tell (macOS), nothing is said. Refuses to know: threads, what follows.
"""

from __future__ import annotations

import os
import sys
from _socket import socket as Socket  # noqa: N812 - it is a class
from time import monotonic

from xsessionctl.shim.codex import is_ours, list_processes
from xsessionctl.shim.identity import read_process
from xsessionctl.shim.watch import open_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_AF_NETLINK, _SOCK_RAW, _SOCK_DIAG = 16, 3, 4
_BY_FAMILY, _REQUEST_DUMP, _DONE, _ERROR = 20, 0x301, 3, 2
_ESTABLISHED, _SHOW_NAME_AND_PEER = 1 << 1, 1 | 4
_NAME, _PEER = 0, 2
"""Numbers of linux/netlink.h, linux/sock_diag.h and linux/unix_diag.h."""
_HEADER, _MESSAGE, _ATTRIBUTE = 16, 16, 4
"""Bytes of an nlmsghdr, of a unix_diag_msg and of an nlattr."""
LOOK_AGAIN_S, LOOKS_AGAIN = 1.0, 3
"""A connection whose other end nobody holds may be one that the daemon has not noticed the end of."""
_ANSWER_S = 1.0
_CHUNK = 1 << 16


class Clients:
    """The clients of the daemon at a socket. on_change: called with whether anybody looks, when that has changed; the
    first time also if somebody does not."""

    wants_write = False

    def __init__(self, path: str, daemon: int, on_change: Callable[[bool], None]) -> None:
        self._path, self._daemon, self._on_change = path, daemon, on_change
        self._watched: tuple[int, object] | None = None
        self._attended = True
        self._again = 0
        self.due: float | None = None

    def look(self) -> None:
        """Looks again, if nobody is known to be there."""
        self._again = LOOKS_AGAIN
        self._search()

    def _search(self) -> None:
        self.due = None
        if self._watched is not None:
            return
        inodes = connected_to(self._path)
        if inodes is None:
            return
        owners = dict(_find_owners(inodes))
        ours = {pid for pid in owners.values() if self._is_ours(pid)}
        others = sorted(pid for pid in owners.values() if pid not in ours)
        for pid in others:
            try:
                self._watched = open_process(pid)
                break
            except OSError:
                continue  # gone meanwhile
        hidden = len(inodes) > len(owners)  # held by a process that we may not look into, or by none any more
        if hidden and not others and self._again:
            self._again -= 1
            self.due = monotonic() + LOOK_AGAIN_S
        else:
            self._say(attended=bool(others) or hidden)

    def _is_ours(self, pid: int) -> bool:
        found = read_process(pid)
        return found is not None and found[0] == self._daemon and is_ours(found[1])

    def _say(self, *, attended: bool) -> None:
        if attended != self._attended:
            self._attended = attended
            self._on_change(attended)

    def close(self) -> None:
        """Nothing is watched any more."""
        watched, self._watched, self.due = self._watched, None, None
        if watched is not None:
            os.close(watched[0])

    # -- as a source of the loop ---------------------------------------------------------------------------------------

    def fileno(self) -> int | None:
        """What to poll."""
        return None if self._watched is None else self._watched[0]

    def read(self) -> None:
        """The one that was watched has ended."""
        self.close()
        self.look()

    def write(self) -> None:
        """Never called."""

    def tick(self, now: float) -> None:
        """Looks once more, when that is due."""
        if self.due is not None and self.due <= now:
            self._search()


def connected_to(path: str) -> set[int] | None:
    """Inodes of the sockets at the other ends of the connections of the server that listens at `path`; None where the
    kernel does not tell."""
    if not sys.platform.startswith("linux"):
        return None
    name, found = os.fsencode(path), set()
    try:
        for attributes in _ask_kernel():
            peer = attributes.get(_PEER)
            if peer is not None and attributes.get(_NAME, b"").rstrip(b"\0") == name:
                found.add(int.from_bytes(peer, sys.byteorder))
        found.discard(0)  # it is closed
    except OSError:
        return None
    return found


def _ask_kernel() -> Iterator[dict[int, bytes]]:
    """The attributes of every connected Unix socket of this network namespace. Raises OSError."""

    def number(value: int, size: int) -> bytes:
        return value.to_bytes(size, sys.byteorder)

    family = b"\1\0\0\0"  # AF_UNIX
    body = family + number(_ESTABLISHED, 4) + number(0, 4) + number(_SHOW_NAME_AND_PEER, 4) + number(0, 8)
    header = number(_HEADER + len(body), 4) + number(_BY_FAMILY, 2) + number(_REQUEST_DUMP, 2) + number(1, 4)
    link = Socket(_AF_NETLINK, _SOCK_RAW, _SOCK_DIAG)
    try:
        link.settimeout(_ANSWER_S)
        link.send(header + number(0, 4) + body)
        while True:
            data = link.recv(_CHUNK)
            at = 0
            while at + _HEADER <= len(data):
                length = int.from_bytes(data[at : at + 4], sys.byteorder)
                kind = int.from_bytes(data[at + 4 : at + 6], sys.byteorder)
                if kind == _DONE:
                    return
                if kind == _ERROR or length < _HEADER:
                    raise OSError("the kernel does not list its sockets")
                yield _read_attributes(data[at + _HEADER + _MESSAGE : at + length])
                at += (length + 3) & ~3
    finally:
        link.close()


def _read_attributes(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    at = 0
    while at + _ATTRIBUTE <= len(data):
        length = int.from_bytes(data[at : at + 2], sys.byteorder)
        if length < _ATTRIBUTE:
            break
        found[int.from_bytes(data[at + 2 : at + 4], sys.byteorder)] = data[at + _ATTRIBUTE : at + length]
        at += (length + 3) & ~3
    return found


def _find_owners(inodes: set[int]) -> Iterator[tuple[int, int]]:
    """(inode, pid) of those sockets that processes hold which we may look into."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    for pid in list_processes() if wanted else ():
        folder = f"/proc/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            continue  # another user's, or gone
        for name in names:
            try:
                inode = wanted.get(os.readlink(f"{folder}/{name}"))
            except OSError:
                continue  # closed meanwhile
            if inode is not None:
                yield inode, pid

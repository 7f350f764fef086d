"""Unix sockets by the C module below `socket`, without the Python above it.

`import socket` brings in enum and selectors and costs half as much as starting Python
(docs/decisions/0010-the-fast-way-in.md). Where the C module is missing, `socket` takes its place.
Refuses to know: the protocol.
"""

import sys
from time import monotonic, sleep

try:
    import _socket as socket
except ImportError:  # pragma: no cover - another Python than CPython
    import socket  # type: ignore[no-redef]

Socket = socket.socket

READ_SIZE = 1 << 16
BUSY_PAUSE_S = 0.01
FOREVER_S = 1e6
"""A wait that is longer needs no limit."""
PEER_CREDENTIALS = {"linux": (1, 17), "darwin": (0, 1)}
"""SOL_SOCKET and SO_PEERCRED; SOL_LOCAL and LOCAL_PEERCRED."""
PEER_PID = {"linux": (1, 17), "darwin": (0, 2)}
"""SO_PEERCRED again, of which the pid is the first number; SOL_LOCAL and LOCAL_PEERPID."""


def connect_unix(path: str, deadline: float) -> Socket:
    """A connected stream socket. deadline: on the monotonic clock. Raises OSError (TimeoutError when it is over)."""
    while True:
        link = Socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            limit_wait(link, deadline)
            try:
                link.connect(path)
            except BlockingIOError:
                _stand_in_line(link, path, deadline)
            return link
        except BlockingIOError:
            link.close()
            sleep(BUSY_PAUSE_S)  # where there is no line, or it is over: `limit_wait` says so
        except BaseException:
            link.close()
            raise


def _stand_in_line(link: Socket, path: str, deadline: float) -> None:
    """Connects where too many are knocking at once. Linux says so at once to a socket with a timeout of Python's; one
    with the kernel's own is let in in its turn, however many try again and again. Raises BlockingIOError."""
    from struct import pack

    left = deadline - monotonic()
    link.settimeout(None)
    seconds, fraction = divmod(min(max(left, BUSY_PAUSE_S), FOREVER_S), 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, pack("ll", int(seconds), int(fraction * 1e6)))
    link.connect(path)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, pack("ll", 0, 0))


def peer_uid(link: Socket) -> int | None:
    """The user at the other end, as the kernel knows it; None where it does not tell."""
    # Linux: pid, uid, gid. macOS: version, uid, groups. Each number has four bytes.
    return _ask_kernel(link, PEER_CREDENTIALS, 4)


def peer_pid(link: Socket) -> int | None:
    """The process at the other end (of a server: the one that began to listen), as the kernel knows it; None where it
    does not tell."""
    return _ask_kernel(link, PEER_PID, 0)


def _ask_kernel(link: Socket, options: "dict[str, tuple[int, int]]", at: int) -> int | None:
    level, option = options.get(sys.platform, (None, 0))
    if level is None:
        return None
    try:
        answer = link.getsockopt(level, option, 128)
    except OSError:
        return None
    return int.from_bytes(answer[at : at + 4], sys.byteorder)


def limit_wait(link: Socket, deadline: float) -> None:
    """Lets the next operation on `link` take until `deadline`. Raises TimeoutError when that is over."""
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError("the deadline is over")
    link.settimeout(left if left < FOREVER_S else None)

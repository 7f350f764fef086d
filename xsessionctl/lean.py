"""JSON and Unix sockets by the C modules below `json` and `socket`, without the Python above them.

`import json` and `import socket` bring in re, enum and selectors and cost more than everything else that `xsessionctl
send` does (docs/decisions/0010-the-fast-way-in.md). The C modules under them are CPython's own implementation of the
same functions. Where they are missing or have changed, the public modules take their place, so that only speed depends
on them. Refuses to know: the protocol.
"""

from __future__ import annotations

import sys
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

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


def _cannot_encode(value: object) -> object:
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def _constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _make_codec() -> tuple[Callable[[object], str], Callable[[object], str], Callable[[str], object]]:
    try:
        import _json

        class _Strict:
            strict = True
            object_hook = object_pairs_hook = array_hook = None
            parse_float, parse_int, parse_constant = float, int, _constant

        scan = _json.make_scanner(_Strict)  # type: ignore[arg-type] # any object with these attributes
        plain, ascii_only = (
            _json.make_encoder(None, _cannot_encode, quote, None, ":", ",", False, False, False)
            for quote in (_json.encode_basestring, _json.encode_basestring_ascii)
        )

        def encode_plain(value: object) -> str:
            return "".join(plain(value, 0))

        def encode_ascii(value: object) -> str:
            return "".join(ascii_only(value, 0))

        def decode(text: str) -> object:
            text = text.strip(" \t\r\n")
            try:
                value, end = scan(text, 0)
            except (StopIteration, SystemError):  # the latter: json's own error class is not loaded
                raise ValueError("not JSON") from None
            if end != len(text):
                raise ValueError("more than one JSON value")
            return value

        if decode(encode_plain({"a": [1, "é", None, True]})) != {"a": [1, "é", None, True]}:  # pragma: no cover
            raise TypeError("another interface than the one known")
    except (ImportError, AttributeError, TypeError):  # pragma: no cover - another Python than CPython as we know it
        from json import dumps, loads

        def encode_plain(value: object) -> str:
            return dumps(value, ensure_ascii=False, separators=(",", ":"))

        def encode_ascii(value: object) -> str:
            return dumps(value, separators=(",", ":"))

        def decode(text: str) -> object:
            return loads(text)

    return encode_plain, encode_ascii, decode


encode, encode_ascii, decode = _make_codec()
"""A value as compact JSON; the same in ASCII, which no terminal, locale or pipe can change; the value of a JSON text
(ValueError).
"""


def connect_unix(path: str, deadline: float) -> Socket:
    """A connected stream socket. deadline: on the monotonic clock. Raises OSError (TimeoutError when it is over)."""
    while True:
        link = Socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            limit_wait(link, deadline)
            link.connect(path)
            return link
        except BlockingIOError:
            link.close()  # too many are knocking at once; Linux says so at once when there is a timeout
            sleep(BUSY_PAUSE_S)
        except BaseException:
            link.close()
            raise


def peer_uid(link: Socket) -> int | None:
    """The user at the other end, as the kernel knows it; None where it does not tell."""
    level, option = PEER_CREDENTIALS.get(sys.platform, (None, 0))
    if level is None:
        return None
    try:
        credentials = link.getsockopt(level, option, 128)
    except OSError:
        return None
    # Linux: pid, uid, gid. macOS: version, uid, groups. Each number has four bytes.
    return int.from_bytes(credentials[4:8], sys.byteorder)


def limit_wait(link: Socket, deadline: float) -> None:
    """Lets the next operation on `link` take until `deadline`. Raises TimeoutError when that is over."""
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError("the deadline is over")
    link.settimeout(left if left < FOREVER_S else None)

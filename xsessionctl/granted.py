"""Being inside a container: the one socket and the token that a human granted, and no other way.

Laws: where a socket was granted nothing else is looked for, and no broker is started; the token is read when it is used
and goes to that socket only. Refuses to know: requests.
"""

from __future__ import annotations

import os

from xsessionctl.client import ClientError, Connection, connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET, TOKEN_FILE = "XSESSIOND_SOCKET", "XSESSIOND_TOKEN_FILE"
LONGEST_TOKEN = 256


def granted_socket(environ: Mapping[str, str] = os.environ) -> str | None:
    """The socket that this process was granted; None where it is in no container of ours."""
    return environ.get(SOCKET, "").strip() or None


def connect_granted(path: str, deadline: float, environ: Mapping[str, str] = os.environ) -> Connection:
    """A link that acts as the granted session. Raises ClientError."""
    token = _read_token(environ.get(TOKEN_FILE, "").strip())
    try:
        link = connect(path, deadline)
    except FileNotFoundError:
        raise _gone(path, "is not there") from None
    except OSError as problem:
        raise _gone(path, f"cannot be connected to: {problem.strerror or problem}") from None
    link.token = token
    return link


def _read_token(path: str) -> str:
    if not path:
        raise ClientError(
            "bad_config", f"{SOCKET} is set, and {TOKEN_FILE} is not.", "`xsessionctl grant` prints both."
        )
    try:
        with open(path, encoding="ascii") as file:
            return file.read(LONGEST_TOKEN).strip()
    except (OSError, ValueError) as problem:
        text = f"The session's token cannot be read: {problem}."
        raise ClientError("bad_config", text, "Mount the directory that `xsessionctl grant` made.") from None


def _gone(path: str, what: str) -> ClientError:
    return ClientError(
        "no_broker",
        f"{path} {what}.",
        "Mount the directory that `xsessionctl grant` made, not the socket in it; the broker runs outside.",
    )

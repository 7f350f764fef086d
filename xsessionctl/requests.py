"""One request from a terminal: find the broker, start it if it is missed, ask, and repeat once if the link was lost on
the way.

Laws: only what may be repeated is repeated. A `send` may, because it always carries a key: the broker takes the same
key once. Refuses to know: options, printing.
"""

from __future__ import annotations

from xsessionctl.client import ClientError
from xsessionctl.lifecycle import connect_or_start, find_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

REPEATED = frozenset(("list", "whoami", "check", "inbox", "log", "status", "send"))
"""Methods that may be asked again without doing anything twice."""


def ask(method: str, params: Mapping[str, object], deadline: float) -> dict[str, object]:
    """The result of `method`. deadline: on the monotonic clock. Raises ClientError."""
    try:
        return _ask_once(method, params, deadline)
    except ClientError as problem:
        # The broker went away between accepting and answering, as when it is replaced or killed.
        if not problem.sent or problem.code != "no_broker" or method not in REPEATED:
            raise
    return _ask_once(method, params, deadline)


def send(params: Mapping[str, object], deadline: float) -> dict[str, object]:
    """The result of `send`, whose params have a key. Raises ClientError."""
    try:
        return ask("send", params, deadline)
    except ClientError as problem:
        if problem.sent and problem.code in ("no_broker", "timeout"):
            problem.text += " It is not known whether the message was accepted."
            problem.hint = f"Sending the same again with `--key {params['key']}` cannot deliver it twice."
        raise


def _ask_once(method: str, params: Mapping[str, object], deadline: float) -> dict[str, object]:
    with connect_or_start(find_paths(), deadline) as link:
        return link.call(method, params)

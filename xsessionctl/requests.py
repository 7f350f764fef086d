"""One request from a terminal: find the broker, start it if it is missed, ask, and repeat once if the link was lost on
the way.

Laws: only what may be repeated is repeated. A `send` may be if it carries a key, since the broker takes the same key
once; otherwise its sender is told that the outcome is not known. Refuses to know: options, printing.
"""

from __future__ import annotations

from xsessionctl.client import ClientError
from xsessionctl.lifecycle import connect_or_start, find_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

REPEATED = frozenset(("list", "whoami", "check", "inbox", "log", "hold_queue", "trusts", "explain", "config", "reload"))
"""Methods that may be asked again without doing anything twice."""


def ask(method: str, params: Mapping[str, object], deadline: float) -> dict[str, object]:
    """The result of `method`. deadline: on the monotonic clock. Raises ClientError."""
    try:
        return _ask_once(method, params, deadline)
    except ClientError as problem:
        if not problem.sent:
            raise
        # The broker went away between accepting and answering, as when it is replaced or killed.
        if problem.code != "no_broker" or not (method in REPEATED or params.get("key")):
            raise outcome_unknown(problem) if method == "send" else problem from None
    return _ask_once(method, params, deadline)


def outcome_unknown(problem: ClientError) -> ClientError:
    """The failure of a `send` that may have arrived all the same, saying so."""
    problem.text += " It is not known whether the message was accepted."
    problem.hint = "`xsessionctl check` lists what was. With `--key K` a send may be repeated safely."
    return problem


def _ask_once(method: str, params: Mapping[str, object], deadline: float) -> dict[str, object]:
    with connect_or_start(find_paths(), deadline) as link:
        return link.call(method, params)

"""One request from a terminal: find the broker, start it if it is missed, ask, and repeat that if the broker was being
replaced or the link was lost on the way.

Laws: only what may be repeated is repeated. A `send` may be if it carries a key, since the broker takes the same key
once; otherwise its sender is told that the outcome is not known. Mail that came with an answer is acknowledged over
the same link once it was shown, and not before. Refuses to know: options, printing.
"""

from __future__ import annotations

from contextlib import suppress
from time import monotonic, sleep

from xsessionctl.client import ClientError
from xsessionctl.lifecycle import connect_if_running, connect_or_start, find_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import TypeVar

    from xsessionctl.client import Connection
    from xsessiond.paths import Paths

    Result = TypeVar("Result")

REPEATED = frozenset(
    "list whoami check inbox log hold_queue trusts grants explain config reload status charges".split()
)
"""Methods that may be asked again without doing anything twice."""


AGAIN = 20
"""How often a request is repeated: a broker that hands over answers so for a second at most, each time saying when."""


class Lease:
    """Keeps the link of an `ask` open, since the mail that came over it is only lent to it: until it is acknowledged,
    or the link ends and it waits again under the same id. A context.
    """

    __slots__ = ("link",)

    def __init__(self) -> None:
        self.link: Connection | None = None

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: BaseException | type[BaseException] | TracebackType | None) -> None:
        if self.link is not None:
            self.link.close()

    def acknowledge(self, *ids: object) -> None:
        """These messages were shown. Should the broker go away meanwhile, they come again."""
        if self.link is not None:
            with suppress(ClientError):
                self.link.call("ack", {"ids": list(ids)})


def ask(method: str, params: Mapping[str, object], deadline: float, lease: Lease | None = None) -> dict[str, object]:
    """The result of `method`. deadline: on the monotonic clock. lease: keeps the link. Raises ClientError."""
    try:
        return repeat(
            lambda: _ask_once(method, params, deadline, lease), deadline, harmless=_is_harmless(method, params)
        )
    except ClientError as problem:
        raise outcome_unknown(problem) if method == "send" and problem.sent else problem from None


def ask_running(paths: Paths, method: str, params: Mapping[str, object], deadline: float) -> dict[str, object] | None:
    """As `ask`, but no broker is started: None where none runs. Its `status` works with one of any version."""

    def once() -> dict[str, object] | None:
        link = connect_if_running(paths, deadline)
        if link is None:
            return None
        with link:
            return link.call(method, params)

    return repeat(once, deadline, harmless=_is_harmless(method, params))


def none_runs() -> ClientError:
    """What somebody is told who needs a broker that runs."""
    return ClientError("no_broker", "No broker is running.", "`xsessionctl start` starts it; so does any session.")


def _is_harmless(method: str, params: Mapping[str, object]) -> bool:
    return method in REPEATED or bool(params.get("key"))


def repeat(work: Callable[[], Result], deadline: float, *, harmless: bool = True) -> Result:
    """What `work` returns, which is done again while brokers go away under it. See `wait_for_successor`. Raises
    ClientError.
    """
    for _ in range(AGAIN):
        try:
            return work()
        except ClientError as problem:
            if not wait_for_successor(problem, deadline, harmless=harmless):
                raise
    return work()


def wait_for_successor(problem: ClientError, deadline: float, *, harmless: bool) -> bool:
    """Whether a request that failed so should be asked again, after the pause that this makes: the broker went away
    between accepting and answering, or is about to, since it is replaced or was killed. harmless: asking twice does
    nothing twice.
    """
    pause = problem.retry_after_s or 0.0
    may = problem.unheard or (problem.sent and harmless)
    if problem.code != "no_broker" or not may or monotonic() + pause > deadline:
        return False
    sleep(pause)
    return True


def outcome_unknown(problem: ClientError) -> ClientError:
    """The failure of a `send` that may have arrived all the same, saying so."""
    problem.text += " It is not known whether the message was accepted."
    problem.hint = "`xsessionctl check` lists what was. With `--key K` a send may be repeated safely."
    return problem


def _ask_once(method: str, params: Mapping[str, object], deadline: float, lease: Lease | None) -> dict[str, object]:
    link = connect_or_start(find_paths(), deadline)
    if lease is None:
        with link:
            return link.call(method, params)
    if lease.link is not None:
        lease.link.close()
    lease.link = link
    return link.call(method, params)

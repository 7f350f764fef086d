"""Following what the broker tells by itself, for as long as somebody watches, over any restart of it.

Laws: a broker that hands over is followed to its successor, with the same question; one that stops ends it. Refuses to
know: what is followed, and what is printed.
"""

from __future__ import annotations

from xsessionctl.client import ClientError, deadline_in
from xsessionctl.lifecycle import connect_or_start, find_paths
from xsessionctl.requests import AGAIN, wait_for_successor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from xsessionctl.outcome import Document

RETURN_S = 30.0
"""How long a successor may take to answer; it tried itself before the broker handed over."""


def follow(
    method: str, params: Callable[[], Mapping[str, object]], deadline: float, again_s: float | None = None
) -> Iterator[tuple[str, Document]]:
    """("answer", the result), then (method, params) of each notification; ("again", {}) after `again_s` seconds without
    one; and from "answer" on again once the broker was replaced. params: called for each question. deadline: for the
    first answer. Raises ClientError, also when the broker stops.
    """
    again = 0
    while True:
        with connect_or_start(find_paths(), deadline) as link:
            try:
                answer = link.call(method, params())
            except ClientError as problem:
                again += 1
                if again > AGAIN or not wait_for_successor(problem, deadline, harmless=True):
                    raise
                continue
            again = 0
            yield "answer", answer
            while True:
                link.deadline = float("inf") if again_s is None else deadline_in(again_s)
                try:
                    name, news = next(link.notifications())
                except ClientError as problem:
                    if problem.code != "timeout":
                        raise
                    yield "again", {}
                    continue
                if name != "bye":
                    yield name, news
                elif news.get("reason") == "restarting":
                    break
                else:
                    raise ClientError("no_broker", "The broker stopped.", "Follow again once it runs.")
        deadline = deadline_in(RETURN_S)

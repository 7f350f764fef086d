"""A link to no broker: it only notes what it is asked, and answers what a test says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xsessionctl.shim.broker_link import UP, BrokerLink
from xsessionctl.shim.identity import Identity
from xsessionctl.shim.rendezvous import Rendezvous

if TYPE_CHECKING:
    from xsessionctl.shim.peer import Done


class NotedLink(BrokerLink):
    """Answers nothing by itself. asked: (method, params, done). told: notifications. wanted, renewed: how often."""

    def __init__(self, identity: Identity, state: str = UP) -> None:
        super().__init__(identity, Rendezvous())
        self.state = state
        self.asked: list[tuple[str, dict[str, Any], Done]] = []
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.wanted = 0
        self.renewed = 0

    def want(self) -> None:
        self.wanted += 1

    def ask(self, method: str, params: Any, deadline: float, done: Done) -> int:
        self.asked.append((method, params, done))
        return len(self.asked)

    def tell(self, method: str, params: Any) -> None:
        self.told.append((method, params))

    def answer(self, result: dict[str, Any] | None, error: dict[str, Any] | None = None) -> None:
        """Answers what was asked last."""
        self.asked[-1][2](result, error)

    def methods(self) -> list[str]:
        """What was asked, by name."""
        return [method for method, _, _ in self.asked]

    def last(self, method: str) -> dict[str, Any]:
        """The params of the last request of this kind."""
        return next(params for name, params, _ in reversed(self.asked) if name == method)

    def answer_to(self, method: str, result: dict[str, Any] | None, error: dict[str, Any] | None = None) -> None:
        """Answers the last request of this kind."""
        next(done for name, _, done in reversed(self.asked) if name == method)(result, error)

    def renew(self) -> None:
        self.renewed += 1
        self.renewing = True

"""How the store is, as `status` tells it.

Laws: whether it can be written and whether it is sound are two things, each of which is learned without the other: a
look that finds it sound does not undo that a send just failed, and a write does not mend damage. What a send would meet
is told first. Refuses to know: why it failed.
"""

from __future__ import annotations

from xsessiond.core.effects import StoreReported


class StoreHealth:
    """Of one store."""

    __slots__ = ("_check", "_trouble")

    def __init__(self) -> None:
        self._check = True, "not checked yet"
        self._trouble = ""

    def see(self, event: StoreReported) -> None:
        """The shell knows something new."""
        if event.checked is not None:
            self._check = event.checked
            return
        self._trouble = ""
        if self._check[0]:
            self._check = True, "The store works again."

    def fail(self, why: str) -> None:
        """Something could not be stored."""
        self._trouble = why

    def tell(self) -> dict[str, object]:
        """The `store` of `status`."""
        ok, detail = self._check
        return {"ok": ok and not self._trouble, "detail": self._trouble or detail}

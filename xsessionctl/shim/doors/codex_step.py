"""When a text may join a turn of Codex that runs: between two requests to its model, or while a tool runs.

    the model answers ──a tool begins──▶ its tools run ──its answer and they are done──▶ the model is asked again
                                             │ for QUIET_S: now                   └── now

Codex takes input at any time, but it gives up a request that is open: what the model had written by then is lost, and
it is asked again. So a text waits. Codex does not say when an answer is complete, only, with the tokens that it took,
when its tools are done too. What was going on before somebody listened it does not tell; then the first such word is
either about tools, or about the last answer of the turn, of whose end the next word is.

Law: it is told in order what Codex says of one thread, and the time. Refuses to know: texts, what is asked of Codex.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TOOLS = frozenset(
    ("collabAgentToolCall", "commandExecution", "dynamicToolCall", "fileChange", "imageView", "mcpToolCall", "sleep")
)
"""Items of a turn that Codex itself carries out; others are parts of an answer."""
QUIET_S = 1.0
"""A tool begins as soon as the model has asked for it, and the same answer may ask for more. One that has run for so
long with nothing else begun was the last of its answer."""
ENDED_WITHIN_S = 0.25
"""After the last answer of a turn Codex ends it at once (seen: 15 ms)."""


class Step:
    """One step of a turn after the other. due: when a text may join, as far as is known; None: not to be foreseen."""

    __slots__ = ("_acts", "due")

    def __init__(self) -> None:
        self._acts = False
        self.due: float | None = None

    def hear(self, method: str, params: Mapping[str, object], now: float) -> None:
        """Codex says something of the thread."""
        if method == "item/started":
            item = params.get("item")
            self._acts = self._acts or (isinstance(item, dict) and str(item.get("type")) in TOOLS)
            self.due = now + QUIET_S if self._acts else None
        elif method == "thread/tokenUsage/updated":
            self.due = now if self._acts else now + ENDED_WITHIN_S
            self._acts = False

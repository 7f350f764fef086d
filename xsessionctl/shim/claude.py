"""Which tool calls of a session of Claude Code are a subagent's.

Claude Code has one MCP server for a session and all its subagents, and a call says no more of where it came from than
its id. A hook before the call (PreToolUse) has the same id and, inside a subagent and only there, an `agent_id`. It is
run to its end before the call is made.

Laws: what the hook did not say is not known, and counts as the session's own. What is remembered is bounded. Refuses to
know: other hooks, the broker.
"""

from __future__ import annotations

from xsessiond.core.limits import SHIM_TOOL_USE_ID, SHIM_TOOL_USES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

BEFORE_CALL = "PreToolUse"
"""The event that tells."""
CALL_FIELDS = ("agent_id", "tool_use_id")
"""What it tells, by the harness's own names. Claude Code writes nothing where it has none of the kind."""
_CALL_ID = "claudecode/toolUseId"


class ToolUses:
    """Those that are known to be a subagent's, by their ids."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, None] = {}  # the oldest first

    def hear(self, fields: Mapping[str, object]) -> None:
        """A call is about to be made. fields: of the hook that says so."""
        call_id = fields.get("tool_use_id")
        if not isinstance(call_id, str) or not 0 < len(call_id) <= SHIM_TOOL_USE_ID:
            return
        self._known.pop(call_id, None)  # some model APIs use an id again
        if fields.get("agent_id"):
            self._known[call_id] = None
            if len(self._known) > SHIM_TOOL_USES:
                del self._known[next(iter(self._known))]

    def is_subagents(self, meta: Mapping[str, object]) -> bool:
        """Whether a call with this `_meta` is one of them. Asked again, it says the same."""
        call_id = meta.get(_CALL_ID)
        return isinstance(call_id, str) and call_id in self._known

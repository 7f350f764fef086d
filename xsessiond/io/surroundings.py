"""What the engine needs of the rest of the shell, as `Service` gives it and tests write it down.

Laws: everything returns at once; nothing here decides. Refuses to know: frames, the store.
"""

from __future__ import annotations

from typing import Protocol

from xsessiond.core.effects import ProcessId


class Surroundings(Protocol):
    """What the engine needs of the rest of the shell. All return at once."""

    def open_door(self, session_id: str, ref: str) -> None:
        """Listens on the session's private socket; nothing to do if it does."""

    def close_door(self, session_id: str, ref: str) -> None:
        """Stops listening on it."""

    def watch(self, process: ProcessId) -> bool:
        """Reports the end of the process; False if it has ended."""

    def unwatch(self, process: ProcessId) -> None:
        """Takes back one `watch`."""

    def write_log(self, level: str, what: str, facts: dict[str, object]) -> None:
        """A line for the operator."""

    def stop(self, reason: str) -> None:
        """The broker decided to end."""

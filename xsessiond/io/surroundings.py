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

    def read_project(self, session_id: str, cwd: str) -> None:
        """Answers with `ProjectRead`, later, and again at each change."""

    def forget_project(self, session_id: str) -> None:
        """The project's changes do not matter for this session any more."""

    def read_settings(self) -> None:
        """Answers with `SettingsRead`, later."""

    def check_passphrase(self, ticket: int, text: str) -> None:
        """Answers with `PassphraseChecked`, later."""

    def notify(self, title: str, text: str) -> None:
        """Tells the user, if a command for that is set."""

    def write_log(self, level: str, what: str, facts: dict[str, object]) -> None:
        """A line for the operator."""

    def stop(self, reason: str) -> None:
        """The broker decided to end."""

"""What the engine needs of the rest of the shell, as `Service` gives it and tests write it down.

Laws: everything returns at once; nothing here decides. Refuses to know: frames, the store.
"""

from __future__ import annotations

from typing import Protocol

from xsessiond.core.effects import (
    CheckPassphrase,
    CloseDoor,
    Effect,
    EndAttempt,
    FindSuccessor,
    ForgetProject,
    Notify,
    OpenDoor,
    ProcessId,
    ReadProject,
    ReadSettings,
    StartConversation,
    UnwatchProcess,
    WriteLog,
)


class Surroundings(Protocol):
    """What the engine needs of the rest of the shell. All return at once."""

    @property
    def texts_dir(self) -> str:
        """Where clients put the texts that are too long for a harness."""

    def open_door(self, session_id: str, ref: str, granted: str | None) -> None:
        """Listens on the session's private socket; nothing to do if it does. granted: where that is, for one with a
        grant."""

    def close_door(self, session_id: str) -> None:
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

    def start_conversation(self, ticket: int, argv: tuple[str, ...], cwd: str) -> None:
        """Answers with `ConversationStarted`, when the command ends."""

    def end_attempt(self, ticket: int, *, arrived: bool) -> None:
        """The command is to be left alone, or ended."""

    def notify(self, title: str, text: str) -> None:
        """Tells the user, if a command for that is set."""

    def write_log(self, level: str, what: str, facts: dict[str, object]) -> None:
        """A line for the operator."""

    def find_successor(self) -> None:
        """Answers with `SuccessorFound`, later."""

    def stop(self, reason: str, *, handover: bool) -> None:
        """The broker decided to end; handover: for a successor that was found."""


def act_at_once(around: Surroundings, effect: Effect) -> bool:
    """Has an effect done that waits for no commit; False if it is none of these."""
    match effect:
        case OpenDoor():
            around.open_door(effect.session_id, effect.ref, effect.path)
        case CloseDoor():
            around.close_door(effect.session_id)
        case UnwatchProcess():
            around.unwatch(effect.process)
        case ReadProject():
            around.read_project(effect.session_id, effect.cwd)
        case ForgetProject():
            around.forget_project(effect.session_id)
        case ReadSettings():
            around.read_settings()
        case CheckPassphrase():
            around.check_passphrase(effect.ticket, effect.text)
        case StartConversation():
            around.start_conversation(effect.ticket, effect.argv, effect.cwd)
        case EndAttempt():
            around.end_attempt(effect.ticket, arrived=effect.arrived)
        case FindSuccessor():
            around.find_successor()
        case Notify():
            around.notify(effect.title, effect.text)
        case WriteLog():
            around.write_log(effect.level, effect.what, effect.facts)
        case _:
            return False
    return True

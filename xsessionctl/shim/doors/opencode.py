"""opencode's door: a text is handed to our plugin there, which prompts the session with it.

A prompt while a turn runs is read with the next step of that turn, and does not disturb the tool that runs; in an idle
session it starts one. What a turn has of it is told by the plugin (`xsessionctl.shim.opencode`).

    post ──request──▶ plugin ──promptAsync──▶ opencode
         ◀─accepted, "refused" (not now) or an error─┘
         ◀─seen: it is a prompt of the conversation; removed: it is none any more; arrived: a step has had it

Laws: one text at a time. Refuses to know: how the plugin is reached.
"""

from __future__ import annotations

from time import monotonic

from xsessionctl.shim.door import GONE, REFUSED, WRITTEN, Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from xsessionctl.shim.door import Done

    class Write(Protocol):
        """Sends a text to the plugin for one session; returns the id by which `answered` is told."""

        def __call__(self, text: str, *, quiet: bool) -> int:
            """quiet: it must start no turn."""


POST_S = 30.0
"""How long the plugin is waited for: it asks opencode twice, with shorter limits of its own. And, once opencode has
accepted a text, for the prompt that it makes of it."""
MOST = 4 << 20
"""Longer than any frame of the broker: opencode takes a prompt of any length, and would ask its user before the model
may read a file outside of the project."""


class PluginDoor(Door):
    """The way into one session. locked: its user has undone a part of the conversation and may want it back; the next
    prompt would take it away for good."""

    modes = ("auto", "followup", "inject", "steer")
    most = MOST
    keeps = True

    def __init__(self, write: Write) -> None:
        super().__init__()
        self._write = write
        self._open = True
        self.locked = False
        self._post: int | None = None  # of the last text, until it has arrived or is given up
        self._done: Done = _ignore
        self._accepted = False

    @property
    def is_open(self) -> bool:
        """Whether the plugin took the last text, or was not asked since."""
        return self._open and not self.locked

    def post(self, text: str, *, busy: bool, mode: str, done: Done) -> None:
        """See `Door`."""
        self._done, self._accepted = done, False
        self.due = monotonic() + POST_S
        self._post = self._write(text, quiet=busy and mode in ("inject", "steer"))

    def answered(self, post: int, error: str | None) -> None:
        """What became of a post. error: None if it was accepted, else a code of the plugin."""
        if post != self._post or self._accepted:
            return
        if error is not None:
            self._give_up(REFUSED if error == "refused" else GONE)
            return
        self._open = self._accepted = True
        self.due = monotonic() + POST_S
        self._done(WRITTEN)

    def seen(self, post: int) -> None:
        """It is a prompt of the conversation now, which the next step will have."""
        self.answered(post, None)  # whatever else is said of it
        if post == self._post:
            self.due = None

    def removed(self, post: int) -> None:
        """It is none any more, and no step has had it."""
        if post == self._post:
            self._give_up(REFUSED)

    def arrived(self, post: int) -> None:
        """A step has had it."""
        if post == self._post:
            self._forget()

    def lock(self, *, locked: bool) -> None:
        """See the class."""
        if locked != self.locked:
            self.locked = locked
            self.on_change()

    def reopen(self) -> None:
        """The session did something: then the plugin can reach it."""
        if not self._open:
            self._open = True
            self.on_change()

    def close(self) -> None:
        """Nothing more is posted."""
        self._open = False
        self._forget()

    def tick(self, now: float) -> None:
        """Gives up a plugin that does not answer, and what opencode took and could make no prompt of."""
        if self.due is not None and self.due <= now:
            self._give_up(GONE)

    def _give_up(self, outcome: str) -> None:
        done = self._done
        self._forget()
        self._open = outcome != GONE
        done(outcome)

    def _forget(self) -> None:
        self._post = self.due = None
        self._done = _ignore


def _ignore(_: str) -> None:
    pass

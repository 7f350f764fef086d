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
    """The way into one session. under_way: the id of the post that has no answer yet. locked: its user has undone a
    part of the conversation and may want it back; the next prompt would take it away for good."""

    modes = ("auto", "followup", "inject", "steer")
    most = MOST
    keeps = True

    def __init__(self, write: Write) -> None:
        super().__init__()
        self._write = write
        self._open = True
        self.locked = False
        self._done: Done | None = None
        self._written: tuple[int, Done] | None = None
        self.under_way: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the plugin took the last text, or was not asked since."""
        return self._open and not self.locked

    def post(self, text: str, *, busy: bool, mode: str, done: Done) -> None:
        """See `Door`."""
        self._done = done
        self.due = monotonic() + POST_S
        self.under_way = self._write(text, quiet=busy and mode in ("inject", "steer"))

    def answered(self, post: int, error: str | None) -> None:
        """What became of a post. error: None if it was accepted, else a code of the plugin."""
        if post == self.under_way:
            self._end(WRITTEN if error is None else REFUSED if error == "refused" else GONE)

    def seen(self, post: int) -> None:
        """It is a prompt of the conversation now, which the next step will have."""
        self.answered(post, None)  # whatever else is said of it
        if self._written is not None and self._written[0] == post:
            self.due = None

    def removed(self, post: int) -> None:
        """It is none any more, and no step has had it."""
        self._take_back(post, REFUSED)

    def arrived(self, post: int) -> None:
        """A step has had it."""
        if self._written is not None and self._written[0] == post:
            self._written = self.due = None

    def _take_back(self, post: int, outcome: str) -> None:
        if self._written is not None and self._written[0] == post:
            done = self._written[1]
            self._written = self.due = None
            self._open = outcome != GONE
            done(outcome)

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
        self._done = self._written = self.due = self.under_way = None

    def tick(self, now: float) -> None:
        """Gives up a plugin that does not answer."""
        if self.due is None or self.due > now:
            return
        if self.under_way is not None:
            self._end(GONE)
        elif self._written is not None:
            self._take_back(self._written[0], GONE)  # opencode took it, and then could not make a prompt of it

    def _end(self, outcome: str) -> None:
        done, post = self._done, self.under_way
        self._done = self.due = self.under_way = None
        self._open = outcome != GONE
        if outcome == WRITTEN and done is not None and post is not None:
            self._written, self.due = (post, done), monotonic() + POST_S
        if done is not None:
            done(outcome)

"""What the broker has for this session, and the words for it: leased, acknowledged, given back.

Laws: one lease is asked for at a time; news that was fetched is kept until it has been told, because the broker gives
it once; nothing here decides whether anything is to be taken. Refuses to know: doors, hooks, what becomes of a batch.
"""

from __future__ import annotations

from time import monotonic

from xsessionctl.shim.mail import Batch
from xsessiond.core import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from xsessionctl.shim.broker_link import BrokerLink
    from xsessionctl.shim.mail import Mailbag

NEWS_UNITS = 2500
"""Characters of news that go with one batch; the rest goes with the next."""


class Supply:
    """One session's.

    waiting: mail. wake: something to say that is worth a turn of its own. taking: a lease is being asked for.
    on_change: called when `anything_waits` may have changed.
    """

    __slots__ = ("_bag", "_link", "_news", "_owner", "_untold", "on_change", "taking", "waiting", "wake")

    def __init__(self, link: BrokerLink, bag: Mailbag) -> None:
        self._link, self._bag = link, bag
        self._untold: list[str] = []
        self._owner = object()  # the conversation that things are fetched for
        self._news = False
        self.waiting = self.wake = self.taking = False
        self.on_change: Callable[[], None] = _nothing

    @property
    def news(self) -> bool:
        """Whether there is something to say that is no message."""
        return self._news or bool(self._untold or self._link.notices)

    @property
    def anything_waits(self) -> bool:
        """Whether there is something for this session's model."""
        return self.waiting or self.news

    def hear(self, method: str, params: dict[str, object]) -> bool:
        """The broker says something by itself. Whether it is about what it has."""
        if method == "mail":
            self.waiting = True
        elif method == "news":
            self._news = True
            self.wake = self.wake or params.get("wake") is True
        else:
            return False
        self.on_change()
        return True

    def begin(self, queued: int) -> None:
        """The session is attached; so many messages wait. What was not confirmed over an earlier link is so now."""
        unacked = sorted(self._bag.unacked)
        if unacked:
            self.acknowledge(unacked)
        self.taking = False
        self.note_left(queued)

    def forget(self) -> None:
        """Another conversation: what waited was not for it."""
        self._owner = object()
        self.waiting = self._news = self.wake = False
        self._untold.clear()
        self.on_change()

    def note_left(self, left: int) -> None:
        """So many still wait, as an answer of the broker said."""
        self.waiting = left > 0
        self.on_change()

    def take(self, count: int, most: int, done: Callable[[Batch], None]) -> None:
        """Leases up to `count` messages, of at most `most` characters, and fetches the news. done: called with them; an
        empty batch where nothing could be had."""
        self.taking, owner = True, self._owner

        def answered(result: dict[str, object] | None, error: dict[str, object] | None) -> None:
            self.taking = False
            if result is None or owner is not self._owner:
                done(Batch())  # the end of the session before, on its way by now, gives back what that one leased
                return
            from xsessionctl.shim.bodies import spill

            batch = self._bag.open(result, most - NEWS_UNITS, spill)
            self.release(batch.surplus)
            self.acknowledge(batch.stale)
            batch.news[:0] = [*self._link.notices, *self._untold]
            self._link.notices.clear()
            self._untold = batch.cut_news(NEWS_UNITS)
            self._news = self.wake = False
            if count:
                self.waiting = batch.left > 0
            self.on_change()
            done(batch)

        self._link.ask("take", {"max": count, "render": True}, monotonic() + limits.SHIM_HANDSHAKE_S, answered)

    def put_back(self, batch: Batch) -> None:
        """A batch was not delivered: it waits again, and its news is told with the next."""
        self.waiting = self.waiting or bool(batch.ids)
        self._untold += batch.news
        self.release(batch.ids)
        self.on_change()

    def hand(self, ids: list[str]) -> None:
        """Tells the broker that the harness has these."""
        if ids:
            self._link.tell("handed", {"ids": ids})

    def acknowledge(self, ids: list[str]) -> None:
        """Tells the broker that these are in the context; again with the next link, if it has not answered."""
        if ids:
            self.confirm(ids)

    def confirm(self, ids: list[str]) -> None:
        """The same, and that the news of the last batch has been told; there may be no message beside it."""
        if self._link.state != "up":
            return

        def done(result: dict[str, object] | None, error: dict[str, object] | None) -> None:
            if result is not None:
                self._bag.unacked.difference_update(ids)

        self._link.ask("ack", {"ids": ids}, monotonic() + limits.SHIM_ANSWER_S, done)

    def release(self, ids: list[str]) -> None:
        """Gives these back."""
        if ids:
            self._link.tell("release", {"ids": ids})


def _nothing() -> None:
    pass

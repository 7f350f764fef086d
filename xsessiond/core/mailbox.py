"""The life of a message as a table, and the box of one receiver: what waits, what is leased.

    queued --hand--> handed --ack--> delivered --reply--> replied

Laws: a state changes only by `advance`, by the table; a lease is not a state: a leased message is still `queued`
(nobody is known to have it) and comes back in its old place when the lease ends. Order of acceptance is the order of
delivery, of one sender whatever the modes are. Refuses to know: links beyond their number, who may send, what is said
to whom.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from msgspec import Raw, Struct

from xsessiond.core.modes import is_due
from xsessiond.core.records import HoldRow, MessageRow

FINAL = frozenset({"denied", "expired", "refused", "discarded"})
"""States that nothing follows and in which the text never reached its receiver."""
WAITING = frozenset({"held", "queued", "handed"})
"""States in which a message still has its way to go. Exactly these are kept in memory."""

TRANSITIONS = {
    ("held", "release"): "queued",
    ("held", "deny"): "denied",
    ("held", "expire"): "expired",
    ("held", "refuse"): "refused",
    ("held", "discard"): "discarded",
    ("queued", "hand"): "handed",
    ("queued", "ack"): "delivered",
    ("queued", "expire"): "expired",
    ("queued", "refuse"): "refused",
    ("queued", "discard"): "discarded",
    ("handed", "hand"): "handed",
    ("handed", "ack"): "delivered",
    ("handed", "return"): "queued",
    ("handed", "expire"): "expired",
    ("handed", "discard"): "discarded",
    ("delivered", "reply"): "replied",
    ("replied", "reply"): "replied",
}
"""state, event → state. A missing pair cannot happen; asking for it is our own bug."""


def settled(state: str) -> str:
    """The state of a message that memory does not know any more, from what the store says. The store may lag behind an
    acknowledgement, which is the way out that is not waited for."""
    return "delivered" if state in WAITING else state


class Message(Struct, eq=False):
    """A message on its way; made by `message_of`. row: as it was stored; what changes since stands here. origin: its
    `from`, encoded. lease: the link that has it, or None. hold: why a human must decide, or had to. flags: control
    markup in the text, once somebody asked. stalled: its sender was told that nothing shows that it was
    read. id, seq, size and target are the row's."""

    row: MessageRow
    origin: Raw
    id: str
    seq: int
    size: int
    target: str
    state: str
    lease: int | None = None
    handed_at: int | None = None
    hold: HoldRow | None = None
    flags: list[str] | None = None
    stalled: bool = False

    def advance(self, event: str) -> str:
        """Moves by the table and returns the new state. Raises KeyError naming state and event."""
        self.state = TRANSITIONS[self.state, event]
        return self.state


def message_of(row: MessageRow, origin: Raw) -> Message:
    """The message of a row. One that was `handed` before a restart waits again: whoever had it had it from another
    broker."""
    state = "queued" if row.state == "handed" else row.state
    return Message(row, origin, row.id, row.seq, row.bytes, row.target_id, state)


class Box:
    """What one receiver has not taken. `waiting` is in order; `leased` by id, in the order of leasing; `held` by id, in
    order: it is not the receiver's before a human lets it go. size, held_size: bytes of the bodies in them."""

    __slots__ = ("_choosy", "held", "held_size", "leased", "size", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Message] = deque()
        self.leased: dict[str, Message] = {}
        self.held: dict[str, Message] = {}
        self.size = self.held_size = 0
        self._choosy = False  # whether something that waits may be of a mode that is not always due

    def __len__(self) -> int:
        """Messages that count against the queue's limit: waiting and leased."""
        return len(self.waiting) + len(self.leased)

    def __iter__(self) -> Iterator[Message]:
        """All of them, in order of acceptance."""
        return iter(sorted([*self.leased.values(), *self.waiting], key=_by_seq))

    def put(self, message: Message) -> None:
        """A new one, at the end."""
        self.waiting.append(message)
        self.size += message.size
        if message.row.mode != "auto":
            self._choosy = True

    def hold(self, message: Message) -> None:
        """A new one that must not be taken yet."""
        self.held[message.id] = message
        self.held_size += message.size

    def let_go(self, messages: Iterable[Message]) -> None:
        """Held ones may be taken, each in the place that its order gives it."""
        freed = [self.held.pop(message.id) for message in messages]
        size = sum(message.size for message in freed)
        self.held_size -= size
        self.size += size
        self._put_back(freed)

    def _put_back(self, messages: list[Message]) -> None:
        self.waiting = deque(sorted([*messages, *self.waiting], key=_by_seq))
        self._choosy = True  # until somebody looks

    def due(self, state: str) -> Collection[Message]:
        """What a receiver in this state may take now, in order. What is not due, and what stands behind it of the same
        sender, waits."""
        if not self._choosy:
            return self.waiting
        self._choosy = False
        found: list[Message] = []
        later: set[str | None] = set()
        for message in self.waiting:
            mode, sender = message.row.mode, message.row.sender_id
            if mode != "auto":
                self._choosy = True
            if sender not in later and is_due(mode, state):
                found.append(message)
            else:
                later.add(sender)
        return found

    def lease(self, link: int, most: int, state: str = "unknown") -> list[Message]:
        """Takes up to `most` of what is due for a link, oldest first. state: of the receiver."""
        taken = list(islice(self.due(state), most))
        for message in taken:
            self.lease_one(message, link)
        return taken

    def lease_one(self, message: Message, link: int) -> None:
        """Takes this one for a link, out of turn."""
        self.waiting.remove(message)
        message.lease = link
        self.leased[message.id] = message

    def remove(self, message: Message) -> None:
        """It is out of the box for good, wherever it was."""
        if self.held.pop(message.id, None) is not None:
            self.held_size -= message.size
            return
        if self.leased.pop(message.id, None) is None:
            self.waiting.remove(message)
        message.lease = None
        self.size -= message.size

    def restore(self, messages: Iterable[Message]) -> list[Message]:
        """Leases end without an acknowledgement: these wait again, in their old place. Returns those that were
        leased."""
        back = []
        for message in messages:
            if self.leased.pop(message.id, None) is not None:
                message.lease = None
                back.append(message)
        if back:
            self._put_back(back)
        return back

    def leased_by(self, link: int) -> list[Message]:
        """What this link has."""
        return [message for message in self.leased.values() if message.lease == link]


def _by_seq(message: Message) -> int:
    return message.seq

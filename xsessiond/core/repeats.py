"""What was sent before and comes again: under a key that was used, or as the same text to the same receiver.

Laws: the same key of the same sender is the same message, for as long as the store keeps it; the same text is refused
for a moment, with the message that it repeats and the state of that. Refuses to know: who receives, how fast one may
send.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from xsessiond.core import limits
from xsessiond.core.draft import Draft
from xsessiond.core.effects import FindKey, FindMessage, Found
from xsessiond.core.errors import Refusal
from xsessiond.core.mailbox import FINAL, settled
from xsessiond.core.records import MessageRow
from xsessiond.core.roster import Session
from xsessiond.core.shapes import SendShape
from xsessiond.core.state import Core, Wire
from xsessiond.core.times import Now, format_time_or_none


class Keyed(Struct, frozen=True):
    """What is remembered of a message that was sent under a key, for as long as the store may not tell it yet."""

    message_id: str
    digest: bytes
    target_id: str
    target_name: str
    rule: str


class Repeats:
    """The part of the broker that recognises what it has seen."""

    __slots__ = ("_core", "_keys")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._keys: OrderedDict[tuple[str, str], Keyed] = OrderedDict()

    # -- keys ------------------------------------------------------------------------------

    def look_for_key(self, wire: Wire, draft: Draft, go_on: Callable[[Wire, Draft, Now], None], now: Now) -> None:
        """Answers a draft whose key was used; goes on with one whose key is new. Raises Refusal: key_reused."""
        own = draft.caller.session.id, draft.params.key or ""
        known = self._keys.get(own)
        if known is not None and known.message_id in self._core.messages:
            self._repeat(wire, draft, known)
            return

        def then(wire: Wire, found: Found, now: Now) -> None:
            known = self._keys.get(own)  # it may have been used while the store was asked
            if isinstance(found, MessageRow):
                row = Keyed(found.id, found.sha256, found.target_id, found.target_name, found.rule)
                self._repeat(wire, draft, row, found.state)
            elif known is not None:
                self._repeat(wire, draft, known)
            else:
                go_on(wire, draft, now)

        self._core.ask(wire, draft.request_id, FindKey(*own), then)

    def _repeat(self, wire: Wire, draft: Draft, known: Keyed, stored_state: str = "delivered") -> None:
        """The same key again: the same message, or another one under a used key."""
        if known.digest != draft.digest:
            raise Refusal(
                "key_reused",
                f"The key was used for another text, in {known.message_id}. Nothing was sent.",
                "Use a new key for a new text.",
                detail={"id": known.message_id},
            )
        live = self._core.messages.get(known.message_id)
        state = live.state if live is not None else settled(stored_state)
        owner = self._core.owner_of(known.target_id)
        to: dict[str, object] = {
            "id": known.target_id,
            "ref": owner.ref if owner else None,
            "name": owner.name if owner else known.target_name,
        }
        notice = "Sent before under this key; not again."
        hold = live.hold if live is not None and state == "held" else None
        until = format_time_or_none(hold.expires_at) if hold is not None else None
        shape = SendShape(known.message_id, state, to, known.rule, until, draft.size, draft.digest.hex(), notice=notice)
        self._core.answer(wire, draft.request_id, shape)

    def note_key(self, row: MessageRow) -> None:
        """A message was accepted under a key."""
        keys = self._keys
        keys[row.sender_id or "", row.key or ""] = Keyed(row.id, row.sha256, row.target_id, row.target_name, row.rule)
        if len(keys) > limits.REMEMBERED_KEYS:
            keys.popitem(last=False)  # the oldest, which the store knows by now

    def forget_key(self, row: MessageRow) -> None:
        """The message was not stored after all: its key is free."""
        self._keys.pop((row.sender_id or "", row.key or ""), None)

    # -- texts ------------------------------------------------------------------------------

    def refuse_duplicate(self, wire: Wire, draft: Draft, target: Session, message_id: str) -> None:
        """The text of this draft went to the target a moment ago, as that message. Raises Refusal, or asks the store
        for what became of it and refuses then."""
        live = self._core.messages.get(message_id)
        if live is not None:
            raise _duplicate(target, message_id, live.state)

        def then(wire: Wire, found: Found, now: Now) -> None:
            row = found[0] if isinstance(found, tuple) else None
            state = row.state if isinstance(row, MessageRow) else "delivered"
            raise _duplicate(target, message_id, settled(state))

        self._core.ask(wire, draft.request_id, FindMessage(message_id), then)


def _duplicate(target: Session, message_id: str, state: str) -> Refusal:
    return Refusal(
        "duplicate",
        f"You sent this text to {target.name} a moment ago, as {message_id}; it is {state}. Nothing was sent again.",
        "It did not go through: do not repeat it as it is." if state in FINAL else "It is not lost: do not repeat it.",
        detail={"id": message_id, "state": state},
    )

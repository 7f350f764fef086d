"""Waiting for a reply: a sender whose answer is held back until the reply to its message comes.

Laws: a wait ends exactly once: with the reply, with its time, with the sender's change of mind, or with its link. A
reply never overtakes what the same session sent before. The wait ends, the message goes on. Refuses to know: what may
be sent, how mail is delivered otherwise.
"""

from __future__ import annotations

from xsessiond.core.errors import not_stored
from xsessiond.core.limits import MAX_WAIT_S
from xsessiond.core.mailbox import Message
from xsessiond.core.roster import Session
from xsessiond.core.shapes import SendShape, shape_delivery
from xsessiond.core.state import Core, Wait, Wire
from xsessiond.core.times import Now
from xsessiond.core.wire import Cancel, RequestId


class Waits:
    """The part of the broker that holds answers back."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def begin(self, link: int, request_id: RequestId, shape: SendShape, seconds: float, now: Now) -> None:
        """The answer to this send is held back. shape: the answer as it would be now."""
        self._core.waits[shape.id] = Wait(link, request_id, shape)
        self._core.agenda.schedule(("wait", shape.id), now.mono + min(max(seconds, 0.0), MAX_WAIT_S))

    def hand_reply(self, message: Message, target: Session, now: Now) -> bool:
        """A reply was put into its receiver's box: whether it went, leased, into the answer of a sender that waits for
        it. Behind earlier mail of the same sender it does not; then the wait is over, and it comes as a message."""
        answered = message.row.reply_to or ""
        wait = self._take_out(answered)
        if wait is None:
            return False
        sender = message.row.sender_id
        self._core.told_of[message.id] = wait.link
        wait.shape.state = "replied"
        if any(other.row.sender_id == sender for other in target.box.waiting if other is not message):
            wait.shape.notice = (
                f"{message.row.sender_name} replied. Earlier mail from there waits too: the reply comes behind it, as "
                "a message. Do not send again."
            )
            self._answer(wait)
            return False
        wire = self._core.wires[wait.link]
        target.box.lease_one(message, wait.link)
        if wire.session is not target:
            wire.borrowed.add(target)
        wait.shape.notice = None
        wait.shape.reply = {
            "id": message.id,
            "text": message.row.body,
            "from_name": message.row.sender_name,
            "message": shape_delivery(message, target, now.ms),
        }
        self._answer(wait)
        return True

    def give_up(self, message_id: str) -> None:
        """No reply in time, or nobody waits any more: the message goes on, its reply comes as a message."""
        known = self._core.messages.get(message_id)
        self.end(message_id, known.state if known is not None else "delivered")

    def end(self, message_id: str, state: str) -> None:
        """The wait for a reply to this message is over without one, if there is any; the message is now `state`."""
        wait = self._take_out(message_id)
        if wait is None:
            return
        wait.shape.state = state
        wait.shape.notice = f"{state}, not replied yet; the reply comes as a message. Do not send again."
        self._answer(wait)

    def cancel(self, wire: Wire, request: Cancel, now: Now) -> None:
        """The client gives up a wait; the message is not touched."""
        for message_id, wait in list(self._core.waits.items()):
            if wait.link == wire.link and wait.request_id == request.params.id:
                self.give_up(message_id)
        self._core.answer(wire, request.id, {})

    def forget(self, message_id: str, problem: str) -> None:
        """The message never was, for the store did not take it; whoever waits for a reply hears that."""
        wait = self._take_out(message_id)
        if wait is not None:
            self._core.refuse(self._core.wires[wait.link], wait.request_id, not_stored(problem))

    def drop(self, link: int) -> None:
        """The link is gone: nobody waits there any more."""
        for message_id in [key for key, wait in self._core.waits.items() if wait.link == link]:
            self._take_out(message_id)

    def _take_out(self, message_id: str) -> Wait | None:
        wait = self._core.waits.pop(message_id, None)
        if wait is not None:
            self._core.agenda.cancel(("wait", message_id))
        return wait

    def _answer(self, wait: Wait) -> None:
        self._core.answer(self._core.wires[wait.link], wait.request_id, wait.shape)

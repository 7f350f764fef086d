"""The limits that a message must pass besides the receiver's rules, and who hears of it when one stops something.

In this order: room for it at its receiver, hops, exchange, buckets. The text that was sent a moment ago is `repeats`.

Laws: what is refused costs its sender nothing; every refusal is counted where the receiver's human sees it. What was
caused by messages and is stopped is told once, to both sides and the human, for as long as it goes on. Mail to the
human causes no mail, so neither hops nor exchange stop it. Refuses to know: the receiver's rules, how a text is stored.
"""

from __future__ import annotations

from collections import OrderedDict
from math import ceil, inf

from xsessiond.core import limits
from xsessiond.core.causality import Cause, choose_cause
from xsessiond.core.draft import Draft
from xsessiond.core.effects import Notify
from xsessiond.core.errors import Refusal
from xsessiond.core.exchanges import Exchanges
from xsessiond.core.mailbox import Message
from xsessiond.core.receipts import Receipts
from xsessiond.core.records import MessageRow
from xsessiond.core.roster import Session
from xsessiond.core.shapes import shape_suppressed
from xsessiond.core.state import Core
from xsessiond.core.times import Now

TOLD_AGAIN_S = 1200.0
"""What was stopped is told again if it was quiet for so long, as something new. Sessions that try again whenever what
they act on is over do so every ten minutes."""
TOLD_KEPT = 1000
"""What was told, as far as it is remembered."""


class Brakes:
    """The part of the broker that stops what would not end by itself."""

    __slots__ = ("_core", "_exchanges", "_receipts", "_told")

    def __init__(self, core: Core, receipts: Receipts) -> None:
        self._core, self._receipts = core, receipts
        self._exchanges = Exchanges()
        self._told: OrderedDict[tuple[str, ...], float] = OrderedDict()

    # -- checks ------------------------------------------------------------------------------

    def find_cause(self, draft: Draft, now: Now) -> Cause | None:
        """What the sender of a draft acts on: what it answers counts too, unless its human bids it."""
        caller, original = draft.caller, draft.original
        if caller.kind == "human":
            return None
        sender = caller.session
        if caller.among:
            known = choose_cause(session.causes.find(now.mono) for session in caller.among)
        else:
            known = sender.causes.find(now.mono)
            if sender.outer:  # whoever started it may have told it what to say
                around = [self._core.roster.known.get(session_id) for session_id in sender.outer]
                known = choose_cause((known, *(one.causes.find(now.mono) for one in around if one is not None)))
        if original is None or sender.causes.by_human:
            return known
        row = original.row if isinstance(original, Message) else original
        return choose_cause((Cause(row.id, row.hop, inf), known))

    def check(self, draft: Draft, target: Session, now: Now, *, queues: bool) -> None:
        """Whether the message may go, as far as its number and its cause say, which is found here. queues: it goes into
        the queue of the target. Raises Refusal: queue_full, hop_limit, exchange_limit, rate_limited."""
        sender, settings, box = draft.caller.session, self._core.settings.pacing, target.box
        if queues:
            if len(box) >= settings.queue_per_session or box.size + draft.size > limits.QUEUE_BYTES_PER_SESSION:
                raise _queue_full(target)
        draft.cause = cause = self.find_cause(draft, now)
        if cause is not None and target.kind == "session":
            if cause.hop >= settings.max_hops:
                raise self._stop_hops(sender, target, cause, now)
            wait = self._exchanges.wait_needed(sender.id, target.id, settings.exchange_per_minute, now.mono)
            if wait is not None:
                raise self._stop_exchange(sender, target, cause, wait, now)
        too_fast = sender.pace.wait_needed(target.id, settings, now.mono)
        if too_fast is not None:
            raise _rate_limited(target, *too_fast)

    def _stop_hops(self, sender: Session, target: Session, cause: Cause, now: Now) -> Refusal:
        most = self._core.settings.pacing.max_hops
        row = f"{most} messages in a row that were each caused by another"
        if self._is_news(now, "hop_limit", sender.id, target.id):
            self._tell(target, f"{sender.name} wrote to you again after {row}. That was stopped: it ends here.", now)
        if self._is_news(now, "hop_limit", sender.id):
            self._tell_human(f"{sender.name} was stopped after {row}; the next was for {target.name}.", sender, now)
        return Refusal(
            "hop_limit",
            f"It comes after {row}, with no word of a human between. Nothing was sent.",
            "End it here and tell your user, whose next prompt begins anew. To wait and try again is no way on.",
            detail={"hop": cause.hop + 1, "max_hops": most, "cause": cause.message_id},
        )

    def _stop_exchange(self, sender: Session, target: Session, cause: Cause, wait: float, now: Now) -> Refusal:
        most = self._core.settings.pacing.exchange_per_minute
        many = f"more than {most} messages in a minute that others caused"
        if self._is_news(now, "exchange_limit", *sorted((sender.id, target.id))):
            self._tell(target, f"{sender.name} and you sent each other {many}. That was stopped: it ends here.", now)
            self._tell_human(f"{sender.name} and {target.name} sent each other {many}: stopped.", sender, now)
        return Refusal(
            "exchange_limit",
            f"You and {target.name} sent each other {many}. Nothing was sent.",
            f"End it here. If there is real news, wait {ceil(wait)} s and say all of it in one message.",
            retry_after_s=_as_told(wait),
            detail={"exchange_per_minute": most, "cause": cause.message_id},
        )

    # -- telling ------------------------------------------------------------------------------

    def _is_news(self, now: Now, *what: str) -> bool:
        """Whether this is told now: not while it goes on."""
        told = self._told
        known = told.get(what)
        told[what] = now.mono + TOLD_AGAIN_S
        told.move_to_end(what)
        if len(told) > TOLD_KEPT:
            told.popitem(last=False)
        return known is None or known <= now.mono

    def _tell(self, target: Session, text: str, now: Now) -> None:
        self._receipts.tell(target.id, "", "stopped", text, now)

    def _tell_human(self, text: str, sender: Session, now: Now) -> None:
        self._core.warn(text)
        self._core.out.append(Notify("Sessions were stopped", text))
        self._core.log("warning", "sessions were stopped", sender=sender.id)

    def count(self, sender: Session, target: Session, code: str, now: Now) -> None:
        """A message was one too many, for this reason. How many were is the human's to see."""
        target.turned_away += 1
        row = self._core.suppressed.note((sender.id, sender.name), (target.id, target.name), code, now.ms)
        if self._is_news(now, code, "counted", sender.id, target.id):
            self._core.tell_followers("suppressed", shape_suppressed(row))

    # -- what went ------------------------------------------------------------------------------

    def spend(self, draft: Draft, target: Session, message_id: str, now: Now) -> None:
        """The message went."""
        sender = draft.caller.session
        sender.pace.spend(target.id)
        sender.pace.note_sent(target.id, draft.digest, message_id, self._core.settings.pacing, now.mono)
        if draft.cause is not None:
            self._exchanges.note(sender.id, target.id, now.mono)

    def give_back(self, sender: Session, row: MessageRow) -> None:
        """The message was not stored after all."""
        sender.pace.give_back(row.target_id, row.sha256)
        if row.cause is not None:
            self._exchanges.give_back(sender.id, row.target_id)


def _as_told(seconds: float) -> float:
    return ceil(seconds * 10) / 10  # never too short


def _queue_full(target: Session) -> Refusal:
    return Refusal(
        "queue_full",
        f"{target.name} has {len(target.box)} messages waiting and takes no more. Nothing was sent.",
        "Wait until it has read some.",
        detail={"queued": len(target.box)},
    )


def _rate_limited(target: Session, seconds: float, which: str) -> Refusal:
    whom = f"to {target.name}" if which == "target" else "in all"
    return Refusal(
        "rate_limited",
        f"You sent too many messages {whom}. Nothing was sent.",
        f"Wait {ceil(seconds)} s, and say more in one message.",
        retry_after_s=_as_told(seconds),
    )

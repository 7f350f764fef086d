"""Whom a message is for: who sent what it answers, or who its address means, running or not.

Laws: a reply goes by id to the session that sent the original, whatever names do meanwhile; a target that does not run
is one only if the sender, or the settings, want that. Refuses to know: whether the message may go.
"""

from __future__ import annotations

from collections.abc import Callable

from xsessiond.core.draft import Draft
from xsessiond.core.effects import FindMessage, Found
from xsessiond.core.errors import Refusal
from xsessiond.core.inert import inert
from xsessiond.core.mailbox import Message
from xsessiond.core.records import MessageRow
from xsessiond.core.resume_command import can_resume
from xsessiond.core.resuming import Resuming
from xsessiond.core.roster import Session
from xsessiond.core.sight import WITHHELD
from xsessiond.core.state import Core, Wire
from xsessiond.core.times import Now

GoOn = Callable[[Wire, Draft, Session, Now], None]


class Targets:
    """The part of the broker that finds the receiver of a draft."""

    __slots__ = ("_core", "_resuming")

    def __init__(self, core: Core, resuming: Resuming) -> None:
        self._core, self._resuming = core, resuming

    def find(self, wire: Wire, draft: Draft, go_on: GoOn, now: Now) -> None:
        """Goes on with the target, at once or when the store has answered. Raises Refusal."""
        if draft.params.reply_to is not None:
            self._look_for_original(wire, draft, draft.params.reply_to, go_on, now)
        else:
            go_on(wire, draft, draft.resumed or self._address(draft, now), now)

    def _look_for_original(self, wire: Wire, draft: Draft, message_id: str, go_on: GoOn, now: Now) -> None:
        known = self._core.messages.get(message_id)
        if known is not None:
            go_on(wire, draft, self._answer(draft, known, now), now)
            return

        def then(wire: Wire, found: Found, now: Now) -> None:
            go_on(wire, draft, self._answer(draft, found[0] if isinstance(found, tuple) else None, now), now)

        self._core.ask(wire, draft.request_id, FindMessage(message_id), then)

    def _answer(self, draft: Draft, original: MessageRow | Message | None, now: Now) -> Session:
        """Who sent the original."""
        row = original.row if isinstance(original, Message) else original
        state = original.state if original is not None else None  # of a live one the row says what it was at first
        if original is None or row is None or row.target_id != draft.caller.session.id or state in WITHHELD:
            raise Refusal(
                "not_found",
                f"You got no message {(draft.params.reply_to or '')[:80]}. Nothing was sent.",
                "Reply to the id that stands in the message, or send without reply_to.",
            )
        sender = row.sender_id or row.sender_kind
        target = self._core.human if sender in ("human", "script") else self._core.roster.known.get(sender)
        if draft.resumed is not None:
            target = draft.resumed
        elif target is None or not target.running:
            target = self._offline(draft, target, sender, now)
        draft.original, draft.thread = original, row.thread
        if draft.params.to is not None:
            self._note_name(draft.params.to, target, draft, now)
        return target

    def _note_name(self, named: str, target: Session, draft: Draft, now: Now) -> None:
        """What the name beside a `reply_to` changes: used for the right session it means that one from then on."""
        try:
            resolved = self._core.resolver.resolve(named, draft.caller.session, now)
        except Refusal:
            return
        if resolved.session is target:
            draft.pin, draft.notice = resolved.pin, resolved.notice or draft.notice
        else:
            meant = inert(named[:80], multiline=False)
            draft.notice = f"A reply goes to who sent the original, {target.name}, not to {meant}."

    def _address(self, draft: Draft, now: Now) -> Session:
        to = draft.params.to
        if to is None or not to.strip():
            raise Refusal(
                "usage",
                "The message has no address: `to` is missing.",
                "Name a session, or the message that you reply to.",
            )
        try:
            resolved = self._core.resolver.resolve(to, draft.caller.session, now)
        except Refusal as refusal:
            if refusal.code != "not_running" or not isinstance(refusal.detail, str):
                raise
            return self._offline(draft, self._core.roster.known.get(refusal.detail), to, now)
        draft.pin, draft.notice = resolved.pin, resolved.notice
        return resolved.session

    def _offline(self, draft: Draft, target: Session | None, target_id: str, now: Now) -> Session:
        """A target that does not run: kept for its conversation, or resumed, if the sender wants that."""
        wanted = draft.params.when_offline or self._core.settings.offline_default
        if target is not None and target.comes_back and wanted in ("queue", "resume"):
            if wanted == "resume":
                self._resuming.check(target)
                draft.resume = True
            draft.notice = f"{target.name} does not run; kept for when its conversation resumes."
            return target
        name = target.name if target is not None else target_id
        hint = None
        if target is not None and target.comes_back:
            hint = "Send with when_offline = queue to keep it for when it resumes."
            if can_resume(target, self._core.settings.resume):
                hint = "Send with when_offline = resume to start it, or queue to keep it for when it resumes."
        raise Refusal(
            "not_running",
            f"{name} is not running: its conversation ended. Nothing was sent.",
            hint,
            candidates=[self._core.resolver.candidate(target, now)] if target is not None else [],
        )

"""Addresses: what a sender writes, and the one session that it means.

    name · name [ref] · ref · id · a harness's own conversation id

Laws: exact match first, never a guess; every verb resolves here; a refusal names the candidates. A name that a sender
has used means the same session for the rest of its conversation (its pin). Refuses to know: whether the message is
admitted.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from xsessiond.core.errors import Refusal
from xsessiond.core.ids import SessionId, is_session_id, ref_digits
from xsessiond.core.inert import inert
from xsessiond.core.limits import MAX_ADDRESS, MAX_CANDIDATES, MAX_NAME, MIN_REF
from xsessiond.core.names import fold_name, near_names
from xsessiond.core.roster import Roster, Session
from xsessiond.core.times import Now

HEX = frozenset("0123456789abcdef")


class Resolved(Struct, frozen=True):
    """session: the one that was meant, running. pin: the folded name to pin, or None. notice: what the sender should
    know."""

    session: Session
    pin: str | None = None
    notice: str | None = None


class Resolver:
    """Finds sessions. machine: this machine's name, for the candidates."""

    __slots__ = ("_machine", "_roster")

    def __init__(self, roster: Roster, machine: str) -> None:
        self._roster, self._machine = roster, machine

    def resolve(self, text: str, asker: Session | None, now: Now) -> Resolved:
        """The running session that `text` means to `asker` (None: somebody without pins).

        Raises Refusal: not_found, not_running (its detail is the id of the session that is meant), ambiguous,
        name_moved.
        """
        known = self._roster.known.get(text)
        if known is not None:  # an id, as it stands in every answer
            return self._running(known, now)
        text = text.strip()
        if len(text) > MAX_ADDRESS:  # before any work on it
            raise self._not_found(text, asker, now)
        name, ref = split_address(text)
        if ref is not None:
            return self._by_name_and_ref(name, ref, asker, now)
        if is_session_id(text):
            raise self._not_found(text, asker, now)
        folded = fold_name(text)
        holder = self._roster.named(text)
        pinned = None if asker is None else asker.pins.get(folded)
        if pinned is not None and (holder is None or holder.id != pinned):
            session = self._roster.known.get(pinned)
            if holder is not None:
                raise self._name_moved(text, pinned, session, holder, now)
            if session is not None:
                return self._renamed(text, session, now)
        if holder is not None:
            return Resolved(holder, pin=folded)
        return self._by_other_means(text, folded, asker, now)

    def _renamed(self, text: str, pinned: Session, now: Now) -> Resolved:
        """The sender's name for a session is nobody's name any more."""
        if pinned.running:
            return Resolved(pinned, notice=_tell_renamed(text, pinned))
        raise self._not_running(pinned, now)

    def _name_moved(self, text: str, pinned: str, session: Session | None, holder: Session, now: Now) -> Refusal:
        """The sender's name for a session (`session`, or None if nothing else is known of it) is another's now."""
        ref = ref_digits(SessionId(pinned))[:MIN_REF] if session is None else session.ref
        found = [holder] if session is None else [session, holder]
        return Refusal(
            "name_moved",
            f'You wrote to "{text}" [{ref}] before; that name now belongs to another session, [{holder.ref}]. '
            "Nothing was sent.",
            f'Write to "{holder.name} [{holder.ref}]" if you mean the one that has the name now.',
            candidates=self._candidates(found, now),
        )

    def _by_name_and_ref(self, name: str, ref: str, asker: Session | None, now: Now) -> Resolved:
        matches = self._with_digits(ref)
        running = [session for session in matches if session.running]
        if len(running) > 1:
            raise self._ambiguous(f"{name} [{ref}]", "is the ref of several sessions", running, now)
        if running:
            session = running[0]
            notice = None if session.folded == fold_name(name) else _tell_renamed(name, session)
            return Resolved(session, pin=fold_name(name), notice=notice)
        if len(matches) == 1:
            raise self._not_running(matches[0], now)
        raise self._not_found(f"{name} [{ref}]", asker, now)

    def _by_other_means(self, text: str, folded: str, asker: Session | None, now: Now) -> Resolved:
        digits = text.lower()
        if len(digits) >= MIN_REF and HEX.issuperset(digits):
            matches = self._with_digits(digits)
            running = [session for session in matches if session.running]
            if len(running) > 1:
                raise self._ambiguous(text, "is the beginning of several refs", running, now)
            if running or matches:
                return self._running((running or matches)[0], now)
        same = [session for session in self._roster.known.values() if session.harness_session_id == text]
        running = [session for session in same if session.running]
        if len(running) > 1:
            raise self._ambiguous(text, "is the conversation id of several sessions", running, now)
        if running or same:
            return self._running((running or same)[0], now)
        gone = [session for session in self._roster.known.values() if session.folded == folded and not session.running]
        if gone:
            raise self._not_running(max(gone, key=lambda session: session.ended_at or 0), now)
        begins = [session for session in self._roster.running() if folded and session.folded.startswith(folded)]
        if begins:
            raise self._ambiguous(text, "is only the beginning of a name", begins, now)
        raise self._not_found(text, asker, now)

    def _with_digits(self, digits: str) -> list[Session]:
        """The session of this ref; without one, those whose digits begin so."""
        if len(digits) < MIN_REF:
            return []
        matches = [session for session in self._roster.known.values() if ref_digits(session.id).startswith(digits)]
        return [session for session in matches if session.ref == digits] or matches

    def _running(self, session: Session, now: Now) -> Resolved:
        if not session.running:
            raise self._not_running(session, now)
        return Resolved(session)

    def candidate(self, session: Session, now: Now) -> dict[str, object]:
        """One session as a refusal names it. age_s: since it started, or since it ended."""
        since = session.started_at if session.ended_at is None else session.ended_at
        return {
            "name": session.name,
            "ref": session.ref,
            "id": session.id,
            "cwd": session.cwd,
            "state": session.shown_state,
            "machine": self._machine,
            "age_s": max(0, (now.ms - since) // 1000),
        }

    def _candidates(self, sessions: Iterable[Session], now: Now) -> list[dict[str, object]]:
        return [self.candidate(session, now) for session in list(sessions)[:MAX_CANDIDATES]]

    def _ambiguous(self, text: str, why: str, sessions: list[Session], now: Now) -> Refusal:
        names = ", ".join(f"{session.name} [{session.ref}]" for session in sessions[:MAX_CANDIDATES])
        return Refusal(
            "ambiguous",
            f'"{text}" {why}: {names}. Nothing was sent.',
            "Use one of these names or refs in full.",
            candidates=self._candidates(sessions, now),
        )

    def _not_running(self, session: Session, now: Now) -> Refusal:
        return Refusal(
            "not_running",
            f"{session.name} [{session.ref}] is known but not running: its conversation ended. Nothing was sent.",
            "List the sessions that run now."
            if not session.comes_back
            else "List the sessions that run now, or send with when_offline = queue to keep it for that conversation.",
            candidates=[self.candidate(session, now)],
            detail=session.id,
        )

    def _not_found(self, text: str, asker: Session | None, now: Now) -> Refusal:
        running = {session.name: session for session in self._roster.running() if session is not asker}
        near = [running[name] for name in near_names(split_address(text)[0], list(running), MAX_CANDIDATES)]
        shown = near or list(running.values())
        text = text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}…"
        if not running:
            which = "none" if asker is None or asker.kind != "session" else "no other"
            text_of = f'No session is called "{text}": {which} is running.'
        else:
            which = "Close to it" if near else "Running"
            names = ", ".join(f"{session.name} [{session.ref}]" for session in shown[:MAX_CANDIDATES])
            text_of = f'No session is called "{text}". {which}: {names}.'
        return Refusal(
            "not_found",
            text_of,
            "Nothing was sent. List the sessions to see them all.",
            candidates=self._candidates(shown, now),
        )


def _tell_renamed(written: str, session: Session) -> str:
    return f"{inert(written, multiline=False)} is now called {session.name} [{session.ref}]."


def split_address(text: str) -> tuple[str, str | None]:
    """`name [ref]` as (name, ref); anything else as (text, None)."""
    if text.endswith("]"):
        name, bracket, ref = text[:-1].rpartition("[")
        ref = ref.strip().lower()
        if bracket and name.strip() and ref and HEX.issuperset(ref):
            return name.strip(), ref
    return text, None

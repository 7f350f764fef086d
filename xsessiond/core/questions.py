"""What a client may ask without changing anything: the roster, itself, its messages, the log, the broker's health.

Laws: an answer tells the truth of the moment it leaves; what a caller may not see is unknown to it. Refuses to know:
how anything comes about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Raw

from xsessiond.core import limits
from xsessiond.core.callers import find_caller, find_speaker
from xsessiond.core.effects import FindEvents, FindMessage, FindSent, Found, ReadLog, SendFrame
from xsessiond.core.errors import Refusal
from xsessiond.core.ids import is_message_id
from xsessiond.core.liveness import Liveness
from xsessiond.core.mailbox import WAITING, Box, Message, settled
from xsessiond.core.outgoing import encode_result
from xsessiond.core.records import EventRow, MessageRow
from xsessiond.core.roster import Session
from xsessiond.core.shapes import SessionShape, shape_entry, shape_history, shape_step, shape_suppressed
from xsessiond.core.sight import find_own, may_read
from xsessiond.core.state import Core, Wire
from xsessiond.core.times import Now, format_time, format_time_or_none, parse_time
from xsessiond.core.wire import Check, Inbox, ListSessions, Log, RequestId, Status, Whoami, encode

SUPPRESSED_SHOWN = 100
"""Senders with a receiver and a reason that the log shows: the last ones."""
WONDER_MOST = 256
"""Sessions that one listing asks whether they still answer."""


class Questions:
    """The part of the broker that answers and changes nothing."""

    __slots__ = ("_core", "_liveness")

    def __init__(self, core: Core, liveness: Liveness) -> None:
        self._core, self._liveness = core, liveness

    def _shape(self, session: Session) -> SessionShape:
        return self._core.shape(session)

    def list_sessions(self, wire: Wire, request: ListSessions, now: Now) -> None:
        """The roster; with `all` also the conversations that ended and may be resumed."""
        caller = find_speaker(self._core, wire)
        sessions = list(self._core.roster.running())
        if request.params.all:
            sessions += [
                session
                for session in self._core.roster.ended()
                if session.comes_back or len(session.box) or session.box.held
            ]
        shown = _as_fits(self._shape(session) for session in sessions)
        left_out = len(sessions) - len(shown)
        source = self._core.identity.machine
        incomplete = [{"source": source, "reason": f"{left_out} more sessions did not fit."}] if left_out else []
        own = self._shape(caller.session) if caller.is_session else None
        self._core.answer(wire, request.id, {"self": own, "sessions": shown, "incomplete": incomplete})
        asked = 0
        for session in self._core.roster.running():
            if asked >= WONDER_MOST:
                break
            if now.mono - session.seen >= limits.PING_AFTER_S:
                self._liveness.wonder(session, now)
                asked += 1

    def whoami(self, wire: Wire, request: Whoami, now: Now) -> None:
        """Who the broker takes the caller for, and the rule for its mail."""
        caller = find_speaker(self._core, wire)
        own = caller.session if caller.is_session else None
        self._core.answer(
            wire,
            request.id,
            {
                "kind": caller.kind,
                "session": None if own is None else self._shape(own),
                "name": caller.session.name,
                "among": [self._shape(session) for session in caller.among],
                "address": None if own is None else f"{own.name} [{own.ref}]",
                "policy": None if own is None else own.policy.inbound,
                "class": None if own is None else self._core.class_of(own),
            },
        )

    def inbox(self, wire: Wire, request: Inbox, now: Now) -> None:
        """What waits for the caller: looked at, not taken."""
        caller = find_caller(self._core, wire)
        box_of = caller.session
        waiting = [
            {
                "id": message.id,
                "from": message.row.sender_id,
                "from_name": message.row.sender_name,
                "sent_at": format_time(message.row.sent_at),
                "age_s": max(0, (now.ms - message.row.sent_at) // 1000),
                "bytes": message.size,
                "state": message.state,
                "summary": message.row.summary,
                "reply_to": message.row.reply_to,
            }
            for message in box_of.box
        ]
        own = self._shape(box_of) if caller.is_session else None
        told = [receipt.shape for receipt in self._core.receipts.get(box_of.id, ())]
        self._core.answer(wire, request.id, {"messages": waiting, "receipts": told, "session": own})

    # -- messages ------------------------------------------------------------------------------

    def check(self, wire: Wire, request: Check, now: Now) -> None:
        """State and history of one message, or the caller's last sends. From the store: it remembers what the memory
        need not."""
        caller = find_speaker(self._core, wire)
        message_id = request.params.message_id
        if message_id is None:

            def list_them(wire: Wire, found: Found, now: Now) -> None:
                self._core.answer(wire, request.id, {"messages": _as_fits(self._brief(row) for row in _rows(found))})

            self._core.ask(wire, request.id, FindSent(caller.session.id, limits.RECENT_SENDS), list_them)
            return
        if not is_message_id(message_id):
            raise _unknown(message_id)
        own = find_own(self._core, wire)
        seen = None if own is None else own | {caller.session.id}

        def tell(wire: Wire, found: Found, now: Now) -> None:
            self._tell(wire, request.id, seen, message_id, found)

        def tell_or_ask_again(wire: Wire, found: Found, now: Now) -> None:
            row = found[0] if isinstance(found, tuple) else None
            if isinstance(row, MessageRow) and row.state in WAITING and message_id not in self._core.messages:
                # It got further while the store was asked.
                self._core.ask(wire, request.id, FindMessage(message_id), tell)
            else:
                tell(wire, found, now)

        self._core.ask(wire, request.id, FindMessage(message_id), tell_or_ask_again)

    def _tell(
        self, wire: Wire, request_id: RequestId, seen: frozenset[str] | None, message_id: str, found: Found
    ) -> None:
        if not isinstance(found, tuple):
            raise _unknown(message_id)
        row, events = found
        assert isinstance(row, MessageRow)
        if seen is not None and row.sender_id not in seen:
            raise _unknown(message_id)
        self._core.answer(wire, request_id, {**self._brief(row), "history": self._history(row, events)})

    def _brief(self, row: MessageRow) -> dict[str, object]:
        target = self._core.owner_of(row.target_id)
        live = self._core.messages.get(row.id)
        hold = live.hold if live is not None and live.state == "held" else None
        return {
            "id": row.id,
            "state": live.state if live is not None else settled(row.state),
            "target_state": target.shown_state if target is not None else "offline",
            "to": {
                "id": row.target_id,
                "ref": target.ref if target is not None else None,
                "name": target.name if target is not None else row.target_name,
            },
            "sent_at": format_time(row.sent_at),
            "bytes": row.bytes,
            "sha256": row.sha256.hex(),
            "summary": row.summary,
            "reply_to": row.reply_to,
            "rule": row.rule,
            "expires_at": format_time_or_none(hold.expires_at) if hold is not None else None,
        }

    def _history(self, row: MessageRow, events: Sequence[EventRow]) -> list[dict[str, object]]:
        history = shape_history(row, events)
        live: Message | None = self._core.messages.get(row.id)
        if live is not None and live.state == "handed" and row.state != "handed" and live.handed_at is not None:
            history.append(shape_step("handed", live.handed_at))
        return history

    def read_log(self, wire: Wire, request: Log, now: Now) -> None:
        """Past messages with what was decided about them, oldest first. A session sees its own only, and no text that
        was kept from it."""
        own = find_own(self._core, wire)
        params = request.params
        if params.follow and own is not None:
            raise Refusal(
                "not_permitted",
                "Only a human may follow the log.",
                "Read it without follow: you see your own messages.",
            )
        try:
            since = None if params.since is None else parse_time(params.since)
        except ValueError:
            text = f"{(params.since or '')[:40]!r} is no time that can be read."
            raise Refusal("usage", text, "Write it as 2026-01-31T12:00:00Z.") from None

        if params.follow and not wire.following:
            # From here on: what is accepted while the store is looked at is not in what the look finds.
            wire.following = True
            self._core.followers += 1

        def then(wire: Wire, found: Found, now: Now) -> None:
            rows = [row for row in _rows(found) if own is None or row.sender_id in own or row.target_id in own]

            def tell(wire: Wire, found: Found, now: Now) -> None:
                self._tell_log(wire, request, own, rows, found)

            self._core.ask(wire, request.id, FindEvents(tuple(row.seq for row in rows)), tell)

        question = ReadLog(max(1, min(params.limit, limits.LOG_MOST)), since, params.thread)
        self._core.ask(wire, request.id, question, then)

    def _tell_log(
        self, wire: Wire, request: Log, own: frozenset[str] | None, rows: Sequence[MessageRow], found: Found
    ) -> None:
        assert isinstance(found, Sequence)
        events: dict[str, list[EventRow]] = {}
        for event in found:
            assert isinstance(event, EventRow)
            events.setdefault(event.message_id, []).append(event)
        entries = [
            shape_entry(
                row,
                events.get(row.id, ()),
                with_text=may_read(own, row.sender_id, row.target_id, row.state),
            )
            for row in rows
        ]
        suppressed = [
            shape_suppressed(row)
            for row in self._core.suppressed.rows()
            if own is None or row.sender_id in own or row.target_id in own
        ]
        answer = {"entries": entries, "suppressed": suppressed[-SUPPRESSED_SHOWN:]}
        while entries and len(encode_result(None, answer)) >= limits.MAX_FRAME - 1024:
            del entries[: max(1, len(entries) // 4)]  # the newest are kept; `since` reads on
        self._core.answer(wire, request.id, answer)

    # -- the broker ------------------------------------------------------------------------------

    def _boxes(self) -> list[Box]:
        return [session.box for session in [*self._core.roster.known.values(), self._core.human]]

    def status(self, wire: Wire, request: Status, now: Now) -> None:
        """Frozen. Leaves at once, also when the disk hangs."""
        core = self._core
        answer = {
            "broker": {
                "pid": core.identity.pid,
                "version": core.identity.version,
                "protocol": limits.PROTOCOL,
                "instance": core.identity.instance,
                "uptime_s": round(now.mono - core.started_mono, 3),
                "service": core.identity.service,
                "started_at": format_time(core.started_ms),
                "boot_clock_s": core.identity.boot_clock_s,
            },
            "sessions": len(core.roster),
            "queued": sum(len(box) for box in self._boxes()),
            "held": sum(len(box.held) for box in self._boxes()),
            "suppressed": core.suppressed.total,
            "store": core.store_health.tell(),
            "config": {"ok": core.settings.config_ok, "problems": list(core.settings.config_problems)},
            "warnings": core.warnings,
        }
        if isinstance(request.id, int | str):
            core.out.append(SendFrame(wire.link, encode_result(request.id, answer), urgent=True))


def _as_fits(shapes: Iterable[object]) -> list[Raw]:
    """As many of them, encoded, as one frame holds."""
    fitting: list[Raw] = []
    size = 0
    for shape in shapes:
        data = encode(shape)
        size += len(data) + 1
        if size > limits.MAX_FRAME - 8192:
            break
        fitting.append(Raw(data))
    return fitting


def _rows(found: Found) -> list[MessageRow]:
    assert isinstance(found, Sequence)
    return [row for row in found if isinstance(row, MessageRow)]


def _unknown(message_id: str) -> Refusal:
    return Refusal("not_found", f"You sent no message {message_id[:80]}.", "Check without an id to see what you sent.")

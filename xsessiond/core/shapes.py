"""The objects that clients see: one function for each, used by every answer.

Laws: what is shown is made here and nowhere else; times are text, absent is null. Refuses to know: who asks.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from xsessiond.core.defuse import find_control_markup
from xsessiond.core.mailbox import FINAL, Message
from xsessiond.core.policy import CoreSettings
from xsessiond.core.records import EventRow, GrantRow, HoldRow, MessageRow, TrustRow
from xsessiond.core.roster import Session
from xsessiond.core.suppressed import TurnedAway
from xsessiond.core.times import format_time, format_time_or_none
from xsessiond.core.unread import count_stalled, find_unread


class SessionShape(Struct):
    """`session`: one row of the roster, as every answer has it. can_resume: of one that does not run. attended: there
    only to say that nobody looks at it."""

    id: str
    ref: str
    name: str
    label: str | None
    harness: str
    harness_session_id: str | None
    pid: int | None
    cwd: str
    state: str
    perm_class: str = msgspec.field(name="class")
    delivery: str = msgspec.field()
    can_reply: bool = msgspec.field()
    machine: str = msgspec.field()
    started_at: str = msgspec.field()
    last_seen_at: str = msgspec.field()
    queued: int = msgspec.field()
    held: int = msgspec.field()
    stalled: int = msgspec.field()
    stuck: bool = msgspec.field()
    suppressed: int = msgspec.field()
    can_resume: bool | UnsetType = UNSET
    attended: bool | UnsetType = UNSET


def shape_session(
    session: Session, machine: str, perm_class: str | None = None, *, can_resume: bool = False
) -> SessionShape:
    """One row of the roster. can_resume: whether it could be started again."""
    return SessionShape(
        id=session.id,
        ref=session.ref,
        name=session.name,
        label=session.label,
        harness=session.harness,
        harness_session_id=session.harness_session_id,
        pid=session.process.pid if session.process else None,
        cwd=session.cwd,
        state=session.shown_state,
        perm_class=perm_class or session.perm_class,
        delivery=session.delivery if session.running else "none",
        can_reply=session.can_reply,
        machine=machine,
        started_at=format_time(session.started_at),
        last_seen_at=format_time(session.last_seen_at),
        queued=len(session.box),
        held=len(session.box.held),
        stalled=count_stalled(session),
        stuck=bool(find_unread(session)),
        suppressed=session.turned_away,
        can_resume=UNSET if session.running else can_resume,
        attended=UNSET if session.attended or not session.running else False,
    )


class SendShape(Struct):
    """The answer to `send`. watch: whether its sender is told when the receiver is idle, if it asked for that."""

    id: str
    state: str
    to: Raw | dict[str, object]
    rule: str
    expires_at: str | None
    bytes: int
    sha256: str
    reply: dict[str, object] | None = None
    notice: str | None = None
    watch: dict[str, object] | UnsetType = UNSET


class DeliveryShape(Struct):
    """`message` of docs/protocol.md: what a receiver gets."""

    id: str
    origin: Raw = msgspec.field(name="from")
    text: str = msgspec.field()
    bytes: int = msgspec.field()
    sha256: str = msgspec.field()
    sent_at: str = msgspec.field()
    age_s: int = msgspec.field()
    hop: int = msgspec.field()
    seq: int = msgspec.field()
    reply_to: str | None = msgspec.field()
    summary: str | None = msgspec.field()
    mode: str = msgspec.field()
    can_reply: bool = msgspec.field()
    full_note: bool = msgspec.field()
    held: dict[str, object] | None = None


class PushShape(Struct):
    """Params of a push."""

    n: int
    message: DeliveryShape


def shape_delivery(message: Message, receiver: Session, now_ms: int) -> DeliveryShape:
    """A message as its receiver gets it."""
    row = message.row
    age = (now_ms - row.sent_at) // 1000
    return DeliveryShape(
        row.id,
        message.origin,
        row.body,
        row.bytes,
        row.sha256.hex(),
        format_time(row.sent_at),
        age if age > 0 else 0,
        row.hop,
        row.pair_seq,
        row.reply_to,
        row.summary,
        row.mode,
        receiver.can_reply,
        not receiver.noted,
        None if message.hold is None else shape_held(message.hold),
    )


def shape_held(row: HoldRow) -> dict[str, object] | None:
    """The mark of a message that was held and let go; None while it is held. by: None where no person decided."""
    if row.released_at is None:
        return None
    held_s = max(0, (row.released_at - row.held_at) // 1000)
    return {
        "held_s": held_s,
        "by": row.released_by,
        "at": format_time(row.released_at),
        "cause": row.cause,
        "rule": row.released_rule,
    }


def shape_hold(message: Message, sender: SessionShape | None, target: SessionShape) -> dict[str, object]:
    """`hold`: all that a person should see before deciding, but for the text."""
    row, hold = message.row, message.hold
    assert hold is not None, "what is held has its reason"
    if message.flags is None:
        message.flags = find_control_markup(row.body)  # once: a long text takes a while
    origin: object = sender
    if sender is None:
        origin = {
            "kind": row.sender_kind,
            "id": row.sender_id if row.sender_kind == "session" else None,
            "name": row.sender_name,
            "harness": row.sender_harness,
            "cwd": row.sender_cwd,
        }
    return {
        "id": row.id,
        "from": origin,
        "to": target,
        "subagent": row.subagent,
        "cause": hold.cause,
        "rule": hold.rule,
        "held_at": format_time(hold.held_at),
        "expires_at": format_time_or_none(hold.expires_at),
        "bytes": row.bytes,
        "sha256": row.sha256.hex(),
        "preview": row.body[:200],
        "text": None,
        "summary": row.summary,
        "sender_class": hold.sender_class,
        "receiver_class": target.perm_class,
        "flags": message.flags,
    }


def shape_suppressed(turned_away: TurnedAway) -> dict[str, object]:
    """`suppressed` of docs/protocol.md."""
    return {
        "from": {"id": turned_away.sender_id, "name": turned_away.sender_name},
        "to": {"id": turned_away.target_id, "name": turned_away.target_name},
        "code": turned_away.code,
        "count": turned_away.count,
        "first_at": format_time(turned_away.first_ms),
        "last_at": format_time(turned_away.last_ms),
    }


def shape_config(settings: CoreSettings) -> dict[str, object]:
    """The settings in force, each with where it was written."""
    return {"values": settings.shown, "problems": settings.config_problems, "ok": settings.config_ok}


def shape_grant(session: SessionShape, row: GrantRow) -> dict[str, object]:
    """A row of `grants`."""
    return {
        "session": session,
        "directory": row.directory,
        "by": row.by,
        "at": format_time(row.at),
        "expires_at": format_time_or_none(row.until),
    }


def shape_trust(row: TrustRow, sender: Session | None, target: Session | None) -> dict[str, object]:
    """One remembered approval."""
    return {
        "id": row.id,
        "from": {
            "id": row.sender_id,
            "name": sender.name if sender else row.sender_name,
            "ref": sender.ref if sender else None,
        },
        "to": {
            "id": row.target_id,
            "name": target.name if target else row.target_name,
            "ref": target.ref if target else None,
        },
        "scope": row.scope,
        "by": row.by,
        "at": format_time(row.at),
        "until": format_time_or_none(row.until),
    }


def shape_origin(row: MessageRow, ref: str | None) -> Raw:
    """`from` of a message, as its row says it. Where that is what its sender says of itself, `Session.origin` is it."""
    own = row.sender_kind == "session"
    origin: dict[str, object] = {
        "kind": row.sender_kind,
        "id": row.sender_id if own else None,
        "ref": ref if own else None,
        "name": row.sender_name,
        "harness": row.sender_harness if own else None,
        "cwd": row.sender_cwd if own else None,
    }
    if row.subagent:
        origin["subagent"] = True
    return Raw(msgspec.json.encode(origin))


def shape_step(state: str, at: int, rule: str | None = None, by: str | None = None) -> dict[str, object]:
    """One line of a history."""
    return {"state": state, "at": format_time(at), "rule": rule, "by": by}


def shape_history(row: MessageRow, events: Sequence[EventRow]) -> list[dict[str, object]]:
    """A message's life, oldest first: its columns, and its events where they say more."""
    told = {(event.state, event.at) for event in events if event.state in FINAL}
    began_held = any(event.state == "held" for event in events)
    columns = [
        ("queued", row.sent_at, row.rule),
        ("handed", row.handed_at, None),
        ("delivered", row.delivered_at, None),
        ("replied", row.replied_at, None),
        (row.state, row.ended_at if row.state in FINAL else None, None),
    ]
    steps = [
        (at, rank, shape_step(state, at, rule))
        for rank, (state, at, rule) in zip(_COLUMN_RANKS, columns, strict=True)
        if at is not None and (state, at) not in told and not (state == "queued" and began_held)
    ]
    steps += [
        (event.at, 0 if event.state == "held" else 3, shape_step(event.state, event.at, event.rule, event.by))
        for event in events
    ]
    steps.sort(key=lambda step: step[:2])
    return [step for _, _, step in steps]


_COLUMN_RANKS = (1, 2, 4, 5, 6)
"""Which of the steps of one millisecond came first. Events keep their order; they come after the columns that tell when
it was first queued and handed, and before those that end it."""


def shape_entry(row: MessageRow, events: Sequence[EventRow] = (), *, with_text: bool) -> dict[str, object]:
    """One line of the log. events: of this message; they say what was decided about it, by whom and by which rule.
    with_text: whether what its sender wrote is shown, the summary too."""
    origin: dict[str, object] = {"kind": row.sender_kind, "id": row.sender_id, "name": row.sender_name}
    if row.subagent:
        origin["subagent"] = True
    return {
        "id": row.id,
        "state": row.state,
        "from": origin,
        "to": {"id": row.target_id, "name": row.target_name},
        "sent_at": format_time(row.sent_at),
        "delivered_at": format_time_or_none(row.delivered_at),
        "replied_at": format_time_or_none(row.replied_at),
        "ended_at": format_time_or_none(row.ended_at),
        "bytes": row.bytes,
        "summary": row.summary if with_text else None,
        "reply_to": row.reply_to,
        "thread": row.thread,
        "hop": row.hop,
        "cause": row.cause,
        "rule": row.rule,
        "decisions": [shape_step(event.state, event.at, event.rule, event.by) for event in events],
        "text": row.body if with_text else None,
    }

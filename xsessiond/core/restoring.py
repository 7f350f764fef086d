"""The start: what the last broker knew, taken up from what it stored.

Laws: each session that ran may come back within the grace time; a granted one has its socket, whether it ran or not;
what was held is held; what its project says is not known yet, so it holds. Refuses to know: how it was stored.
"""

from __future__ import annotations

from xsessiond.core import limits
from xsessiond.core.delivery import Delivery
from xsessiond.core.effects import CloseDoor, OpenDoor, Prune, ReadProject, Restored, WatchProcess
from xsessiond.core.grants import Granting
from xsessiond.core.holding import Holding
from xsessiond.core.mailbox import message_of
from xsessiond.core.receipts import Receipts
from xsessiond.core.records import DropPins, DropWatch, GrantRow, HoldRow, MessageRow, SessionRow, Snapshot
from xsessiond.core.roster import Session
from xsessiond.core.shapes import shape_origin
from xsessiond.core.state import Core
from xsessiond.core.times import Now
from xsessiond.core.watchers import Watchers


def restore(
    core: Core,
    delivery: Delivery,
    receipts: Receipts,
    holding: Holding,
    watchers: Watchers,
    granting: Granting,
    event: Restored,
    now: Now,
) -> None:
    """Takes up where the last broker ended: each session may come back within the grace time."""
    core.boot_id, core.started_mono, core.started_ms, core.pruned_at = event.boot_id, now.mono, now.ms, now.ms
    snapshot = event.snapshot
    core.next_seq = snapshot.next_seq
    core.trusts = {row.id: row for row in snapshot.trusts}
    grants = {row.session_id: row for row in snapshot.grants}
    for row in snapshot.sessions:
        _restore_session(core, holding, row, grants.get(row.id), now)
    for session in core.roster.known.values():
        if session.grant is not None:
            granting.open(session, now)
    _restore_memories(core, receipts, snapshot, now)
    for trust in snapshot.trusts:
        if trust.id in core.trusts and trust.until is not None and trust.until <= now.ms:
            holding.end_trust(trust.id)
    holds = {row.seq: row for row in snapshot.holds}
    for message_row in snapshot.messages:
        _restore_message(core, holding, holds.get(message_row.seq), message_row, now)
    for watch in snapshot.watches:
        if (target := core.roster.known.get(watch.target_id)) is not None:
            watchers.restore(watch, target, now)
        else:
            core.log("error", "who asked to be told of a session that is not known is not told", asker=watch.asker_id)
            core.persist(DropWatch(watch.asker_id, watch.target_id))
    for session in core.roster.ended():
        delivery.keep_for_later(session, now)
    core.out.append(Prune(now.ms - core.settings.keep_ms))


def _restore_session(core: Core, holding: Holding, row: SessionRow, grant: GrantRow | None, now: Now) -> None:
    session = Session.from_row(row)
    session.seen, session.grant = now.mono, grant
    holding.refresh_policy(session)
    if row.live and row.boot_id == core.boot_id:
        core.roster.add(session)
        if grant is None:
            core.out.append(OpenDoor(session.id, session.ref))
        if session.process is not None:
            session.watched = True
            core.out.append(WatchProcess(session.process))
        core.agenda.schedule(("grace", session.id), now.mono + limits.GRACE_S)
    else:
        session.ended_at = row.ended_at if row.ended_at is not None else now.ms
        if row.boot_id != core.boot_id:
            session.process = None  # that process is dead, and its number means somebody else
        core.roster.remember(session)
        holding.end_trusts_of(session)
        if row.live:
            core.persist(DropPins(session.id))
            core.save(session)
            if grant is None:
                core.out.append(CloseDoor(session.id))
    core.out.append(ReadProject(session.id, session.cwd))


def _restore_memories(core: Core, receipts: Receipts, snapshot: Snapshot, now: Now) -> None:
    for sender_id, target_id, pair_seq in snapshot.pair_seqs:
        if (sender := core.owner_of(sender_id)) is not None:
            sender.pair_seqs[target_id] = pair_seq
    for pin in snapshot.pins:
        if (owner := core.roster.known.get(pin.sender_id)) is not None and owner.running:
            owner.pins[pin.name] = pin.target_id
    for target_id, message_id, hop, at in snapshot.entered:
        if (reader := core.roster.known.get(target_id)) is not None:  # whether a turn of its goes on is not known
            reader.causes.enter(message_id, hop, now.mono - max(now.ms - at, 0) / 1000)
    for receipt in snapshot.receipts:
        receipts.restore(receipt)


def _restore_message(core: Core, holding: Holding, hold: HoldRow | None, row: MessageRow, now: Now) -> None:
    owner = core.owner_of(row.target_id)
    if owner is None:
        core.log("error", "a message has no receiver", message=row.id)
        return
    sender = core.owner_of(row.sender_id or "")
    message = message_of(row, shape_origin(row, sender.ref if sender is not None else None))
    core.messages[message.id] = message
    if row.state == "held":
        if hold is None:  # it never got through, whatever the reason was
            core.log("error", "a held message has no reason", message=row.id)
            hold = HoldRow(row.seq, row.id, "invalid-setting", "its reason was lost", "several", row.sent_at, None)
        holding.take_up(message, owner, hold, now)
        return
    message.hold = hold
    owner.box.put(message)

"""What the broker keeps: the rows it remembers and the operations that change them.

Laws: values only; a store makes them durable and gives them back. Times are wall-clock milliseconds since the epoch.
Refuses to know: SQL, how the rows are indexed, when they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

Kind = Literal["session", "human", "script"]
Digest = bytes
"""SHA-256."""


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session as stored. `inbound`: the policy it was launched with, or a word that is none where that could not be
    read. `live` says whether it was in the roster; `token_hash` is SHA-256 of the token's text."""

    id: str
    ref: str
    name: str
    label: str | None
    harness: str
    harness_session_id: str | None
    cwd: str
    pid: int | None
    pid_start: int | None
    boot_id: str | None
    perm_class: str
    delivery: str
    can_reply: bool
    modes: str
    token_hash: bytes
    machine: str
    live: bool
    noted: bool
    started_at: int
    last_seen_at: int
    ended_at: int | None
    inbound: str | None = None


class MessageRow(msgspec.Struct, frozen=True, gc=False):
    """A message as stored, fields in the order of the table's columns. `seq` is the broker's own order of acceptance.

    sender_kind: session | human | script; the sender_* columns say what was true when it was sent. sha256: of the body
    as UTF-8. handed_at, delivered_at, replied_at, ended_at: when it first got there, or None. expires_at: of a message
    that still waits. cause: id of the message that its sender acted on, or None; hop: how many such came before it.
    subagent: a subagent of its sender wrote it.
    """

    seq: int
    id: str
    state: str
    sender_kind: Kind
    sender_id: str | None
    sender_name: str
    sender_harness: str | None
    sender_cwd: str | None
    target_id: str
    target_name: str
    body: str
    bytes: int
    sha256: Digest
    summary: str | None
    reply_to: str | None
    thread: str
    hop: int
    mode: str
    key: str | None
    pair_seq: int
    rule: str
    sent_at: int
    expires_at: int | None
    handed_at: int | None = None
    delivered_at: int | None = None
    replied_at: int | None = None
    ended_at: int | None = None
    cause: str | None = None
    subagent: bool = False


class EventRow(msgspec.Struct, frozen=True):
    """A step in a message's life that the message's own columns do not tell: a hold, a decision, an expiry and its
    reason."""

    message_id: str
    at: int
    state: str
    by: str | None
    rule: str | None


class PutSession(msgspec.Struct, frozen=True):
    """Insert the row, or replace the one of the same id."""

    row: SessionRow


class PutMessage(msgspec.Struct, frozen=True, gc=False):
    """Insert a new message."""

    row: MessageRow


class MarkMessage(msgspec.Struct, frozen=True, gc=False):
    """A message came to `state` at `at`. Sets state and, where it is the first time, `handed_at`, `delivered_at` or
    `replied_at`; every state but queued, held and handed sets `ended_at`: from then on nothing waits. With `by` or
    `rule`, or for a state that has no column of its own, an EventRow is added too."""

    seq: int
    message_id: str
    state: str
    at: int
    by: str | None = None
    rule: str | None = None


class PutPin(msgspec.Struct, frozen=True):
    """Sender `sender_id` reaches `target_id` under the folded name `name`. Replaces an earlier pin of the same name."""

    sender_id: str
    name: str
    target_id: str


class DropPins(msgspec.Struct, frozen=True):
    """The sender's conversation ended: its pins go."""

    sender_id: str


class PutReceipt(msgspec.Struct, frozen=True):
    """A receipt that waits for the session's next step. wake: it should start a turn if the session is idle, and causes
    what is done then; hop: as of a message."""

    session_id: str
    message_id: str
    state: str
    at: int
    text: str
    wake: bool = False
    hop: int = 0


class DropReceipts(msgspec.Struct, frozen=True):
    """The session took its receipts up to and including those of `at`."""

    session_id: str
    upto: int


class HoldRow(msgspec.Struct, frozen=True):
    """Why a message was held, and how it was let go.

    sender_class: as it was when it was sent. expires_at: None for a hold that waits for ever. answers: seq of the
    message that it replies to. released_at, released_rule: None while it is held, and when it was never let go;
    released_by: the person who decided, None where a rule did.
    """

    seq: int
    message_id: str
    cause: str
    rule: str
    sender_class: str
    held_at: int
    expires_at: int | None
    answers: int | None = None
    released_at: int | None = None
    released_rule: str | None = None
    released_by: str | None = None


class PutHold(msgspec.Struct, frozen=True):
    """Insert the row, or replace that of the same message."""

    row: HoldRow


class TrustRow(msgspec.Struct, frozen=True):
    """A decision that covers what follows between two sessions. scope: `session` ends with either of them, `pair` does
    not; until: or at this time. by: who decided."""

    id: str
    sender_id: str
    sender_name: str
    target_id: str
    target_name: str
    scope: str
    by: str
    at: int
    until: int | None


class PutTrust(msgspec.Struct, frozen=True):
    """Insert the row, or replace the one of the same id."""

    row: TrustRow


class DropTrust(msgspec.Struct, frozen=True):
    """It covers nothing any more."""

    trust_id: str


class WatchRow(msgspec.Struct, frozen=True):
    """A session or a human asked to be told once when another session is idle. asker_id: as `SessionRow.id`, or
    `human`. at: when it asked first. until: when it is told that it was in vain. hop: of the notice, as of an answer to
    what the asker did then."""

    asker_id: str
    target_id: str
    at: int
    until: int
    hop: int = 0


class PutWatch(msgspec.Struct, frozen=True):
    """Insert the row, or replace that of the same two."""

    row: WatchRow


class DropWatch(msgspec.Struct, frozen=True):
    """The asker was told, or nobody asks any more."""

    asker_id: str
    target_id: str


class GrantRow(msgspec.Struct, frozen=True):
    """A session that a human made for a container: it has a socket of its own in `directory`, and comes and goes with
    whoever has its token there. by: who granted it. until: when that ends, None for never."""

    session_id: str
    directory: str
    by: str
    at: int
    until: int | None


class PutGrant(msgspec.Struct, frozen=True):
    """Insert the row, or replace that of the same session."""

    row: GrantRow


class DropGrant(msgspec.Struct, frozen=True):
    """It was revoked, or is over."""

    session_id: str


Op = (
    PutSession
    | PutMessage
    | MarkMessage
    | PutPin
    | DropPins
    | PutReceipt
    | DropReceipts
    | PutHold
    | PutTrust
    | DropTrust
    | PutWatch
    | DropWatch
    | PutGrant
    | DropGrant
)


class Snapshot(msgspec.Struct, frozen=True):
    """All that is live, loaded once at the start.

    sessions: all that are stored: those live, and those that pruning left, because they ended less than the keeping
    time ago or have waiting mail. messages: state queued, held or handed, by seq. receipts: in the order in which they
    came. next_seq: one more than the highest seq ever used. pair_seqs: highest pair_seq ever used per (sender, target)
    among these sessions; a sender without an id stands there by its kind. holds: of these messages. trusts: all,
    those that are over too. watches, grants: all. entered: what came to somebody's knowledge in the last CAUSE_KEPT_S
    before the newest delivery: receiver, message, hop and when, by receiver in that order; of each hop the message that
    was accepted last.
    """

    sessions: Sequence[SessionRow]
    messages: Sequence[MessageRow]
    pins: Sequence[PutPin]
    receipts: Sequence[PutReceipt]
    next_seq: int
    pair_seqs: Sequence[tuple[str, str, int]]
    holds: Sequence[HoldRow] = ()
    trusts: Sequence[TrustRow] = ()
    watches: Sequence[WatchRow] = ()
    entered: Sequence[tuple[str, str, int, int]] = ()
    grants: Sequence[GrantRow] = ()

"""What the requests of the wire may carry: the params of each method, as types that are checked once.

Laws: what a client may leave out has its default here; nobody behind the wire sees a raw object. Refuses to know: what
a request leads to.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

PermClass = Literal["bypass", "prompting"]
Delivery = Literal["push", "turn", "pull", "none"]
Mode = Literal["auto", "followup", "inject", "steer"]
State = Literal["idle", "busy", "waiting", "unknown"]


class HelloParams(Struct, frozen=True):
    """Who speaks, and which protocol. conversation: the harness's own id of the one that it is part of, as it says."""

    protocol: int
    client: str = ""
    conversation: str | None = None


class Resume(Struct, frozen=True):
    """Proof of being a known session."""

    id: str
    token: str


class RegisterParams(Struct, frozen=True):
    """docs/protocol.md, "Becoming a session"."""

    harness: str = "mcp"
    cwd: str = "/"
    name: str | None = None
    title: str | None = None
    label: str | None = None
    harness_session_id: str | None = None
    pid: int | None = None
    perm_class: PermClass | None = msgspec.field(name="class", default=None)
    inbound: Literal["accept", "hold", "refuse"] | str | None = None
    delivery: Delivery = "pull"
    can_reply: bool = True
    modes: tuple[Mode, ...] = ("auto",)
    resume: Resume | None = None


class AttachParams(Struct, frozen=True):
    """The token, and whether mail is pushed over this link."""

    token: str
    push: bool = False


class ListParams(Struct, frozen=True):
    """all: also conversations that do not run."""

    all: bool = False


class SendParams(Struct, frozen=True):
    """A message, or without one only the wish to be told when the receiver is idle. wait_reply: seconds. when_offline:
    None is what the settings say. key: see docs/protocol.md, "Keys and retries". subagent: the caller's session has it
    from a subagent."""

    message: str | UnsetType = UNSET
    to: str | None = None
    summary: str | None = None
    reply_to: str | None = None
    mode: Mode = "auto"
    wait_reply: float | None = None
    notify_when_idle: bool = False
    when_offline: Literal["refuse", "queue", "resume"] | None = None
    key: str | None = None
    subagent: bool = False


class CheckParams(Struct, frozen=True):
    """Without an id: the caller's last sends."""

    message_id: str | None = None


class TakeParams(Struct, frozen=True):
    """render: add the finished envelope."""

    max: int | None = None
    render: bool = False


class AckParams(Struct, frozen=True):
    """Either ids or a push number."""

    ids: tuple[str, ...] = ()
    upto: int | None = None


class IdsParams(Struct, frozen=True):
    """Messages by id."""

    ids: tuple[str, ...]


class RenameParams(Struct, frozen=True):
    """of: whose name, when a human renames."""

    name: str
    of: str | None = None


class UpdateParams(Struct, frozen=True):
    """What the harness reports about its session; absent stays as it was."""

    state: State | UnsetType = UNSET
    perm_class: PermClass | UnsetType | None = msgspec.field(name="class", default=UNSET)
    harness_session_id: str | UnsetType | None = UNSET
    delivery: Delivery | UnsetType = UNSET
    modes: tuple[Mode, ...] | UnsetType = UNSET
    harness: str | UnsetType = UNSET
    attended: bool | UnsetType = UNSET


class TurnParams(Struct, frozen=True):
    """A turn of the session began or ended. by: what began it; None is `other`, and at its end it says nothing."""

    phase: Literal["started", "ended"]
    by: Literal["human", "mail", "other"] | None = None


class LogParams(Struct, frozen=True):
    """since: RFC 3339. thread: the id of any message of the thread."""

    limit: int = 100
    since: str | None = None
    thread: str | None = None
    follow: bool = False


class HoldQueueParams(Struct, frozen=True):
    """message_id: that one only. watch: the link then gets a notification `queue` at each change."""

    message_id: str | None = None
    watch: bool = False


class DecideParams(Struct, frozen=True):
    """A human's word about held messages. trust: what it covers besides; for_s: for so many seconds."""

    verdict: Literal["approve", "deny"]
    ids: tuple[str, ...] = ()
    all: bool = False
    trust: Literal["once", "session", "pair"] | None = None
    for_s: Annotated[float, msgspec.Meta(gt=0, le=1e9)] | None = None
    reason: str | None = None
    passphrase: str | None = None


class RevokeTrustParams(Struct, frozen=True):
    """One remembered approval by its id."""

    id: str
    passphrase: str | None = None


class GrantParams(Struct, frozen=True):
    """A session for a container. directory: where its socket goes. cwd: its folder, of this machine. for_s: for so many
    seconds; None: until it is revoked."""

    name: str
    directory: str
    cwd: str
    perm_class: PermClass | None = msgspec.field(name="class", default=None)
    for_s: Annotated[float, msgspec.Meta(gt=0, le=1e9)] | None = None
    passphrase: str | None = None


class RevokeGrantParams(Struct, frozen=True):
    """A granted session by its name, ref or id."""

    of: str
    passphrase: str | None = None


class ExplainParams(Struct, frozen=True):
    """Two addresses; the sender may be `human` or `script`."""

    sender: str
    receiver: str


class CancelParams(Struct, frozen=True):
    """Ends the wait of the request with this id."""

    id: int | str


class NoParams(Struct, frozen=True):
    """Nothing."""

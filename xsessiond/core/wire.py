"""The requests of the wire as types, checked once, where bytes become values.

Laws: a frame is decoded in one pass into the type of its method; what does not fit becomes a `BadFrame` that says why.
Nothing behind this module sees a raw dict. Refuses to know: links, sessions, what a request leads to.
"""

from __future__ import annotations

import json
from typing import Literal, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from xsessiond.core.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from xsessiond.core.wire_params import (
    AckParams,
    AttachParams,
    CancelParams,
    CheckParams,
    DecideParams,
    ExplainParams,
    GrantParams,
    HelloParams,
    HoldQueueParams,
    IdsParams,
    ListParams,
    LogParams,
    NoParams,
    RegisterParams,
    RenameParams,
    RevokeGrantParams,
    RevokeTrustParams,
    SendParams,
    TakeParams,
    TurnParams,
    UpdateParams,
)

RequestId = int | str | None | UnsetType
"""UNSET: a notification, which is never answered."""


class Request(Struct, frozen=True, tag_field="method", kw_only=True):
    """Base of all. `id` is UNSET in a notification."""

    jsonrpc: Literal["2.0"]
    id: RequestId = UNSET


class Hello(Request, frozen=True, tag="hello"):
    """Opens a link."""

    params: HelloParams


class Register(Request, frozen=True, tag="register"):
    """A new session, or one that comes back."""

    params: RegisterParams = RegisterParams()


class Attach(Request, frozen=True, tag="attach"):
    """The session's own link."""

    params: AttachParams


class ListSessions(Request, frozen=True, tag="list"):
    """The roster."""

    params: ListParams = ListParams()


class Whoami(Request, frozen=True, tag="whoami"):
    """Who the broker takes the caller for."""

    params: NoParams = NoParams()


class Send(Request, frozen=True, tag="send"):
    """A message."""

    params: SendParams


class Check(Request, frozen=True, tag="check"):
    """State and history."""

    params: CheckParams = CheckParams()


class Inbox(Request, frozen=True, tag="inbox"):
    """What waits for the caller."""

    params: NoParams = NoParams()


class Take(Request, frozen=True, tag="take"):
    """Leases waiting mail."""

    params: TakeParams = TakeParams()


class Ack(Request, frozen=True, tag="ack"):
    """It is in the model's context."""

    params: AckParams


class Handed(Request, frozen=True, tag="handed"):
    """Given to the harness."""

    params: IdsParams


class Release(Request, frozen=True, tag="release"):
    """Gives leased mail back."""

    params: IdsParams


class Rename(Request, frozen=True, tag="rename"):
    """A new name."""

    params: RenameParams


class Update(Request, frozen=True, tag="update"):
    """News of the harness."""

    params: UpdateParams = UpdateParams()


class Turn(Request, frozen=True, tag="turn"):
    """A turn began or ended."""

    params: TurnParams


class End(Request, frozen=True, tag="end"):
    """The conversation is over."""

    params: NoParams = NoParams()


class Log(Request, frozen=True, tag="log"):
    """Past messages, and those to come."""

    params: LogParams = LogParams()


class HoldQueue(Request, frozen=True, tag="hold_queue"):
    """What a human must decide about."""

    params: HoldQueueParams = HoldQueueParams()


class Decide(Request, frozen=True, tag="decide"):
    """Approve or deny."""

    params: DecideParams


class Trusts(Request, frozen=True, tag="trusts"):
    """The remembered approvals."""

    params: NoParams = NoParams()


class RevokeTrust(Request, frozen=True, tag="revoke_trust"):
    """A remembered approval ends."""

    params: RevokeTrustParams


class Grant(Request, frozen=True, tag="grant"):
    """A session for a container."""

    params: GrantParams


class Grants(Request, frozen=True, tag="grants"):
    """The sessions that are granted."""

    params: NoParams = NoParams()


class RevokeGrant(Request, frozen=True, tag="revoke_grant"):
    """A grant ends."""

    params: RevokeGrantParams


class Explain(Request, frozen=True, tag="explain"):
    """The verdict between two, without sending."""

    params: ExplainParams


class ConfigParams(Struct, frozen=True):
    """to_change: whoever asks is about to change a file of the settings, which only a human may."""

    to_change: bool = False
    passphrase: str | None = None


class Config(Request, frozen=True, tag="config"):
    """The settings in force, each with its source."""

    params: ConfigParams = ConfigParams()


class Reload(Request, frozen=True, tag="reload"):
    """Read the settings anew."""

    params: NoParams = NoParams()


class Cancel(Request, frozen=True, tag="cancel"):
    """A wait is given up."""

    params: CancelParams


class Status(Request, frozen=True, tag="status"):
    """Frozen."""

    params: Raw = Raw(b"{}")


class Charges(Request, frozen=True, tag="charges"):
    """Who holds what."""

    params: NoParams = NoParams()


class Stop(Request, frozen=True, tag="stop"):
    """Frozen."""

    params: Raw = Raw(b"{}")


class Restart(Request, frozen=True, tag="restart"):
    """A successor goes on."""

    params: Raw = Raw(b"{}")


AnyRequest = (
    Hello | Register | Attach | ListSessions | Whoami | Send | Check | Inbox | Take | Ack | Handed | Release | Rename
    | Update | Turn | End | Log | Cancel | Status | Stop | Restart
    | HoldQueue | Decide | Trusts | RevokeTrust | Grant | Grants | RevokeGrant | Explain | Config | Reload | Charges
)  # fmt: skip

METHODS = frozenset(str(kind.__struct_config__.tag) for kind in get_args(AnyRequest))
"""Their names."""


class Answer(Struct, frozen=True):
    """What a client answered to a request of the broker."""

    id: int | str


class BadFrame(Struct, frozen=True):
    """A frame that is no request. id: of the request it would have been, or None. fatal: the link cannot go on."""

    id: int | str | None
    code: int
    text: str
    fatal: bool = False
    refusal: str | None = None


class _Loose(Struct):
    jsonrpc: str = ""
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_decode_request = msgspec.json.Decoder(AnyRequest).decode
_decode_loose = msgspec.json.Decoder(_Loose).decode
encode = msgspec.json.Encoder().encode
"""Any value of the core as compact JSON, UTF-8, without a newline."""


def decode_frame(line: bytes) -> AnyRequest | Answer | BadFrame:
    """One line as a value. Never raises."""
    try:
        request: AnyRequest = _decode_request(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        return _explain(line, str(problem))
    return request


def _explain(line: bytes, problem: str) -> Answer | BadFrame:
    """The slow way: why a line is no request, in JSON-RPC's own codes."""
    try:
        loose = _decode_loose(line)
    except msgspec.ValidationError as wrong:
        # A list or a text is no frame of any version, and before the handshake no sign of a client of ours.
        fatal = not line.lstrip().startswith(b"{")
        return BadFrame(None, INVALID_REQUEST, f"Not a JSON-RPC request: {wrong}.", fatal=fatal)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        return _half_character(line) or BadFrame(
            None, PARSE_ERROR, f"Not a JSON object on one line: {wrong}.", fatal=True
        )
    request_id = None if loose.id is UNSET else loose.id
    if loose.jsonrpc != "2.0":
        return BadFrame(request_id, INVALID_REQUEST, 'Not a JSON-RPC 2.0 frame: "jsonrpc" must be "2.0".')
    if loose.method is UNSET:
        if (loose.result is not UNSET or loose.error is not UNSET) and request_id is not None:
            return Answer(request_id)
        return BadFrame(request_id, INVALID_REQUEST, "Not a request: it has no method.")
    if loose.method not in METHODS:
        return BadFrame(request_id, METHOD_NOT_FOUND, f"There is no method {loose.method[:80]!r}.")
    of_message = "$.params.message" in problem and "missing" not in problem
    code = "not_text" if of_message or "UTF-8" in problem else "usage"
    return BadFrame(
        request_id, INVALID_PARAMS, f"The params of {loose.method} are not as they must be: {problem}.", refusal=code
    )


def _half_character(line: bytes) -> BadFrame | None:
    """JSON can spell half of a character (a lone surrogate), which is no text; our decoder takes that for broken JSON.
    The answer, if that is what is wrong with the line."""
    if b"\\ud" not in line.lower():
        return None
    try:
        value = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    request_id = value.get("id")
    if type(request_id) is not int and not (isinstance(request_id, str) and request_id.isascii()):
        request_id = None
    text = "A text in the frame has half of a character (a lone surrogate)."
    return BadFrame(request_id, INVALID_PARAMS, text, refusal="not_text")

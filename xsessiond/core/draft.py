"""A message before it is accepted: what its request alone tells, checked.

Laws: what this broker cannot do is refused here, never left out in silence; nothing is looked up. Refuses to know: who
receives it, whether it may go.
"""

from __future__ import annotations

from hashlib import sha256

from msgspec import UNSET, Struct

from xsessiond.core import limits
from xsessiond.core.causality import Cause
from xsessiond.core.errors import Refusal
from xsessiond.core.mailbox import Message
from xsessiond.core.records import MessageRow
from xsessiond.core.roster import Session
from xsessiond.core.state import Caller
from xsessiond.core.text import check_body
from xsessiond.core.wire import RequestId, Send, encode
from xsessiond.core.wire_params import SendParams


class Draft(Struct):
    """A message on its way through the checks, or a wish without one. link, request_id: whom to answer. size: bytes of
    the body as UTF-8; digest: their SHA-256. What the checks find out: pin, the name to remember for its target;
    notice, what the sender should know; original, the message that it answers, and its thread; cause, what its sender
    acts on; resume, that its target is to be started for it; resumed, which that was."""

    link: int
    request_id: RequestId
    caller: Caller
    params: SendParams
    body: str
    size: int
    digest: bytes
    pin: str | None = None
    notice: str | None = None
    thread: str | None = None
    original: MessageRow | Message | None = None
    cause: Cause | None = None
    resume: bool = False
    resumed: Session | None = None


def draft_of(link: int, request: Send, caller: Caller) -> Draft:
    """The draft of a request. Raises Refusal: empty, not_text, too_large, unsupported_mode, usage."""
    params = request.params
    if params.message is UNSET:
        _check_wish(params)
        return Draft(link, request.id, caller, params, "", 0, b"")
    body = check_body(params.message)
    data = body.encode()
    size = len(data)
    # A character may take six bytes in JSON; the quotes around it all are the frame's.
    escaped = size if size <= limits.MAX_BODY // 6 else len(encode(body)) - 2
    if escaped > limits.MAX_BODY:
        as_json = "" if escaped == size else f" ({escaped} in JSON)"
        raise Refusal(
            "too_large",
            f"The message has {size} bytes{as_json}; the limit is {limits.MAX_BODY}. Nothing was sent.",
            "Put it in a file and send its path.",
            detail={"bytes": size, "limit": limits.MAX_BODY},
        )
    if params.summary is not None and len(params.summary) > limits.MAX_LABEL:
        raise Refusal(
            "too_large",
            f"The summary has {len(params.summary)} characters; the limit is {limits.MAX_LABEL}. Nothing was sent.",
            "Shorten it: the text itself goes into the message.",
        )
    if params.key is not None and not 0 < len(params.key) <= limits.MAX_KEY:
        raise Refusal(
            "usage",
            f"A key has 1 to {limits.MAX_KEY} characters; this one has {len(params.key)}. Nothing was sent.",
            "Use another one, such as a UUID.",
        )
    return Draft(link, request.id, caller, params, body, size, sha256(data).digest())


def _check_wish(params: SendParams) -> None:
    """A request without a text: only a wish to be told goes without."""
    if not params.notify_when_idle:
        raise Refusal("usage", "There is no message. Nothing was sent.", "Say in `message` what to send.")
    if params.wait_reply or params.summary or params.mode != "auto" or params.when_offline in ("queue", "resume"):
        raise Refusal(
            "usage",
            "Without a message there is nothing to wait for, to summarize or to keep. Nothing was done.",
            "Give a message, or only who to be told of: to, or reply_to, with notify_when_idle.",
        )

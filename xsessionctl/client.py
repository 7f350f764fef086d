"""The blocking client: one connection to the broker, one request at a time, everything within a deadline.

Laws: no policy, no retry, no start of a broker (that is `lifecycle`). The greeting travels in the same write as the
first request, so that a request costs one round trip. `status`, `stop` and `restart` go without a greeting and work
with a broker of any version. Every failure is a `ClientError` that a person can read. Refuses to know: what the methods
mean, who prints.
"""

from __future__ import annotations

import sys
from os import environ, geteuid
from time import monotonic

from xsessionctl.codec import decode, encode
from xsessionctl.sockets import READ_SIZE, connect_unix, limit_wait, peer_uid
from xsessiond import __version__
from xsessiond.core.limits import MAX_FRAME, PROTOCOL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xsessionctl.sockets import Socket

UNGREETED = ("status", "stop", "restart")
"""Methods that need no `hello`, so that any version may ask for them. The first two are frozen for ever."""
RESTART = "The broker is older: `xsessionctl restart` has the one of this installation go on in its place."
CONVERSATION = "CODEX_THREAD_ID"
"""See `xsessionctl.fast`."""
MAX_ANSWER = 64 << 20
"""An answer longer than this is not from a broker of ours."""


class ClientError(Exception):
    """Why a request has no result. The fields are those of the `error` object of `--json`.

    code: one of `xsessiond.core.errors.CODES`. sent: the request may have reached the broker, and what became of it is
    not known. unheard: the broker went away, or is being replaced, and did nothing of it: it may be asked again.
    """

    def __init__(
        self,
        code: str,
        text: str,
        hint: str | None = None,
        *,
        candidates: list[object] | None = None,
        retry_after_s: float | None = None,
        detail: object = None,
        sent: bool = False,
        unheard: bool = False,
    ) -> None:
        super().__init__(text)
        self.code, self.text, self.hint = code, text, hint
        self.candidates = candidates or []
        self.retry_after_s, self.detail, self.sent, self.unheard = retry_after_s, detail, sent, unheard

    @property
    def exit_code(self) -> int:
        """The exit status of `xsessionctl` for this."""
        from xsessiond.core.errors import EXIT_CODES

        return EXIT_CODES.get(self.code, 1)

    def to_json(self) -> dict[str, object]:
        """The document that `--json` prints."""
        return {
            "error": {
                "code": self.code,
                "text": self.text,
                "hint": self.hint,
                "candidates": self.candidates,
                "retry_after_s": self.retry_after_s,
                "detail": self.detail,
            }
        }


def timed_out(*, sent: bool) -> ClientError:
    """The deadline is over."""
    return ClientError(
        "timeout",
        "The broker did not answer in time.",
        "`xsessionctl doctor` finds out what keeps it; `--timeout S` waits longer.",
        sent=sent,
    )


def link_lost(problem: OSError | str) -> ClientError:
    """The broker went away in the middle. A reset says that it had not read all that was sent to it, so that it cannot
    have done what the last line asked; Linux resets in that case, and only then.
    """
    unread = isinstance(problem, ConnectionResetError | BrokenPipeError) and sys.platform == "linux"
    return ClientError(
        "no_broker",
        "The broker closed the connection before it answered.",
        "Try again; if it stays so, look at `xsessionctl status`.",
        detail=str(problem),
        sent=not unread,
        unheard=unread,
    )


class Connection:
    """One link to the rendezvous. Made by `connect`.

    deadline: on the monotonic clock, for all that follows; may be moved between calls. token: of the session that the
    link is to act as, or None.
    """

    __slots__ = ("_buffer", "_early", "_greeted", "_last_id", "_link", "deadline", "token")

    def __init__(self, link: Socket, deadline: float) -> None:
        self._link = link
        self._buffer = bytearray()
        self._early: list[dict[str, object]] = []  # notifications that came before the answer that was waited for
        self._greeted = False
        self._last_id = 0
        self.deadline = deadline
        self.token: str | None = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the link."""
        self._link.close()

    def call(self, method: str, params: Mapping[str, object] | None = None) -> dict[str, object]:
        """Asks, waits, and returns the result. Raises ClientError."""
        frames = ""
        greeting = attaching = None
        if method not in UNGREETED and not self._greeted:
            greeting = self._next_id()
            hello: dict[str, object] = {"protocol": PROTOCOL, "client": f"xsessionctl/{__version__}"}
            if conversation := environ.get(CONVERSATION):
                hello["conversation"] = conversation
            frames = encode({"jsonrpc": "2.0", "id": greeting, "method": "hello", "params": hello}) + "\n"
            if self.token is not None:
                attaching = self._next_id()
                attach = {"token": self.token, "push": False}
                frames += encode({"jsonrpc": "2.0", "id": attaching, "method": "attach", "params": attach}) + "\n"
        request = self._next_id()
        asked = encode({"jsonrpc": "2.0", "id": request, "method": method, "params": params or {}}) + "\n"
        try:
            data = asked.encode()
        except UnicodeEncodeError:
            raise ClientError(
                "not_text", "That is not valid Unicode text, so nothing was sent.", "Messages are text in UTF-8."
            ) from None
        if len(data) > MAX_FRAME:
            raise ClientError(
                "too_large",
                f"That is too large: {len(data)} bytes with its header, and at most {MAX_FRAME} fit. Nothing was sent.",
                "Put it in a file and send the path.",
                detail={"bytes": len(data), "limit": MAX_FRAME},
            )
        self._write(frames.encode() + data)
        if greeting is not None:
            try:
                self._answer(greeting)
            except ClientError as problem:
                raise _tell_mismatch(problem) from None
            if attaching is not None:
                self._answer(attaching)
            self._greeted = True
        return self._answer(request)

    def notifications(self) -> Iterator[tuple[str, dict[str, object]]]:
        """What the broker says by itself, as (method, params), until the deadline or the end of the link. Raises
        ClientError.
        """
        while True:
            frame = self._early.pop(0) if self._early else self._read()
            method, params = frame.get("method"), frame.get("params")
            if isinstance(method, str):
                yield method, params if isinstance(params, dict) else {}

    def closed_by_peer(self) -> bool:
        """Waits for the end of the link; False if the deadline comes first."""
        try:
            while True:
                limit_wait(self._link, self.deadline)
                if not self._link.recv(READ_SIZE):
                    return True
        except TimeoutError:
            return False
        except OSError:
            return True

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _write(self, data: bytes) -> None:
        try:
            limit_wait(self._link, self.deadline)
            self._link.sendall(data)
        except TimeoutError:
            raise timed_out(sent=True) from None
        except OSError as problem:
            # What it said before it hung up explains more than the broken pipe does.
            if not isinstance(problem, BrokenPipeError | ConnectionResetError):
                raise link_lost(problem) from None

    def _answer(self, request: int) -> dict[str, object]:
        while True:
            frame = self._read()
            if "method" in frame:
                self._early.append(frame)
                continue
            if frame.get("id") not in (request, None):
                continue
            result = frame.get("result")
            if isinstance(result, dict):
                return result
            raise refusal(frame)

    def _read(self) -> dict[str, object]:
        buffer = self._buffer
        looked = 0
        while (end := buffer.find(b"\n", looked)) < 0:
            looked = len(buffer)
            try:
                limit_wait(self._link, self.deadline)
                data = self._link.recv(READ_SIZE)
            except TimeoutError:
                raise timed_out(sent=True) from None
            except OSError as problem:
                raise link_lost(problem) from None
            if not data:
                raise link_lost("end of stream")
            buffer += data
            if len(buffer) > MAX_ANSWER:
                raise ClientError("internal", "What listens there is not a broker: its answer does not end.")
        line = buffer[:end].decode("utf-8", "replace")
        del buffer[: end + 1]
        try:
            frame = decode(line)
        except ValueError:
            frame = None
        if not isinstance(frame, dict):
            raise ClientError("internal", "What listens there is not a broker: it does not speak JSON-RPC.")
        return frame


def _tell_mismatch(problem: ClientError) -> ClientError:
    """A refused greeting, with what to do about it from here: which of the two is older is known now."""
    detail = problem.detail
    theirs = detail.get("protocol") if isinstance(detail, dict) else None
    if problem.code == "version_mismatch" and isinstance(theirs, int):
        older = theirs < PROTOCOL
        problem.hint = RESTART if older else "Upgrade this xsessionctl, or use the one that came with that broker."
    return problem


def refusal(frame: Mapping[str, object]) -> ClientError:
    """What an answer without a result says, as an exception."""
    problem = frame.get("error")
    if not isinstance(problem, dict):
        return ClientError("internal", "What listens there is not a broker: its answer has neither result nor error.")
    data = problem.get("data")
    if not isinstance(data, dict):
        data = {}
    text = data.get("text") or problem.get("message") or "The broker refused."
    code, hint, candidates, retry = (data.get(key) for key in ("code", "hint", "candidates", "retry_after_s"))
    if problem.get("code") == -32601:
        code, hint = "version_mismatch", RESTART  # we ask for nothing that the broker of our version does not know
    elif not isinstance(code, str):
        code = "internal"
    return ClientError(
        code,
        str(text),
        hint if isinstance(hint, str) else None,
        candidates=candidates if isinstance(candidates, list) else None,
        retry_after_s=retry if isinstance(retry, int | float) else None,
        detail=data.get("detail"),
        unheard=code == "no_broker" and isinstance(retry, int | float),
    )


def connect(path: str, deadline: float) -> Connection:
    """A link to what listens on `path`. Raises OSError as it is when nobody does, ClientError when the deadline is
    over or what listens there belongs to somebody else, who would read what we send.
    """
    try:
        link = connect_unix(path, deadline)
    except TimeoutError:
        raise timed_out(sent=False) from None
    owner = peer_uid(link)
    if owner not in (None, 0, geteuid()):
        link.close()
        raise ClientError(
            "not_permitted",
            f"{path} is served by uid {owner}, not by you. Nothing was sent.",
            "Each user has a broker of their own; look at `xsessionctl paths`.",
        )
    return Connection(link, deadline)


def deadline_in(seconds: float) -> float:
    """The moment `seconds` from now, on the clock that deadlines are on."""
    return monotonic() + seconds

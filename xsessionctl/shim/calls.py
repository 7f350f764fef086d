"""Tool calls from their arguments to their written results.

    checked ──▶ waiting for the link ──▶ asked ──▶ fetching mail ──▶ queued for writing ──▶ written: mail acknowledged
                     ▲                     │ link lost                      │ cancelled: mail released
                     └─────────────────────┘

Laws: a call that was asked when the link broke is asked again under the same key, so that it happens once; each call
ends by a deadline, before its harness gives it up. Mail is leased for one result, acknowledged when that is written,
given back when it will not be. Refuses to know: sockets, who is polled.
"""

from __future__ import annotations

import os
from time import monotonic

from xsessionctl.shim import answers, frames
from xsessionctl.shim.mail import Batch, show_message
from xsessionctl.shim.tools import FOR_SUBAGENTS, NOT_FOR_SUBAGENTS, check_arguments
from xsessiond.core import limits
from xsessiond.core.errors import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from xsessionctl.shim.broker_link import BrokerLink
    from xsessionctl.shim.courier import Courier
    from xsessionctl.shim.identity import Identity
    from xsessionctl.shim.mail import Mailbag
    from xsessionctl.shim.outlet import Entry, Outlet
    from xsessionctl.shim.protocol import Call

    class Answers(Protocol):
        """What calls came through: `xsessionctl.shim.protocol`, or what stands for it."""

        def finish(self, call: Call, result: dict[str, object]) -> bytes | None:
            """The line to write once a call has its result, if there is one to write now."""

        def forget(self, call: Call) -> None:
            """The call is over."""


_METHODS = {
    "list_agents": "list",
    "send_message": "send",
    "check_delivery": "check",
    "read_messages": "take",
    "rename_session": "rename",
}
_OFF = {
    "code": "feature_off",
    "text": "Messages between sessions are switched off for this session.",
    "hint": "Its user did that with XSESSIOND_OFF; there is nothing for you to do.",
}


class _Running:
    """One call. deadline: when it has waited long enough for a link. beat_at: when its client is next told that it goes
    on, or None. asked: id of the request on the link, or None. outcome: text, structured content, whether that is an
    error. reply: what it waited for, as `show_message` gives it."""

    __slots__ = (
        "asked", "beat_at", "beats", "call", "cancelled", "deadline", "entry", "limit_s", "method", "outcome", "params",
        "reply",
    )  # fmt: skip

    def __init__(self, call: Call, params: dict[str, object], now: float) -> None:
        self.call, self.params = call, params
        self.method = _METHODS[call.tool]
        wait = params.get("wait_reply")
        self.limit_s = limits.SHIM_ANSWER_S + _time_to_resume(params) + (wait if isinstance(wait, int | float) else 0.0)
        self.deadline: float | None = now + limits.SHIM_BROKER_S
        self.beat_at = now + limits.SHIM_BEAT_S if call.progress_token is not None else None
        self.beats = 0
        self.asked: int | None = None
        self.entry: Entry | None = None
        self.cancelled = False
        self.outcome: tuple[str, dict[str, object], bool] | None = None
        self.reply: dict[str, object] | None = None


class Calls:
    """All that run. protocol: that they came through. courier: who else brings mail to this session's model."""

    __slots__ = ("_courier", "_identity", "_link", "_mailbag", "_outlet", "_protocol", "_running", "_stash")

    def __init__(
        self,
        identity: Identity,
        link: BrokerLink,
        outlet: Outlet,
        protocol: Answers,
        mailbag: Mailbag,
        courier: Courier,
    ) -> None:
        self._identity, self._link, self._outlet, self._protocol = identity, link, outlet, protocol
        self._mailbag, self._courier = mailbag, courier
        self._running: list[_Running] = []
        self._stash: list[str] = []
        link.on_problem = self.link_has_problem

    @property
    def running(self) -> bool:
        """Whether any call has no result yet."""
        return any(item.entry is None for item in self._running)

    @property
    def due(self) -> float | None:
        """When `tick` has something to do."""
        times = [time for item in self._running for time in (item.deadline, item.beat_at) if time is not None]
        return min(times, default=None)

    def start(self, call: Call) -> None:
        """Begins a call."""
        if self._identity.off:
            self._write(_Running(call, {}, 0.0), answers.tell_refusal(_OFF), is_error=True)
            return
        if call.aside and call.tool not in FOR_SUBAGENTS:
            refusal = Refusal("not_permitted", NOT_FOR_SUBAGENTS)
            self._write(_Running(call, {}, 0.0), answers.tell_refusal(refusal.to_json()), is_error=True)
            return
        try:
            params = check_arguments(call.tool, call.arguments)
        except Refusal as refusal:
            self._write(_Running(call, {}, 0.0), answers.tell_refusal(refusal.to_json()), is_error=True)
            return
        if call.tool == "send_message":
            # One call is one message, however often the link breaks.
            params.setdefault("key", f"mcp-{os.urandom(16).hex()}")
            if call.aside:
                params["subagent"] = True
            wait = params.get("wait_reply")
            if isinstance(wait, int | float):
                most = self._identity.longest_call(hears_progress=call.progress_token is not None)
                left = most - limits.SHIM_HANDSHAKE_S - _time_to_resume(params)  # and for the mail that comes along
                params["wait_reply"] = max(0.0, min(float(wait), limits.MAX_WAIT_S, left))
        elif call.tool == "read_messages":
            params["render"] = True
        item = _Running(call, params, monotonic())
        self._running.append(item)
        if self._link.state == "up":
            self._ask(item)
        else:
            self._link.want()

    def cancel(self, call: Call) -> None:
        """Its caller does not want it any more. What it sent stays sent; what it took goes back."""
        for item in self._running:
            if item.call is call:
                item.cancelled = True
                item.beat_at = None
                if item.entry is not None:
                    self._outlet.withdraw(item.entry)
                    return
                if item.asked is None:
                    self._running.remove(item)
                elif item.method == "send":
                    self._link.tell("cancel", {"id": item.asked})
                line = self._protocol.finish(call, {})  # the answers of the rest of its batch, if it was the last
                if line is not None:
                    self._put(call, line, _nothing, _nothing)
                return

    def tick(self, now: float) -> None:
        """Ends the calls that have waited long enough for a broker, and tells of those that go on."""
        for item in list(self._running):
            if item.beat_at is not None and item.beat_at <= now:
                self._beat(item, now)
            if item.deadline is not None and item.deadline <= now:
                text = "The broker cannot be reached; nothing was done." if item.method != "send" else (
                    "The broker cannot be reached. Whether the message was sent is not known; check_delivery will tell."
                    if item.asked is not None else "The broker cannot be reached; nothing was sent."
                )  # fmt: skip
                self._fail(
                    item, {"code": "no_broker", "text": text, "hint": "`xsessionctl status` tells your user more."}
                )

    def _beat(self, item: _Running, now: float) -> None:
        """The client hears that a call goes on; some begin its time anew then. One that does not read hears nothing."""
        item.beat_at = now + limits.SHIM_BEAT_S
        if not self._outlet.waiting:
            item.beats += 1
            params = {"progressToken": item.call.progress_token, "progress": item.beats}
            self._outlet.put(frames.notification("notifications/progress", params))

    def link_is_up(self) -> None:
        """The session is attached: what waits is asked."""
        for item in list(self._running):
            if item.entry is None and item.deadline is not None:
                self._ask(item)

    def link_has_problem(self, problem: dict[str, object]) -> None:
        """There will be no link: what waits is refused with the reason."""
        for item in list(self._running):
            if item.entry is None and item.deadline is not None:
                self._fail(item, problem)

    # -- asking --------------------------------------------------------------------------------------------------------

    def _ask(self, item: _Running) -> None:
        item.deadline = None

        def done(result: dict[str, object] | None, error: dict[str, object] | None) -> None:
            self._answered(item, result, error)

        params = item.params
        if item.method == "take" and self._courier.under_way:
            params = {**params, "max": 0}  # what comes behind must not overtake
        item.asked = self._link.ask(item.method, params, monotonic() + item.limit_s, done)

    def _answered(self, item: _Running, result: dict[str, object] | None, error: dict[str, object] | None) -> None:
        if item.cancelled:
            self._put_away(item, result)
            return
        replaced = error is not None and error.get("code") == "no_broker" and error.get("retry_after_s") is not None
        if replaced or (result is None and error is None):
            # The link broke, and whether the broker did it is not known. It is asked again when the link is back.
            item.deadline = monotonic() + limits.SHIM_BROKER_S
            self._link.want()
            return
        if error is not None:
            item.outcome = (*answers.tell_refusal(error), True)
            self._fetch_mail(item)
        elif result is not None and item.method == "take":
            self._show(item, self._open(result))
        elif result is not None:
            reply = _reply_message(result)
            item.reply = show_message(reply) if reply else None
            item.outcome = (*self._tell(item, result), False)
            self._fetch_mail(item)

    def _tell(self, item: _Running, result: dict[str, object]) -> tuple[str, dict[str, object]]:
        if item.method == "list":
            return answers.tell_list(result)
        if item.method == "check":
            return answers.tell_checked(result)
        if item.method == "rename":
            own = result.get("self")
            if isinstance(own, dict):
                self._link.session = own
            return answers.tell_renamed(result)
        return answers.tell_sent(result, item.reply, waited=bool(item.params.get("wait_reply")))

    def _fetch_mail(self, item: _Running) -> None:
        """What waits for this session comes along with the result."""
        if self._link.state != "up" or item.call.aside:
            self._show(item, Batch())
            return

        def done(result: dict[str, object] | None, error: dict[str, object] | None) -> None:
            if item.cancelled:
                self._put_away(item, result)
            else:
                # Without mail if there is trouble: the call itself has its answer.
                self._show(item, self._open(result or {}))

        params = {"max": 0 if self._courier.under_way else limits.TAKE_MAX, "render": True}
        item.asked = self._link.ask("take", params, monotonic() + limits.SHIM_HANDSHAKE_S, done)

    def _open(self, result: Mapping[str, object]) -> Batch:
        batch = self._mailbag.open(result)
        if not self._courier.under_way:
            self._courier.supply.note_left(batch.left)
        return batch

    def _put_away(self, item: _Running, result: Mapping[str, object] | None) -> None:
        """The answer to a call that was cancelled meanwhile: what it took is given back, what it was told is told
        later."""
        if item in self._running:
            self._running.remove(item)
        reply = item.reply or _reply_message(result or {})
        batch = self._mailbag.open(result or {})
        self._stash += batch.news
        self._release(batch.ids + batch.surplus + ([str(reply.get("id"))] if reply else []))
        self._courier.supply.acknowledge(batch.stale)

    # -- answering -----------------------------------------------------------------------------------------------------

    def _show(self, item: _Running, batch: Batch) -> None:
        self._release(batch.surplus)
        self._courier.supply.acknowledge(batch.stale)
        news = list(batch.news)
        if not item.call.aside:
            news[:0] = [*self._link.notices, *self._stash]
            self._link.notices.clear()
            self._stash.clear()
        more, ids = list(batch.envelopes), list(batch.ids)
        if item.reply is not None:
            more.insert(0, str(item.reply["envelope"]))
            ids.append(str(item.reply["id"]))
        if item.outcome is None:
            text, structured = answers.tell_read(batch)
            is_error = False
            if batch.left and self._courier.under_way:
                text = "What waits is on its way into this conversation; there is nothing to do."
        else:
            text, structured, is_error = item.outcome
            if batch.show:
                structured["mail"] = batch.envelopes
            if batch.left and not self._courier.under_way:
                news.append(f"{batch.left} more messages wait: call read_messages.")
        if news:
            structured["news"] = news
        self._write(item, (text, structured), is_error=is_error, more=news + more, ids=ids)

    def _fail(self, item: _Running, error: Mapping[str, object]) -> None:
        self._write(item, answers.tell_refusal(error), is_error=True)

    def _write(
        self,
        item: _Running,
        told: tuple[str, dict[str, object]],
        *,
        is_error: bool,
        more: list[str] | None = None,
        ids: list[str] | None = None,
    ) -> None:
        item.deadline = item.asked = item.beat_at = None
        result = answers.as_result(*told, more or [], is_error=is_error, revision=item.call.revision)
        line = self._protocol.finish(item.call, result)

        def done() -> None:
            self._forget(item)
            if ids:
                self._mailbag.note_written(ids)
                self._courier.supply.acknowledge(ids)

        def dropped() -> None:
            self._forget(item)
            self._release(ids or [])

        batch = item.call.batch
        if line is not None:
            item.entry = self._put(item.call, line, done, dropped)
        elif batch is not None:
            # Others of its batch still run; the last of them carries this answer.
            self._forget(item)
            batch.written.append(done)
            batch.dropped.append(dropped)

    def answer(
        self, call: Call, text: str, *, is_error: bool, done: Callable[[], None], dropped: Callable[[], None]
    ) -> Entry | None:
        """Writes the result of a call that was never `start`ed: the harness's own, by a hook."""

        def forget() -> None:
            self._protocol.forget(call)
            done()

        line = self._protocol.finish(call, {"content": [{"type": "text", "text": text}], "isError": is_error})
        if line is not None:
            return self._put(call, line, forget, dropped)
        if call.batch is not None:
            call.batch.written.append(forget)
            call.batch.dropped.append(dropped)
        return None

    def _put(self, call: Call, line: bytes, done: Callable[[], None], dropped: Callable[[], None]) -> Entry:
        if call.batch is None:
            return self._outlet.put(line, done, dropped)
        return self._outlet.put(line, _all(call.batch.written, done), _all(call.batch.dropped, dropped))

    def _forget(self, item: _Running) -> None:
        self._protocol.forget(item.call)
        if item in self._running:
            self._running.remove(item)

    def _release(self, ids: list[str]) -> None:
        if ids:
            self._link.tell("release", {"ids": ids})


def _time_to_resume(params: Mapping[str, object]) -> float:
    """How long a send may take before it is sent."""
    return limits.RESUME_WITHIN_S if params.get("when_offline") == "resume" else 0.0


def _reply_message(result: Mapping[str, object]) -> dict[str, object] | None:
    """The message that a send waited for, leased like any other, if it came in time."""
    reply = result.get("reply")
    message = reply.get("message") if isinstance(reply, dict) else None
    return message if isinstance(message, dict) else None


def _nothing() -> None:
    pass


def _all(earlier: list[Callable[[], None]], last: Callable[[], None]) -> Callable[[], None]:
    def call_all() -> None:
        for one in (*earlier, last):
            one()

    return call_all

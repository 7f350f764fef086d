"""The broker: one event in, its effects out.

Laws: `handle` is the only way in; it decides at once, with nothing but the event, the time and what it knows; it never
raises for what a peer did. The caller does the effects in their order and calls again. Refuses to know: sockets,
files, clocks, threads.
"""

from __future__ import annotations

from collections.abc import Callable
from traceback import format_exc
from typing import Any, assert_never

from xsessiond.core import limits
from xsessiond.core import wire as w
from xsessiond.core.delivery import Delivery, own_box
from xsessiond.core.effects import (
    CloseDoor,
    Effect,
    Event,
    FrameReceived,
    HealthChanged,
    LinkClosed,
    LinkOpened,
    LookedUp,
    NotStored,
    OpenDoor,
    ProcessExited,
    Prune,
    Restored,
    SendFrame,
    Stop,
    StopAsked,
    TimePassed,
    WatchProcess,
)
from xsessiond.core.errors import Refusal
from xsessiond.core.introductions import Introductions
from xsessiond.core.jsonrpc import REFUSED
from xsessiond.core.link import Frame, LinkState
from xsessiond.core.mailbox import message_of
from xsessiond.core.questions import Questions
from xsessiond.core.receipts import Receipts
from xsessiond.core.records import MessageRow, PutMessage
from xsessiond.core.roster import Session
from xsessiond.core.sending import Sending
from xsessiond.core.shapes import shape_origin
from xsessiond.core.state import Core, CoreSettings, Identity, Wire
from xsessiond.core.times import Now
from xsessiond.core.wire import Answer, AnyRequest, BadFrame, Hello, encode_error, encode_notification, encode_result

READY = LinkState.READY
BOTH, RENDEZVOUS, PRIVATE = "both", "the rendezvous", "a session's private socket"


class Broker:
    """All decisions. identity and settings as in `state`; entropy: n → n random bytes."""

    def __init__(self, identity: Identity, settings: CoreSettings, entropy: Callable[[int], bytes]) -> None:
        self.core = Core(identity, settings, entropy)
        self._receipts = Receipts(self.core)
        self._delivery = Delivery(self.core, self._receipts)
        self._introductions = Introductions(self.core, self._delivery)
        self._sending = Sending(self.core, self._delivery, self._introductions)
        self._questions = Questions(self.core, self._introductions)
        intro, sending, questions, delivery = self._introductions, self._sending, self._questions, self._delivery
        # Any: each handler takes the type of request that is its key, which a dict cannot say.
        self._methods: dict[type, tuple[str, Callable[[Wire, Any, Now], None]]] = {
            w.Hello: (BOTH, self._hello),
            w.Status: (BOTH, questions.status),
            w.Stop: (BOTH, self._stop),
            w.ListSessions: (BOTH, questions.list_sessions),
            w.Whoami: (BOTH, questions.whoami),
            w.Send: (BOTH, sending.send),
            w.Check: (BOTH, questions.check),
            w.Rename: (BOTH, intro.rename),
            w.Cancel: (BOTH, sending.cancel),
            w.Register: (RENDEZVOUS, intro.register),
            w.Inbox: (BOTH, questions.inbox),
            w.Log: (RENDEZVOUS, questions.read_log),
            w.Attach: (PRIVATE, intro.attach),
            w.Take: (PRIVATE, lambda wire, request, now: delivery.take(wire, own_box(wire), request, now)),
            w.Ack: (PRIVATE, lambda wire, request, now: delivery.acknowledge(wire, own_box(wire), request, now)),
            w.Handed: (PRIVATE, lambda wire, request, now: delivery.hand(wire, own_box(wire), request, now)),
            w.Release: (PRIVATE, lambda wire, request, now: delivery.release(wire, own_box(wire), request, now)),
            w.Update: (PRIVATE, intro.update),
            w.End: (PRIVATE, intro.end),
        }

    def handle(self, event: Event, now: Now) -> list[Effect]:
        """What to do about this event, in order."""
        out: list[Effect] = []
        self.core.out = out
        if type(event) is FrameReceived:  # first, since nearly all are
            self._frame(event, now)
        else:
            self._other(event, now)
        return out

    def _other(self, event: Event, now: Now) -> None:
        match event:
            case FrameReceived():
                self._frame(event, now)
            case LinkOpened():
                self._opened(event, now)
            case LinkClosed():
                self._closed(event, now)
            case ProcessExited():
                self._introductions.process_exited(event.process, now)
            case TimePassed():
                self._time_passed(now)
            case LookedUp():
                self.core.told(event.ticket, event.found, event.problem, now)
            case NotStored():
                self._not_stored(event)
            case Restored():
                self._restored(event, now)
            case StopAsked():
                self._begin_stop(event.reason)
            case HealthChanged():
                self.core.store_ok, self.core.store_detail = event.store_ok, event.store_detail
            case _:
                assert_never(event)

    def next_due(self) -> float | None:
        """When, on the monotonic clock, a `TimePassed` is due; None: nothing is."""
        return self.core.agenda.next_due()

    # -- links ------------------------------------------------------------------------------

    def _opened(self, event: LinkOpened, now: Now) -> None:
        self.core.wires[event.link] = Wire(event.link, event.door, event.peer, event.protocol)
        self.core.agenda.schedule(("hello", event.link), now.mono + limits.FIRST_FRAME_S)
        if self.core.stopping:
            event.protocol.step("drain")

    def _closed(self, event: LinkClosed, now: Now) -> None:
        wire = self.core.wires.pop(event.link, None)
        if wire is None:
            return
        self.core.agenda.cancel(("hello", event.link))
        if wire.following:
            self.core.followers -= 1
        self._introductions.lose_link(wire, now)

    def _frame(self, event: FrameReceived, now: Now) -> None:
        wire = self.core.wires.get(event.link)
        if wire is None:
            return
        frame = event.frame
        session = wire.session
        if session is not None:
            session.seen, session.last_seen_at = now.mono, now.ms
            if session.unresponsive:
                session.unresponsive = False
        method = self._methods.get(type(frame))
        if method is None or isinstance(frame, Answer | BadFrame):
            self._no_request(wire, frame)
            return
        where, handler = method
        if wire.protocol.state is not READY and not self._may_begin(wire, frame):
            return
        if where is not BOTH and (where is PRIVATE) != (wire.door is not None):
            refusal = Refusal("usage", f"This method is for {where}.", "See docs/protocol.md.")
            self.core.refuse(wire, frame.id, refusal)
            return
        try:
            handler(wire, frame, now)
        except Refusal as refusal:
            self.core.refuse(wire, frame.id, refusal)
        except Exception:
            # Our own bug. What was decided so far is done, so that memory and store agree; everybody else goes on.
            self.core.log("error", "a bug", method=type(frame).__name__, trace=format_exc(limit=-6))
            self.core.warn(f"A request ({type(frame).__name__}) met a bug of the broker; the log has more.")
            self.core.refuse(
                wire, frame.id, Refusal("internal", "The broker made a mistake with this request.", "See its log.")
            )

    def _no_request(self, wire: Wire, frame: Frame) -> None:
        if not isinstance(frame, BadFrame):
            if wire.session is not None:
                self.core.agenda.cancel(("pong", wire.session.id))
            return
        if frame.fatal and wire.protocol.state is LinkState.HELLO:
            self.core.close(wire.link, "not the protocol")
            return
        refusal = Refusal(frame.refusal or "usage", frame.text, "See docs/protocol.md.")
        self.core.send(
            wire.link,
            encode_error(
                frame.id, REFUSED if frame.refusal == "not_text" else frame.code, frame.text, refusal.to_json()
            ),
        )
        if frame.fatal:
            self.core.close(wire.link, "broken frame")

    def _may_begin(self, wire: Wire, frame: AnyRequest) -> bool:
        """Before the handshake and while stopping: whether this request goes on. Answers it if not."""
        self.core.agenda.cancel(("hello", wire.link))
        if wire.protocol.allows(frame):
            return True
        if wire.protocol.state is LinkState.DRAINING:
            self.core.refuse(wire, frame.id, Refusal("no_broker", "The broker is stopping.", "Try again in a moment."))
        else:
            self.core.refuse(wire, frame.id, Refusal("usage", "Say hello first.", "See docs/protocol.md."))
            self.core.close(wire.link, "no hello")
        return False

    def _hello(self, wire: Wire, request: Hello, now: Now) -> None:
        identity = self.core.identity
        if request.params.protocol != limits.PROTOCOL:
            raise Refusal(
                "version_mismatch",
                f"The broker {identity.version} speaks protocol {limits.PROTOCOL}, "
                f"this client protocol {request.params.protocol}.",
                "Upgrade the older of the two; `status` and `stop` work all the same.",
                detail={"version": identity.version, "protocol": limits.PROTOCOL},
            )
        wire.protocol.step("agreed")
        broker = {"version": identity.version, "instance": identity.instance, "pid": identity.pid}
        self.core.answer(wire, request.id, {"protocol": limits.PROTOCOL, "broker": broker})

    # -- time ------------------------------------------------------------------------------

    def _time_passed(self, now: Now) -> None:
        for kind, subject in self.core.agenda.pop_due(now.mono):
            match kind:
                case "hello":
                    self.core.close(subject, "no hello in time")  # type: ignore[arg-type]
                case "wait":
                    self._sending.wait_over(str(subject))
                case "stalled":
                    if (message := self.core.messages.get(str(subject))) is not None:
                        self._delivery.stalled(message, now)
                case _:
                    session = self.core.roster.known.get(subject)  # type: ignore[call-overload]
                    if session is not None:
                        self._session_due(kind, session, now)

    def _session_due(self, kind: str, session: Session, now: Now) -> None:
        match kind:
            case "grace":
                self._introductions.grace_over(session, now)
            case "pong":
                self._introductions.missed(session)
            case "keep":
                self._delivery.expire_kept(session, now)
            case _:
                raise ValueError(f"nothing is known about the deadline {kind!r}")

    # -- the store ------------------------------------------------------------------------------

    def _restored(self, event: Restored, now: Now) -> None:
        """Takes up where the last broker ended: each session may come back within the grace time."""
        core = self.core
        core.boot_id, core.started_mono, core.pruned_at = event.boot_id, now.mono, now.ms
        snapshot = event.snapshot
        core.next_seq = snapshot.next_seq
        for row in snapshot.sessions:
            session = Session.from_row(row)
            session.seen = now.mono
            if row.live and row.boot_id == event.boot_id:
                core.roster.add(session)
                core.out.append(OpenDoor(session.id, session.ref))
                if session.process is not None:
                    session.watched = True
                    core.out.append(WatchProcess(session.process))
                core.agenda.schedule(("grace", session.id), now.mono + limits.GRACE_S)
            else:
                session.ended_at = row.ended_at if row.ended_at is not None else now.ms
                core.roster.remember(session)
                if row.live:
                    core.save(session)
                    core.out.append(CloseDoor(session.id, session.ref))
        for sender_id, target_id, pair_seq in snapshot.pair_seqs:
            if (sender := core.owner_of(sender_id)) is not None:
                sender.pair_seqs[target_id] = pair_seq
        for pin in snapshot.pins:
            if (owner := core.roster.known.get(pin.sender_id)) is not None and owner.running:
                owner.pins[pin.name] = pin.target_id
        for receipt in snapshot.receipts:
            self._receipts.restore(receipt.session_id, receipt.message_id, receipt.state, receipt.at, receipt.text)
        for message_row in snapshot.messages:
            self._restore_message(message_row)
        for session in core.roster.ended():
            self._delivery.keep_for_later(session, now)
        core.out.append(Prune(now.ms - core.settings.keep_ms))

    def _restore_message(self, row: MessageRow) -> None:
        owner = self.core.owner_of(row.target_id)
        if owner is None:
            self.core.log("error", "a message has no receiver", message=row.id)
            return
        sender = self.core.owner_of(row.sender_id or "")
        message = message_of(row, shape_origin(row, sender.ref if sender is not None else None))
        owner.box.put(message)
        self.core.messages[message.id] = message

    def _not_stored(self, event: NotStored) -> None:
        for op in event.ops:
            if isinstance(op, PutMessage):
                self._sending.forget(op)
        self.core.store_ok, self.core.store_detail = False, event.text

    # -- the end ------------------------------------------------------------------------------

    def _stop(self, wire: Wire, request: w.Stop, now: Now) -> None:
        if isinstance(request.id, int | str):
            answer = {"stopping": True, "pid": self.core.identity.pid}
            self.core.out.append(SendFrame(wire.link, encode_result(request.id, answer), urgent=True))
        self._begin_stop("asked by a client")

    def _begin_stop(self, reason: str) -> None:
        if self.core.stopping:
            return
        self.core.stopping = True
        for wire in self.core.wires.values():
            wire.protocol.step("drain")
            if wire.session is not None:
                self.core.send(wire.link, encode_notification("bye", {"reason": "stopping"}))
        self.core.log("info", "stopping", reason=reason)
        self.core.out.append(Stop(reason))

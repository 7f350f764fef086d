"""The broker: one event in, its effects out.

Laws: `handle` is the only way in; it decides at once, with nothing but the event, the time and what it knows; it never
raises for what a peer did. The caller does the effects in their order and calls again. Refuses to know: sockets,
files, clocks, threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from traceback import format_exc
from typing import Any, assert_never

from xsessiond.core import limits
from xsessiond.core import wire as w
from xsessiond.core.brakes import Brakes
from xsessiond.core.charges import Charging
from xsessiond.core.deciding import Deciding
from xsessiond.core.delivery import Delivery
from xsessiond.core.effects import (
    ConversationStarted,
    Effect,
    Event,
    FrameReceived,
    LinkClosed,
    LinkOpened,
    LookedUp,
    NotStored,
    PassphraseChecked,
    ProcessExited,
    ProjectRead,
    RareEvent,
    Restored,
    SettingsRead,
    StopAsked,
    StoreReported,
    SuccessorFound,
    TimePassed,
)
from xsessiond.core.ending import Ending
from xsessiond.core.errors import Refusal
from xsessiond.core.grants import Granting
from xsessiond.core.hold_view import HoldView
from xsessiond.core.holding import Holding
from xsessiond.core.introductions import Introductions
from xsessiond.core.jsonrpc import REFUSED
from xsessiond.core.link import Frame, LinkState
from xsessiond.core.liveness import Liveness
from xsessiond.core.losses import Losses
from xsessiond.core.outgoing import encode_error
from xsessiond.core.permission import tell_loosening
from xsessiond.core.policy import CoreSettings
from xsessiond.core.questions import Questions
from xsessiond.core.receipts import Receipts
from xsessiond.core.restoring import restore
from xsessiond.core.resuming import Resuming, Waiting
from xsessiond.core.roster import Session
from xsessiond.core.sending import Sending
from xsessiond.core.state import Asked, Core, Identity, Proving, Wire
from xsessiond.core.times import Now
from xsessiond.core.turns import Turns
from xsessiond.core.waits import Waits
from xsessiond.core.watchers import Watchers
from xsessiond.core.wire import Answer, AnyRequest, BadFrame, Hello, RequestId

READY = LinkState.READY
BEFORE_TOKEN = (w.Hello, w.Attach, w.Status, w.Stop, w.Restart)
"""What may come through a granted socket before the token. The last two are refused to whatever comes there."""
BOTH, RENDEZVOUS, PRIVATE = "both", "the rendezvous", "a session's private socket"


class Broker:
    """All decisions. identity and settings as in `state`; entropy: n → n random bytes."""

    def __init__(self, identity: Identity, settings: CoreSettings, entropy: Callable[[int], bytes]) -> None:
        self.core = Core(identity, settings, entropy)
        self._receipts = Receipts(self.core)
        self._waits = Waits(self.core)
        self._watchers = Watchers(self.core, self._receipts)
        self._delivery = Delivery(self.core, self._receipts, self._waits)
        self._view = HoldView(self.core)
        self._holding = Holding(self.core, self._delivery, self._receipts, self._view)
        self._deciding = Deciding(self.core, self._holding, self._view)
        self._liveness = Liveness(self.core, self._delivery, self._waits, self._holding)
        self._introductions = Introductions(self.core, self._delivery, self._liveness, self._holding)
        self._brakes, self._resuming = Brakes(self.core, self._receipts), Resuming(self.core)
        self._sending = Sending(
            self.core,
            self._delivery,
            self._liveness,
            self._waits,
            self._holding,
            self._watchers,
            self._brakes,
            self._resuming,
        )
        self._losses = Losses(self.core, self._sending, self._watchers)
        self._questions = Questions(self.core, self._liveness)
        self._granting = Granting(self.core, self._deciding, self._introductions, self._liveness, self._holding)
        self._ending = Ending(self.core, self._waits, self._resuming)
        self._turns = Turns(self.core, self._receipts, self._delivery)
        intro, sending, questions, delivery = self._introductions, self._sending, self._questions, self._delivery
        deciding = self._deciding
        # Any: each handler takes the type of request that is its key, which a dict cannot say.
        self._methods: dict[type, tuple[str, Callable[[Wire, Any, Now], None]]] = {
            w.Hello: (BOTH, self._hello),
            w.Status: (BOTH, questions.status),
            w.Stop: (BOTH, self._ending.stop),
            w.Restart: (BOTH, self._ending.restart),
            w.ListSessions: (BOTH, questions.list_sessions),
            w.Whoami: (BOTH, questions.whoami),
            w.Send: (BOTH, sending.send),
            w.Check: (BOTH, questions.check),
            w.Rename: (BOTH, intro.rename),
            w.Cancel: (BOTH, self._cancel),
            w.Register: (RENDEZVOUS, intro.register),
            w.Inbox: (BOTH, questions.inbox),
            w.Log: (RENDEZVOUS, questions.read_log),
            w.Attach: (PRIVATE, self._granting.attach),
            w.Take: (BOTH, delivery.take),
            w.Ack: (BOTH, delivery.acknowledge),
            w.Handed: (PRIVATE, delivery.hand),
            w.Release: (BOTH, delivery.release),
            w.Update: (PRIVATE, intro.update),
            w.Turn: (PRIVATE, self._turns.turn),
            w.End: (PRIVATE, intro.end),
            w.HoldQueue: (RENDEZVOUS, deciding.hold_queue),
            w.Decide: (RENDEZVOUS, deciding.decide),
            w.Trusts: (RENDEZVOUS, deciding.trusts),
            w.RevokeTrust: (RENDEZVOUS, deciding.revoke_trust),
            w.Grant: (RENDEZVOUS, self._granting.grant),
            w.Grants: (RENDEZVOUS, self._granting.show),
            w.RevokeGrant: (RENDEZVOUS, self._granting.revoke),
            w.Explain: (RENDEZVOUS, deciding.explain),
            w.Config: (RENDEZVOUS, deciding.config),
            w.Reload: (RENDEZVOUS, deciding.reload),
            w.Charges: (RENDEZVOUS, Charging(self.core).tell),
        }

    def handle(self, event: Event, now: Now) -> list[Effect]:
        """What to do about this event, in order."""
        out: list[Effect] = []
        self.core.out = out
        if isinstance(event, FrameReceived):  # first, since nearly all are
            self._frame(event, now)
        else:
            self._other(event, now)
        if self._resuming.trying:
            self._let_resumed_go_on(now)
        if self.core.stirred:
            self._watchers.look(now)
        if self.core.queue_changed:
            self._view.tell_watchers()
        return out

    def _other(self, event: RareEvent, now: Now) -> None:
        match event:
            case LinkOpened():
                self._opened(event, now)
            case LinkClosed():
                self._closed(event, now)
            case ProcessExited():
                self._liveness.process_exited(event.process, now)
            case TimePassed():
                self._time_passed(now)
            case LookedUp():
                self._looked_up(event, now)
            case NotStored():
                self._losses.take(event)
            case Restored():
                restore(
                    self.core, self._delivery, self._receipts, self._holding, self._watchers, self._granting, event, now
                )
            case SettingsRead():
                self._settings_read(event, now)
            case ProjectRead():
                self._introductions.project_read(event, now)
            case PassphraseChecked():
                self._passphrase_checked(event, now)
            case ConversationStarted():
                self._resuming.ended(event, now)
            case StopAsked():
                self._ending.begin(event.reason)
            case SuccessorFound():
                self._ending.successor_found(event)
            case StoreReported():
                self.core.store_health.see(event)
            case _:
                assert_never(event)

    def next_due(self) -> float | None:
        """When, on the monotonic clock, a `TimePassed` is due; None: nothing is."""
        return self.core.agenda.next_due()

    # -- links ------------------------------------------------------------------------------

    def _opened(self, event: LinkOpened, now: Now) -> None:
        through = self.core.roster.known.get(event.door or "")
        confined = through is not None and through.grant is not None
        self.core.wires[event.link] = Wire(event.link, event.door, event.peer, event.protocol, confined=confined)
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
        self.core.queue_watchers.discard(event.link)
        self._resuming.drop(event.link)
        self._liveness.lose_link(wire, now)

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
                self.core.stir(session)
            if type(frame) is w.Send:
                self._turns.worked(session, now)
        method = self._methods.get(type(frame))
        if method is None or isinstance(frame, Answer | BadFrame):
            self._no_request(wire, frame)
            return
        where, handler = method
        if wire.protocol.state is not READY and not self._may_begin(wire, frame):
            return
        if wire.confined and not self._may_confined(wire, frame, where):
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
            self._met_bug(wire, frame.id, type(frame).__name__)

    def _may_confined(self, wire: Wire, frame: AnyRequest, where: str) -> bool:
        """Whether what came through a granted socket may go on: its session's, once it has shown its token."""
        if where is not RENDEZVOUS and (wire.session is not None or isinstance(frame, BEFORE_TOKEN)):
            return True
        text = "What comes through the socket of a container acts as its session, and as nothing else."
        hint = "Attach with its token first." if wire.session is None else "Its human does that outside."
        self.core.refuse(wire, frame.id, Refusal("not_permitted", text, hint))
        return False

    def _looked_up(self, event: LookedUp, now: Now) -> None:
        asked = self.core.asked.pop(event.ticket)

        def then(wire: Wire) -> None:
            if self.core.stopping:
                raise self._ending.refusal()
            if event.problem is not None:
                raise Refusal("internal", f"The store could not be read: {event.problem}", "See xsessionctl status.")
            asked.then(wire, event.found, now)

        self._go_on(asked, "after a look into the store", then)

    def _passphrase_checked(self, event: PassphraseChecked, now: Now) -> None:
        proving = self.core.proving.pop(event.ticket)

        def then(wire: Wire) -> None:
            self._deciding.require_passed(event)
            proving.then(wire, now)

        self._go_on(proving, "after a look at the passphrase", then)

    def _let_resumed_go_on(self, now: Now) -> None:
        for waiting, session in self._resuming.arrived():
            self._go_on(waiting, "after a conversation was resumed", partial(waiting.then, target=session, now=now))

    def _go_on(self, waited: Asked | Proving | Waiting, what: str, then: Callable[[Wire], None]) -> None:
        """A request goes on that waited for something, if its link is still there."""
        wire = self.core.wires.get(waited.link)
        if wire is None:
            return
        try:
            then(wire)
        except Refusal as refusal:
            self.core.refuse(wire, waited.request_id, refusal)
        except Exception:
            self._met_bug(wire, waited.request_id, what)

    def _cancel(self, wire: Wire, request: w.Cancel, now: Now) -> None:
        self._resuming.cancel(wire, request.params.id)
        self._waits.cancel(wire, request, now)

    def _settings_read(self, event: SettingsRead, now: Now) -> None:
        before, self.core.settings = self.core.settings, event.settings
        tell_loosening(self.core, before)
        if event.settings.off:
            self._liveness.switch_all_off(now)
        self._holding.reconsider_all(now)
        self._deciding.reloaded()

    def _met_bug(self, wire: Wire, request_id: RequestId, what: str) -> None:
        """Our own bug. What was decided so far is done, so that memory and store agree; everybody else goes on."""
        self.core.log("error", "a bug", method=what, trace=format_exc(limit=-6))
        self.core.warn(f"A request ({what}) met a bug of the broker; the log has more.")
        refusal = Refusal("internal", "The broker made a mistake with this request.", "See its log.")
        self.core.refuse(wire, request_id, refusal)

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
            self.core.refuse(wire, frame.id, self._ending.refusal())
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
                "Upgrade the older of the two; `status`, `stop` and `restart` work all the same.",
                detail={"version": identity.version, "protocol": limits.PROTOCOL},
            )
        wire.conversation = request.params.conversation
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
                    self._waits.give_up(str(subject))
                case "held":
                    if (message := self.core.messages.get(str(subject))) is not None:
                        self._holding.due(message, now)
                case "resume":
                    self._resuming.due(str(subject), now)
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
                self._liveness.grace_over(session, now)
            case "pong":
                self._liveness.missed(session, now)
            case "keep":
                self._holding.expire_kept(session, now)
                self._delivery.expire_kept(session, now)
            case "offer":
                self._delivery.resume(session, now)
            case "idle":
                self._watchers.settled(session, now)
            case "granted":
                self._granting.due(session, now)
            case "watch":
                self._watchers.expire(session, now)
            case _:
                raise ValueError(f"nothing is known about the deadline {kind!r}")

"""The end of the broker: stopping, and handing over to the program that takes its place.

Laws: what was accepted is kept, and everybody who is connected is told; a handover begins only when the successor was
found to be able to go on, so that a broken installation or a downgrade costs nothing. An agent may do neither. Refuses
to know: how a successor is found, processes.
"""

from __future__ import annotations

from xsessiond.core.effects import FindSuccessor, SendFrame, Stop, SuccessorFound
from xsessiond.core.errors import Refusal
from xsessiond.core.limits import HANDOVER_RETRY_S
from xsessiond.core.outgoing import encode_notification, encode_result
from xsessiond.core.permission import forbid_agents
from xsessiond.core.resuming import Resuming
from xsessiond.core.state import Core, Wire
from xsessiond.core.times import Now
from xsessiond.core.waits import Waits
from xsessiond.core.wire import RequestId, Restart
from xsessiond.core.wire import Stop as StopRequest


class Ending:
    """The part of the broker that ends it."""

    __slots__ = ("_asked", "_core", "_resuming", "_waits")

    def __init__(self, core: Core, waits: Waits, resuming: Resuming) -> None:
        self._core, self._waits, self._resuming = core, waits, resuming
        self._asked: tuple[int, RequestId] | None = None

    def stop(self, wire: Wire, request: StopRequest, now: Now) -> None:
        """Frozen. Answered at once, then everything ends."""
        forbid_agents(self._core, wire, "stop the broker")
        self._answer(wire.link, request.id, {"stopping": True, "pid": self._core.identity.pid})
        self.begin("asked by a client")

    def restart(self, wire: Wire, request: Restart, now: Now) -> None:
        """Answered once a successor was found, or was not."""
        forbid_agents(self._core, wire, "restart the broker")
        if self._core.stopping or self._asked is not None:
            raise Refusal(
                "no_broker",
                "The broker is being stopped or restarted already.",
                "Try again in a moment.",
                retry_after_s=HANDOVER_RETRY_S,
            )
        self._asked = wire.link, request.id
        self._core.out.append(FindSuccessor())

    def successor_found(self, event: SuccessorFound) -> None:
        """What the shell found out about the program that would go on."""
        assert self._asked is not None, "nobody asked for a successor"
        (link, request_id), self._asked = self._asked, None
        wire = self._core.wires.get(link)
        if self._core.stopping:
            return  # somebody stopped it meanwhile; who asked hears that
        if event.problem is not None:
            self._core.log("error", "no successor", problem=event.problem)
            if wire is not None:
                text = f"The broker goes on as it was: {event.problem}"
                self._core.refuse(wire, request_id, Refusal("refused", text, "Mend that, then restart it again."))
            return
        identity = self._core.identity
        self._answer(
            link, request_id, {"restarting": True, "pid": identity.pid, "from": identity.version, "to": event.version}
        )
        self.begin("a successor takes over", handover=True)

    def begin(self, reason: str, *, handover: bool = False) -> None:
        """From now on only what settles mail is taken. A handover becomes a stop if that is asked for meanwhile:
        whoever ends a broker means the one that would go on, too."""
        core = self._core
        if core.stopping and (handover or not core.handing_over):
            return
        core.stopping, core.handing_over = True, handover
        for wire in core.wires.values():
            wire.protocol.step("drain")
            if wire.session is not None or wire.following or wire.link in core.queue_watchers:
                bye = {"reason": "restarting" if handover else "stopping"}
                core.send(wire.link, encode_notification("bye", bye))
        for message_id in list(core.waits):
            self._waits.give_up(message_id)
        self._resuming.stop(self.refusal())
        core.log("info", "handing over" if handover else "stopping", reason=reason)
        core.out.append(Stop(reason, handover))

    def refusal(self) -> Refusal:
        """What everything else is answered with meanwhile. After a handover the same request will do."""
        if self._core.handing_over:
            text, retry = "The broker is being restarted, and takes nothing new until it was.", HANDOVER_RETRY_S
            return Refusal("no_broker", text, "Ask again on a new connection.", retry_after_s=retry)
        return Refusal("no_broker", "The broker is stopping.", "Try again in a moment.")

    def _answer(self, link: int, request_id: RequestId, value: object) -> None:
        if isinstance(request_id, int | str):
            self._core.out.append(SendFrame(link, encode_result(request_id, value), urgent=True))
